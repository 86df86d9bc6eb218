/*
 * krr_rows_cg.c - conjugate gradients of gram_krr_solve over points that are read (gram_rows)
 *
 * A product takes the blocks of K in pairs: while the rows of block i stay where the context
 * computes, those of the blocks j > i pass by, and give K_ij v_j to the sums of i and K_ij^T v_i to
 * those of j.  So all rows are read about half as often as there are blocks.  Sums are f64 on the
 * host, in an order that the number of rows and the size of a block say.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_solve.h"
#include <string.h>

/* What a product works with. */
struct pairs {
    struct krr_problem *p;
    bool wide;
    gram_dtype dtype; /* of points and vectors */
    const gram_kernel_options *kernel;
    int64_t columns;
    const void *v;        /* n by columns, where the context computes */
    struct krr_array own; /* block i: its rows, where the context computes */
    struct krr_array out; /* of one product, block by columns */
    void *here;           /* the same on the host */
    size_t bytes;
    double *sum; /* n by columns, on the host */
};

static size_t size_of(const struct pairs *w)
{
    return gram_dtype_size(w->dtype);
}

/* The rows of a block, in p->narrow_rows or in p->wide_rows. */
static gram_status read_block(gram_context *g, const struct pairs *w, int64_t first, int64_t count,
                              const void **rows)
{
    struct krr_problem *p = w->p;

    TRY(gram_krr_rows_read(g, p, first, count, p->narrow_rows));
    *rows = w->wide ? (const void *)gram_krr_rows_widen(p, count) : p->narrow_rows;
    return GRAM_OK;
}

/* sum of the rows from first on += k(x, y) v of the rows from `from` on; y NULL: x. */
static gram_status add_product(gram_context *g, const struct pairs *w, const gram_tensor *x,
                               const gram_tensor *y, int64_t first, int64_t from)
{
    const int64_t n = w->p->n, count = x->shape[0];
    gram_tensor v = gram_krr_by_columns(g, (const char *)w->v + (size_t)from * size_of(w),
                                        y ? y->shape[0] : count, w->columns, w->dtype);
    gram_tensor out = gram_krr_by_columns(g, w->out.data, count, w->columns, w->dtype);

    v.stride[1] = n;
    TRY(gram_kernel_matmul(g, x, y, w->kernel, &v, NULL, &out));
    TRY(gram_krr_fetch(g, w->here, w->out.data, (size_t)(count * w->columns) * size_of(w)));
    g->call = w->p->call;
    for (int64_t j = 0; j < w->columns; j++)
        for (int64_t i = 0; i < count; i++)
            w->sum[j * n + first + i] += krr_element(w->dtype, w->here, j * count + i);
    return GRAM_OK;
}

/* All pairs of a block with itself and with those behind it. */
static gram_status one_block(gram_context *g, const struct pairs *w, int64_t first)
{
    const struct krr_problem *p = w->p;
    const int64_t own = gram_least(p->block, p->n - first);
    const gram_tensor x = gram_krr_matrix(g, w->own.data, own, p->width, w->dtype);
    const void *rows;

    TRY(read_block(g, w, first, own, &rows));
    TRY(gram_krr_store(g, w->own.data, rows, (size_t)(own * p->width) * size_of(w)));
    TRY(add_product(g, w, &x, NULL, first, first));
    for (int64_t other = first + own; other < p->n; other += p->block) {
        const int64_t count = gram_least(p->block, p->n - other);
        struct krr_array there = {0};
        gram_tensor y;
        gram_status status;

        TRY(read_block(g, w, other, count, &rows));
        TRY(gram_krr_send(g, rows, (size_t)(count * p->width) * size_of(w), &there));
        y = gram_krr_matrix(g, there.data, count, p->width, w->dtype);
        status = add_product(g, w, &x, &y, first, other);
        if (status == GRAM_OK)
            status = add_product(g, w, &y, &x, other, first);
        gram_krr_free(g, &there);
        TRY(status);
    }
    return GRAM_OK;
}

/* The sums to where the context computes; of the dtype, unless products are wide there. */
static gram_status give(gram_context *g, const struct pairs *w, void *out)
{
    const int64_t count = w->p->n * w->columns;
    const bool narrow = w->dtype != GRAM_F64 && !g->backend->krr->wide_product;

    for (int64_t i = 0; narrow && i < count; i++) /* each no longer than what it is made of */
        krr_set_element(w->dtype, w->sum, i, w->sum[i]);
    return gram_krr_store(g, out, w->sum, (size_t)count * (narrow ? size_of(w) : sizeof *w->sum));
}

gram_status gram_krr_rows_multiply(gram_context *g, struct krr_problem *p, bool wide,
                                   int64_t columns, const void *v, void *out)
{
    struct pairs w = {.p = p,
                      .wide = wide,
                      .dtype = wide ? GRAM_F64 : p->dtype,
                      .kernel = wide ? &p->wide_kernel : &p->kernel,
                      .columns = columns,
                      .v = v};
    const size_t sums = (size_t)(p->n * columns) * sizeof *w.sum;
    gram_status status;

    w.bytes = (size_t)(p->block * columns) * size_of(&w);
    w.here = gram_alloc(g, w.bytes);
    w.sum = gram_alloc(g, sums);
    if (w.here && w.sum) {
        memset(w.sum, 0, sums);
        status = gram_krr_allocate(g, (size_t)(p->block * p->width) * size_of(&w), &w.own);
    } else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w.bytes + sums);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, w.bytes, &w.out);
    for (int64_t first = 0; first < p->n && status == GRAM_OK; first += p->block)
        status = one_block(g, &w, first);
    if (status == GRAM_OK)
        status = give(g, &w, out);
    gram_krr_free(g, &w.out);
    gram_krr_free(g, &w.own);
    if (w.sum)
        gram_free(g, w.sum, sums);
    if (w.here)
        gram_free(g, w.here, w.bytes);
    return status;
}

gram_status gram_krr_rows_columns(gram_context *g, void *problem, const int64_t *row, int64_t count,
                                  const gram_tensor *out)
{
    struct krr_problem *p = problem;
    const size_t size = gram_dtype_size(p->dtype);
    struct krr_array chosen = {0};
    gram_tensor points;
    gram_status status = gram_krr_allocate(g, (size_t)(count * p->width) * size, &chosen);

    if (status == GRAM_OK)
        status = gram_krr_rows_load(g, p, row, count, chosen.data);
    points = gram_krr_matrix(g, chosen.data, count, p->width, p->dtype);
    for (int64_t first = 0; first < p->n && status == GRAM_OK; first += p->block) {
        const int64_t rows = gram_least(p->block, p->n - first);
        struct krr_array there = {0};
        gram_tensor x, part = *out;

        part.data = (char *)out->data + (size_t)(first * out->stride[0]) * size;
        part.shape[0] = rows;
        status = gram_krr_rows_read(g, p, first, rows, p->narrow_rows);
        if (status == GRAM_OK)
            status = gram_krr_send(g, p->narrow_rows, (size_t)(rows * p->width) * size, &there);
        x = gram_krr_matrix(g, there.data, rows, p->width, p->dtype);
        if (status == GRAM_OK)
            status = gram_kernel(g, &x, &points, &p->kernel, &part);
        if (status == GRAM_OK && g->backend->synchronize)
            status = g->backend->synchronize(g); /* before the rows go */
        gram_krr_free(g, &there);
    }
    gram_krr_free(g, &chosen);
    g->call = p->call;
    return status;
}
