/*
 * eigh_multi_host.c - what gram_eigh_multi does with matrices on the CPU: blocks of columns
 *
 * The threads share rows, a few at a time, so that what is read and what is written both stay in
 * the cache.
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_multi_host.h"
#include "core/threads.h"
#include <math.h>

enum {
    ROWS = 64 /* that a thread takes at a time */
};

/* A block of columns, from row first on (first 0: all rows). */
struct block {
    const struct gram_eigh_multi *m;
    char *tensor; /* the item's first element */
    void *panel;
    int64_t first, cols;
    double *largest; /* one a thread's piece; NULL: elements move */
};

static double element(const struct block *b, const struct gram_view *v, int64_t i, int64_t j)
{
    int64_t at = i * v->row_stride + j * v->col_stride;

    return v->dtype == GRAM_F64 ? ((const double *)(const void *)b->tensor)[at]
                                : (double)((const float *)(const void *)b->tensor)[at];
}

/* ---- The largest magnitude ------------------------------------------------------------------ */

static void largest_of_rows(void *arg, int64_t index, int thread)
{
    const struct block *b = arg;
    int64_t end = gram_least((index + 1) * ROWS, b->m->n);
    double largest = b->largest[thread];

    for (int64_t i = index * ROWS; i < end && !isnan(largest); i++)
        for (int64_t j = 0; j <= i; j++) {
            double x = fabs(element(b, &b->m->a, i, j));
            if (!(x <= largest))
                largest = x;
            if (isnan(x))
                break;
        }
    b->largest[thread] = largest;
}

static double largest(const struct gram_eigh_multi *m, int64_t item)
{
    double of_thread[GRAM_MAX_THREADS] = {0}, all = 0;
    struct block b = {.m = m, .tensor = gram_view_item(&m->a, &m->batch, item)};

    b.largest = of_thread;
    gram_parallel_for(m->contexts[0], gram_ceil_div(m->n, ROWS), largest_of_rows, &b);
    for (int i = 0; i < GRAM_MAX_THREADS; i++)
        if (isnan(of_thread[i]) || of_thread[i] > all)
            all = of_thread[i];
        else if (isnan(all))
            break;
    return all;
}

/* ---- Blocks of columns ---------------------------------------------------------------------- */

static void gather_rows(void *arg, int64_t index, int thread)
{
    const struct block *b = arg;
    const struct gram_view *a = &b->m->a;
    int64_t n = b->m->n, begin = b->first + index * ROWS, end = gram_least(begin + ROWS, n);

    (void)thread;
    for (int64_t j = 0; j < b->cols; j++)
        for (int64_t i = gram_most(begin, b->first + j); i < end; i++) {
            int64_t from = i * a->row_stride + (b->first + j) * a->col_stride;
            if (b->m->dtype == GRAM_F64)
                ((double *)b->panel)[i + j * n] =
                    ldexp(((const double *)(const void *)b->tensor)[from], -b->m->exponent);
            else
                ((float *)b->panel)[i + j * n] =
                    ldexpf(((const float *)(const void *)b->tensor)[from], -b->m->exponent);
        }
}

static void gather(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                   void *panel)
{
    struct block b = {m, gram_view_item(&m->a, &m->batch, item), panel, first, cols, NULL};

    gram_parallel_for(m->contexts[0], gram_ceil_div(m->n - first, ROWS), gather_rows, &b);
}

static void scatter_rows(void *arg, int64_t index, int thread)
{
    const struct block *b = arg;
    const struct gram_view *v = &b->m->vectors;
    int64_t n = b->m->n, end = gram_least((index + 1) * ROWS, n);

    (void)thread;
    for (int64_t j = 0; j < b->cols; j++)
        for (int64_t i = index * ROWS; i < end; i++) {
            int64_t to = i * v->row_stride + (b->first + j) * v->col_stride;
            if (b->m->dtype == GRAM_F64)
                ((double *)(void *)b->tensor)[to] = ((const double *)b->panel)[i + j * n];
            else
                ((float *)(void *)b->tensor)[to] = ((const float *)b->panel)[i + j * n];
        }
}

static void scatter(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                    const void *panel)
{
    struct block b = {m,   gram_view_item(&m->vectors, &m->batch, item), (void *)panel, first, cols,
                      NULL};

    gram_parallel_for(m->contexts[0], gram_ceil_div(m->n, ROWS), scatter_rows, &b);
}

const struct gram_eigh_multi_host gram_eigh_multi_cpu = {
    .largest = largest,
    .gather = gather,
    .scatter = scatter,
};
