/*
 * test_kernel_matmul.c - what no table of cases says of products with kernel matrices: the same
 * bits for any number of threads, and exact values of points that coincide
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "gram/gram.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COORDINATES = 5,
    MOST_THREADS = 7
};

struct problem {
    int64_t m, n, r; /* n = 0: y is x */
    gram_dtype dtype;
    double p, q;
};

static gram_tensor matrix(int64_t rows, int64_t cols, gram_dtype dtype)
{
    gram_tensor t = {
        .dtype = dtype, .ndim = 2, .shape = {rows, cols},
                .stride = {cols,    1}
    };

    t.data = calloc((size_t)(rows * cols), sizeof(double));
    return t;
}

static void put(const gram_tensor *t, int64_t at, double value)
{
    if (t->dtype == GRAM_F32)
        ((float *)t->data)[at] = (float)value;
    else
        ((double *)t->data)[at] = value;
}

/* Numbers from 0 to 1 without a pattern. */
static void fill(const gram_tensor *t, uint32_t seed)
{
    for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++) {
        seed = seed * 1664525 + 1013904223;
        put(t, i, (double)(seed >> 8) / (1 << 24));
    }
}

static gram_status product(int threads, const gram_tensor *x, const gram_tensor *y,
                           const gram_kernel_options *kernel, const gram_tensor *v,
                           gram_tensor *out)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;
    gram_status status;

    options.threads = threads;
    status = gram_context_create(&options, &g);
    if (status)
        return status;
    status = gram_kernel_matmul(g, x, y, kernel, v, NULL, out);
    gram_context_destroy(g);
    return status;
}

/* True if every number of threads gives the same bits, again and again. */
static bool same_bits(const struct problem *p)
{
    const int64_t points = p->n ? p->n : p->m;
    gram_tensor x = matrix(p->m, COORDINATES, p->dtype), y = matrix(points, COORDINATES, p->dtype),
                v = matrix(points, p->r, p->dtype), one = matrix(p->m, p->r, p->dtype),
                out = matrix(p->m, p->r, p->dtype);
    const gram_kernel_options kernel = gram_lpq_laplace(p->p, p->q, 1);
    const size_t bytes = (size_t)(p->m * p->r) * (p->dtype == GRAM_F32 ? 4 : 8);
    bool same = x.data && y.data && v.data && one.data && out.data;

    if (same) {
        fill(&x, 1), fill(&y, 2), fill(&v, 3);
        same = product(1, &x, p->n ? &y : NULL, &kernel, &v, &one) == GRAM_OK;
    }
    for (int threads = 2; same && threads <= MOST_THREADS; threads++)
        same = product(threads, &x, p->n ? &y : NULL, &kernel, &v, &out) == GRAM_OK &&
               memcmp(out.data, one.data, bytes) == 0;
    if (!same)
        printf("%lld %lld %lld: not the same bits\n", (long long)p->m, (long long)p->n,
               (long long)p->r);
    free(x.data), free(y.data), free(v.data), free(one.data), free(out.data);
    return same;
}

/* Points of which every third is the same one, far from the origin: K v with unit vectors v is
 * columns of K, in which pairs of the same point have exactly 1. */
static bool exact(double p, double q, double offset)
{
    enum {
        POINTS = 200,
        COLUMNS = 19
    };
    gram_tensor x = matrix(POINTS, COORDINATES, GRAM_F32), v = matrix(POINTS, COLUMNS, GRAM_F32),
                out = matrix(POINTS, COLUMNS, GRAM_F32);
    const gram_kernel_options kernel = gram_lpq_laplace(p, q, 1);
    bool right = x.data && v.data && out.data;

    for (int64_t i = 0; right && i < POINTS; i++)
        for (int64_t k = 0; k < COORDINATES; k++)
            put(&x, i * COORDINATES + k, offset + (double)(i % 3 + k));
    for (int64_t c = 0; right && c < COLUMNS; c++)
        put(&v, c * COLUMNS + c, 1);
    right = right && product(2, &x, NULL, &kernel, &v, &out) == GRAM_OK;
    for (int64_t i = 0; right && i < POINTS; i++)
        for (int64_t c = 0; c < COLUMNS; c++) {
            const float got = ((const float *)out.data)[i * COLUMNS + c];
            right = right && (i % 3 == c % 3 ? got == 1 : got > 0 && got < 1);
        }
    if (!right)
        printf("p = %g, offset %g: pairs of one point have no value of 1\n", p, offset);
    free(x.data), free(v.data), free(out.data);
    return right;
}

/* A workspace query without a place for its answer is refused, as all of them refuse it. */
static bool queries_need_a_place(void)
{
    gram_context *g = NULL;
    gram_tensor x = matrix(4, 4, GRAM_F32), out = matrix(4, 4, GRAM_F32);
    const gram_kernel_options kernel = gram_gaussian(1);
    gram_eigh_options eigh = GRAM_EIGH_OPTIONS_INIT;
    gram_tensor values = gram_vector(out.data, 4, GRAM_F32),
                number = gram_vector(x.data, 1, GRAM_F32);
    const gram_scalar two = gram_number(2);
    bool right = x.data && out.data && gram_context_create(NULL, &g) == GRAM_OK;

    number.ndim = 0;
    right =
        right &&
        gram_kernel_matmul_workspace(g, &x, NULL, &kernel, &x, NULL, &out, NULL) ==
            GRAM_INVALID_ARGUMENT &&
        gram_median_distance_workspace(g, &x, two, NULL, &number, NULL) == GRAM_INVALID_ARGUMENT &&
        gram_cdist_grad_workspace(g, &x, &x, &x, &x, two, &out, NULL) == GRAM_INVALID_ARGUMENT &&
        gram_eigh_kernel_workspace(g, &x, &kernel, &eigh, &values, NULL, NULL) ==
            GRAM_INVALID_ARGUMENT;
    if (!right)
        printf("a workspace query without need: %s\n", gram_message(g));
    gram_context_destroy(g);
    free(x.data), free(out.data);
    return right;
}

int main(void)
{
    static const struct problem problems[] = {
        {1000,    0,  3, GRAM_F32,   2, 2},
        {2449,    0,  1, GRAM_F32,   1, 1},
        {1300,    0, 20, GRAM_F64,   2, 1},
        {1500,  700,  8, GRAM_F32,   1, 1},
        {   3, 9000,  2, GRAM_F64,   2, 1},
        { 900, 1200, 33, GRAM_F32, 1.3, 1},
    };
    int failed = 0;

    for (int i = 0; i < LENGTH(problems); i++)
        failed += !same_bits(&problems[i]);
    for (int i = 0; i < 3; i++)
        failed += !exact(i == 2 ? 1 : 2, i == 1 ? 1 : 2, 1e6);
    failed += !queries_need_a_place();
    printf("kernel_matmul: %d failed\n", failed);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
