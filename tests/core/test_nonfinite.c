/*
 * test_nonfinite.c - NaN and infinity: a NaN spoils its row (or column) of the result and no other
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>

enum {
    M = 37, /* more than a tile, and ragged, on every instruction set */
    N = 53,
    K = 19
};

static const double powers[] = {0, 0.5, 1, 1.3, 1.5, 2, 2.7, 3, 4, INFINITY};

struct pair {
    struct test_tensor x, y, out;
    gram_dtype dtype;
};

static void make_pair(struct harness *h, struct pair *p, gram_dtype dtype)
{
    p->dtype = dtype;
    test_tensor_create(h, &p->x, dtype, ROW_MAJOR, 2, (int64_t[]){M, K});
    test_tensor_create(h, &p->y, dtype, PADDED, 2, (int64_t[]){N, K});
    test_tensor_create(h, &p->out, dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, PADDED, 2,
                       (int64_t[]){M, N});
    test_fill_uniform(h, &p->x, -1, 1);
    test_fill_uniform(h, &p->y, -1, 1);
}

static void drop_pair(struct harness *h, struct pair *p)
{
    test_tensor_destroy(h, &p->x, "x");
    test_tensor_destroy(h, &p->y, "y");
    test_tensor_destroy(h, &p->out, "out");
}

static double at(const struct test_tensor *t, int64_t i, int64_t j)
{
    return test_get(&t->t, (int64_t[]){i, j});
}

static void put(const struct test_tensor *t, int64_t i, int64_t k, double value)
{
    test_set(&t->t, (int64_t[]){i, k}, value);
}

/* NaN where row or column says so, a distance elsewhere. */
static void check_spoilt(struct harness *h, const struct pair *p, int64_t row, int64_t column,
                         double power)
{
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            bool spoilt = i == row || j == column;
            double got = at(&p->out, i, j);
            CHECK(h, spoilt ? isnan(got) : isfinite(got) && got > 0,
                  "dtype %d, p = %g: out[%d, %d] is %g", (int)p->dtype, power, (int)i, (int)j, got);
        }
}

static void distances_of_rows_with_nan(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64, GRAM_F16, GRAM_BF16};

    for (int d = 0; d < LENGTH(dtypes); d++)
        for (int i = 0; i < LENGTH(powers); i++)
            for (int64_t k = 0; k < K; k += K - 1) {
                struct pair p;
                make_pair(h, &p, dtypes[d]);
                put(&p.x, 12, k, NAN);
                put(&p.y, N - 1, k, -NAN);
                CHECK(h,
                      gram_cdist(h->g, &p.x.t, &p.y.t, gram_number(powers[i]), NULL, &p.out.t) ==
                          GRAM_OK,
                      "%s", gram_message(h->g));
                check_spoilt(h, &p, 12, N - 1, powers[i]);
                drop_pair(h, &p);
            }
}

/* What the definition gives: |inf - finite| = inf, inf - inf = NaN. */
static void distances_of_rows_with_infinity(struct harness *h)
{
    for (int d = GRAM_F32; d <= GRAM_F64; d++)
        for (int i = 1; i < LENGTH(powers); i++) {
            struct pair p;
            make_pair(h, &p, (gram_dtype)d);
            put(&p.x, 3, 7, INFINITY);
            put(&p.y, 5, 7, INFINITY);
            put(&p.y, 6, 7, -INFINITY);
            CHECK(h,
                  gram_cdist(h->g, &p.x.t, &p.y.t, gram_number(powers[i]), NULL, &p.out.t) ==
                      GRAM_OK,
                  "%s", gram_message(h->g));
            for (int64_t m = 0; m < M; m++)
                for (int64_t n = 0; n < N; n++) {
                    double got = at(&p.out, m, n);
                    bool nan = m == 3 && n == 5, infinite = m == 3 || n == 5 || n == 6;
                    CHECK(h,
                          nan        ? isnan(got)
                          : infinite ? got == INFINITY
                                     : isfinite(got),
                          "dtype %d, p = %g: out[%d, %d] is %g", d, powers[i], (int)m, (int)n, got);
                }
            drop_pair(h, &p);
        }
}

static void a_matrix_with_itself(struct harness *h)
{
    for (int d = GRAM_F32; d <= GRAM_F64; d++)
        for (int i = 0; i < LENGTH(powers); i++) {
            struct test_tensor x, out;
            test_tensor_create(h, &x, (gram_dtype)d, ROW_MAJOR, 2, (int64_t[]){M, K});
            test_tensor_create(h, &out, (gram_dtype)d, ROW_MAJOR, 2, (int64_t[]){M, M});
            test_fill_uniform(h, &x, -1, 1);
            put(&x, 20, 4, NAN);
            put(&x, 30, 4, INFINITY);
            CHECK(h, gram_cdist(h->g, &x.t, NULL, gram_number(powers[i]), NULL, &out.t) == GRAM_OK,
                  "%s", gram_message(h->g));
            for (int64_t m = 0; m < M; m++)
                for (int64_t n = 0; n < M; n++) {
                    double got = at(&out, m, n), mirror = at(&out, n, m);
                    /* equal infinities do not differ, which is what p = 0 counts */
                    bool nan = m == 20 || n == 20 || (m == 30 && n == 30 && powers[i] > 0);
                    CHECK(h, nan ? isnan(got) : got == mirror, "dtype %d, p = %g: [%d, %d] %g, %g",
                          d, powers[i], (int)m, (int)n, got, mirror);
                    CHECK(h, nan || m != n || got == 0, "dtype %d, p = %g: diagonal %d is %g", d,
                          powers[i], (int)m, got);
                }
            test_tensor_destroy(h, &x, "x");
            test_tensor_destroy(h, &out, "out");
        }
}

static void kernels_of_rows_with_nan(struct harness *h)
{
    static const gram_function functions[] = {
        GRAM_IDENTITY, GRAM_LAPLACE,  GRAM_GAUSSIAN,           GRAM_EXPONENTIAL_POWER,
        GRAM_MATERN32, GRAM_MATERN52, GRAM_RATIONAL_QUADRATIC,
    };

    for (int f = 0; f < LENGTH(functions); f++)
        for (int d = GRAM_F32; d <= GRAM_F64; d++) {
            gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
            struct pair p;
            make_pair(h, &p, (gram_dtype)d);
            put(&p.x, 2, 0, NAN);
            put(&p.y, 9, 0, INFINITY);
            o.function = functions[f];
            CHECK(h, gram_kernel(h->g, &p.x.t, &p.y.t, &o, &p.out.t) == GRAM_OK, "%s",
                  gram_message(h->g));
            for (int64_t m = 0; m < M; m++)
                for (int64_t n = 0; n < N; n++) {
                    double got = at(&p.out, m, n);
                    bool far = functions[f] == GRAM_IDENTITY ? got == INFINITY : got < 1e-30;
                    bool right = m == 2 ? isnan(got) : n == 9 ? far : isfinite(got);
                    CHECK(h, right, "function %d, dtype %d: out[%d, %d] is %g", (int)functions[f],
                          d, (int)m, (int)n, got);
                }
            drop_pair(h, &p);
        }
}

/* out[o, n, m] depends on row n of b and d, on column m of d and a, and on row o of c. */
static void gradients_with_nan(struct harness *h)
{
    enum {
        O = 3,
        COUNT = 21
    };
    static const double p[] = {0.7, 1, 1.3, 2, 3};

    for (int i = 0; i < LENGTH(p); i++) {
        struct test_tensor a, b, c, d, out;
        test_tensor_create(h, &a, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){COUNT, M});
        test_tensor_create(h, &b, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){K, COUNT});
        test_tensor_create(h, &c, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){O, COUNT});
        test_tensor_create(h, &d, GRAM_F64, ROW_MAJOR, 2, (int64_t[]){K, M});
        test_tensor_create(h, &out, GRAM_F64, ROW_MAJOR, 3, (int64_t[]){O, K, M});
        test_fill_uniform(h, &a, -1, 1), test_fill_uniform(h, &b, -1, 1);
        test_fill_uniform(h, &c, -1, 1), test_fill_uniform(h, &d, -1, 1);
        put(&a, 5, 11, NAN);
        put(&b, 7, 2, NAN);
        put(&c, 1, 3, NAN);
        put(&d, 9, 30, NAN);
        CHECK(h,
              gram_cdist_grad(h->g, &a.t, &b.t, &c.t, &d.t, gram_number(p[i]), &out.t) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int64_t e = 0; e < test_count(&out.t); e++) {
            int64_t o = e / (K * M), n = e / M % K, m = e % M;
            bool nan = m == 11 || n == 7 || o == 1 || (n == 9 && m == 30);
            CHECK(h, isnan(test_at(&out.t, e)) == nan, "p = %g: out[%d, %d, %d] is %g", p[i],
                  (int)o, (int)n, (int)m, test_at(&out.t, e));
        }
        test_tensor_destroy(h, &a, "a"), test_tensor_destroy(h, &b, "b");
        test_tensor_destroy(h, &c, "c"), test_tensor_destroy(h, &d, "d");
        test_tensor_destroy(h, &out, "out");
    }
}

static const struct test_function tests[] = {
    {     "distances_of_rows_with_nan",      distances_of_rows_with_nan},
    {"distances_of_rows_with_infinity", distances_of_rows_with_infinity},
    {           "a_matrix_with_itself",            a_matrix_with_itself},
    {       "kernels_of_rows_with_nan",        kernels_of_rows_with_nan},
    {             "gradients_with_nan",              gradients_with_nan},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}
