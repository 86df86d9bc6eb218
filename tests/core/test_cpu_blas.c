/*
 * test_cpu_blas.c - products of tensors along a dimension and QR, each against its formula
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/blas.h"
#include "cpu/cpu.h"
#include <math.h>

enum {
    MOST = 512
};

static const struct {
    int order;
    int64_t shape[4];
} shapes[] = {
    {1,          {7}}, /* a vector */
    {1,          {1}},
    {2,       {5, 9}},
    {2,       {9, 5}},
    {2,       {1, 6}}, /* a dimension of 1 on either side */
    {2,       {6, 1}},
    {3,    {4, 3, 5}}, /* slabs on both sides */
    {4, {3, 2, 4, 5}},
};

static double at(gram_dtype dtype, const void *data, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void fill(struct harness *h, gram_dtype dtype, void *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double value = 2 * test_uniform(h) - 1;
        if (dtype == GRAM_F32)
            ((float *)data)[i] = (float)value;
        else
            ((double *)data)[i] = value;
    }
}

/* Element (b, i, a). */
static int64_t place(const struct cpu_mode *mode, int64_t b, int64_t i, int64_t a)
{
    return (b * mode->n + i) * mode->after + a;
}

static void check_product(struct harness *h, gram_dtype dtype, const struct cpu_mode *mode,
                          bool transposed)
{
    double x[MOST], q[MOST], to[MOST];

    fill(h, dtype, x, mode->before * mode->n * mode->after);
    fill(h, dtype, q, mode->n * mode->n);
    cpu_mode_product(dtype, mode, x, q, transposed, to);
    for (int64_t b = 0; b < mode->before; b++)
        for (int64_t j = 0; j < mode->n; j++)
            for (int64_t a = 0; a < mode->after; a++) {
                double sum = 0, got = at(dtype, to, place(mode, b, j, a));
                for (int64_t i = 0; i < mode->n; i++)
                    sum += at(dtype, x, place(mode, b, i, a)) *
                           at(dtype, q, transposed ? i * mode->n + j : j * mode->n + i);
                CHECK(h, fabs(got - sum) <= 2 * (double)mode->n * test_eps(dtype), "%g, not %g",
                      got, sum);
            }
}

static void every_dimension_of_every_shape(struct harness *h)
{
    for (int s = 0; s < LENGTH(shapes); s++)
        for (int d = 0; d < shapes[s].order; d++) {
            struct cpu_mode mode = cpu_mode_of(shapes[s].shape, shapes[s].order, d);
            for (int k = 0; k < 2; k++) {
                gram_dtype dtype = k == 0 ? GRAM_F32 : GRAM_F64;
                check_product(h, dtype, &mode, false);
                check_product(h, dtype, &mode, true);
            }
        }
}

/* |Q^T Q - I| and what Q^T A has below its diagonal, which is R. */
static void check_qr(struct harness *h, gram_dtype dtype, int64_t n, int64_t rank)
{
    double a[MOST], q[MOST], tau[MOST], work[64 * 16];

    fill(h, dtype, a, n * n);
    for (int64_t i = rank * n; i < n * n; i++) /* columns that repeat the first one, or are zero */
        if (dtype == GRAM_F32)
            ((float *)(void *)a)[i] = rank > 0 ? ((float *)(void *)a)[i % n] : 0;
        else
            a[i] = rank > 0 ? a[i % n] : 0;
    for (int64_t i = 0; i < n * n; i++)
        q[i] = a[i];
    gram_blas_qr(dtype, n, q, tau, work);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double product = 0, r = 0;
            for (int64_t k = 0; k < n; k++) {
                product += at(dtype, q, k + i * n) * at(dtype, q, k + j * n);
                r += at(dtype, q, k + i * n) * at(dtype, a, k + j * n);
            }
            CHECK(h, fabs(product - (i == j)) <= 20 * test_eps(dtype), "%d %d: %g", (int)i, (int)j,
                  product);
            CHECK(h, i <= j || fabs(r) <= 40 * test_eps(dtype), "%d %d: %g", (int)i, (int)j, r);
        }
}

static void orthogonal_factors_of_any_rank(struct harness *h)
{
    static const int64_t sizes[][2] = {
        { 1,  1},
        { 1,  0},
        { 2,  2},
        { 9,  9},
        { 9,  1}, /* one direction */
        { 9,  0}, /* nothing at all */
        {16, 11},
    };

    for (int i = 0; i < LENGTH(sizes); i++) {
        check_qr(h, GRAM_F32, sizes[i][0], sizes[i][1]);
        check_qr(h, GRAM_F64, sizes[i][0], sizes[i][1]);
    }
}

static const struct test_function tests[] = {
    {"every_dimension_of_every_shape", every_dimension_of_every_shape},
    {"orthogonal_factors_of_any_rank", orthogonal_factors_of_any_rank},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
