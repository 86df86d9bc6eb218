/*
 * kron_variants_problem.c - the problems and results of kron_variants.h: sizes, memory, numbers
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_variants.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The product of sizes, or -1 where nobody has so much memory. */
static int64_t product(const int64_t *sizes, int count)
{
    int64_t all = 1;

    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(all, sizes[i], &all) || all > (int64_t)1 << 40)
            return -1;
    return all;
}

static bool allocate(gram_tensor *t, int64_t rows, int64_t cols, gram_dtype dtype)
{
    int64_t bytes;

    if (__builtin_mul_overflow(rows, cols, &bytes) || bytes > (int64_t)1 << 40)
        return false;
    *t = gram_matrix(malloc((size_t)bytes * gram_dtype_size(dtype) + 1), rows, cols, dtype);
    return t->data != NULL;
}

/* Small whole numbers for integers, so that sums stay exact. */
static void fill(struct harness *h, gram_tensor *t, double scale)
{
    bool whole = t->dtype == GRAM_I32 || t->dtype == GRAM_I64;

    for (int64_t e = 0; e < test_count(t); e++)
        test_put(t, e, whole ? floor(3 * test_uniform(h)) : scale * (2 * test_uniform(h) - 1));
}

/* Rows by columns where the side asks for them, from the right. */
static bool allocate_turned(const struct kron_problem *p, gram_tensor *t, int64_t rows,
                            int64_t cols)
{
    bool left = p->side == GRAM_LEFT;

    return allocate(t, left ? cols : rows, left ? rows : cols, p->dtype);
}

static bool make(struct harness *h, struct kron_problem *p)
{
    if (p->k < 0 || p->j < 0 || !allocate_turned(p, &p->x, p->m, p->k) ||
        !allocate_turned(p, &p->grad, p->m, p->j))
        return false;
    fill(h, &p->x, 1);
    fill(h, &p->grad, 1);
    for (int i = 0; i < p->count; i++) {
        if (!allocate_turned(p, &p->factor[i], p->p[i], p->q[i]))
            return false;
        fill(h, &p->factor[i], sqrt(3 / (double)(p->p[i] > 0 ? p->p[i] : 1))); /* keeps norms */
    }
    return true;
}

static void count_work(struct kron_problem *p)
{
    double size = (double)gram_dtype_size(p->dtype), elements = (double)(p->m * p->k);

    for (int i = p->count - 1; i >= 0; i--) {
        p->flop += 2 * elements * (double)p->q[i];
        elements *= p->p[i] > 0 ? (double)p->q[i] / (double)p->p[i] : 0;
    }
    p->bytes = size * (double)(p->m * (p->k + p->j));
}

bool kron_problem_open(struct harness *h, const struct case_args *args, struct kron_problem *p)
{
    bool left = strcmp(case_param(args, "side", "right"), "left") == 0;

    *p = (struct kron_problem){.m = args->sizes[0], .dtype = args->dtype};
    p->count = args->size_count - 1;
    p->side = left ? GRAM_LEFT : GRAM_RIGHT;
    p->gradients = args->dtype == GRAM_F32 || args->dtype == GRAM_F64;
    if (p->count > GRAM_MAX_FACTORS) {
        fprintf(stderr, "%d factors, expected at most %d\n", p->count, GRAM_MAX_FACTORS);
        return false;
    }
    for (int i = 0; i < p->count; i++) {
        p->p[i] = left ? args->widths[i + 1] : args->sizes[i + 1];
        p->q[i] = left ? args->sizes[i + 1] : args->widths[i + 1];
    }
    p->k = product(p->p, p->count), p->j = product(p->q, p->count);
    if (!make(h, p)) {
        (void)harness_no_memory(h, "the problem");
        kron_problem_close(p);
        return false;
    }
    count_work(p);
    return true;
}

void kron_problem_close(struct kron_problem *p)
{
    free(p->x.data);
    free(p->grad.data);
    for (int i = 0; i < p->count; i++)
        free(p->factor[i].data);
}

bool kron_result_open(const struct kron_problem *p, struct kron_result *r)
{
    bool there;

    *r = (struct kron_result){.y.data = NULL};
    there = allocate_turned(p, &r->y, p->m, p->j) && allocate_turned(p, &r->x, p->m, p->k);
    for (int i = 0; there && i < p->count; i++)
        there = allocate_turned(p, &r->factor[i], p->p[i], p->q[i]);
    if (!there)
        kron_result_close(r);
    return there;
}

void kron_result_close(struct kron_result *r)
{
    free(r->y.data);
    free(r->x.data);
    for (int i = 0; i < GRAM_MAX_FACTORS; i++)
        free(r->factor[i].data);
    for (int i = 0; i <= GRAM_MAX_FACTORS; i++)
        free(r->kept[i]);
    *r = (struct kron_result){.y.data = NULL};
}

const gram_tensor *kron_output(const struct kron_problem *p, const struct kron_result *r, int i)
{
    if (i == 0)
        return &r->y;
    if (!p->gradients || i > p->count + 1)
        return NULL;
    return i == 1 ? &r->x : &r->factor[i - 2];
}

double kron_difference(const gram_tensor *a, const gram_tensor *b)
{
    double most = 0, size = 0;

    for (int64_t e = 0; e < test_count(a); e++) {
        double x = test_at(a, e), y = test_at(b, e), d = fabs(x - y);
        if (x != y && !(isnan(x) && isnan(y)))
            most = isnan(d) ? INFINITY : fmax(most, d);
        size = isnan(x) ? size : fmax(size, fabs(x));
    }
    return most == 0 ? 0 : most / (size > 0 ? size : 1);
}

double kron_tolerance(const struct kron_problem *p)
{
    double terms = 8, all = (double)p->m;

    if (p->dtype == GRAM_I32 || p->dtype == GRAM_I64)
        return 0;
    for (int i = 0; i < p->count; i++) {
        terms += (double)(p->p[i] > p->q[i] ? p->p[i] : p->q[i]);
        all *= (double)(p->p[i] > p->q[i] ? p->p[i] : p->q[i]);
    }
    return (terms + sqrt(all)) * test_eps(p->dtype);
}
