/*
 * test_vmath.c - the powers in the tiles of cdist and cdist_grad, against powl
 *
 * Every step of every instruction set takes one coordinate at a time, so that each term |d|^p is
 * seen alone: over all exponents, at the edges of the tables' intervals and next to 1.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cpu/cpu_kernels.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    COUNT = 6144, /* differences of a test: a multiple of every tile's width */
    WIDEST = 64,  /* a tile: rows, columns */
    SPECIAL = 5,
};

static const double bound = 6; /* eps, relative: vmath.h promises it */

struct format {
    gram_dtype dtype;
    double eps, least, least_normal, most;
    int lowest, highest; /* exponents of 2 */
};

static const struct format formats[] = {
    {GRAM_F32, FLT_EPSILON,  0x1p-149, (double)FLT_MIN, (double)FLT_MAX,  -149,  127},
    {GRAM_F64, DBL_EPSILON, 0x1p-1074,         DBL_MIN,         DBL_MAX, -1074, 1023},
};

static double rounded(const struct format *f, double x)
{
    return f->dtype == GRAM_F32 ? (double)(float)x : x;
}

static void put(const struct format *f, void *array, int64_t at, double x)
{
    if (f->dtype == GRAM_F32)
        ((float *)array)[at] = (float)x;
    else
        ((double *)array)[at] = x;
}

static double get(const struct format *f, const void *array, int64_t at)
{
    return f->dtype == GRAM_F32 ? (double)((const float *)array)[at] : ((const double *)array)[at];
}

/* Differences: the special ones, edges of sixteenths, neighbours of 1, then two thirds over all
 * exponents, the rest where most data are. */
static void fill(struct harness *h, const struct format *f, double p, double *d)
{
    static const double first[SPECIAL] = {0, -0.0, INFINITY, -INFINITY, NAN};
    double range = p > 4 ? 1.01 * f->highest / p : f->highest; /* where |d|^p is finite */
    int n = SPECIAL;

    memcpy(d, first, sizeof first);
    d[n++] = f->least, d[n++] = -f->least_normal, d[n++] = f->most;
    for (int i = 0; i <= 16; i++)
        for (int ulp = -1; ulp <= 1; ulp++)
            d[n++] = rounded(f, (1 + i / 16.0) * (1 + ulp * f->eps));
    for (; n < COUNT; n++) {
        double e = test_uniform(h), sign = test_uniform(h) < 0.5 ? -1 : 1;
        if (n % 3 == 0)
            e = f->lowest + e * (f->highest - f->lowest);
        else if (n % 3 == 1)
            e = range * (2 * e - 1);
        else
            e = 20 * (2 * e - 1);
        d[n] = rounded(f, sign * fmin(fmax(exp2(e), f->least), f->most));
    }
}

/* out[i] = |d[i]|^p by a tile of cdist; every row of the tile computes the same. */
static void by_cdist(struct harness *h, const struct format *f, enum gram_step step,
                     const struct gram_power *power, const double *d, double *out)
{
    const struct gram_cdist_kernels *kernels = &gram_cpu_kernels_of(h->g)->cdist[f->dtype];
    _Alignas(64) double x[WIDEST] = {0}, y[WIDEST], c[WIDEST * WIDEST];
    struct gram_tile tile = {
        .depth = 1, .x = x, .y = y, .c = c, .ldc = kernels->nr, .power = power};

    for (int i = 0; i < COUNT; i += kernels->nr) {
        for (int j = 0; j < kernels->nr; j++)
            put(f, y, j, d[i + j]);
        kernels->tile[step](&tile);
        for (int j = 0; j < kernels->nr; j++) {
            out[i + j] = get(f, c, j);
            for (int row = 1; row < kernels->mr; row++) {
                double other = get(f, c, row * kernels->nr + j);
                CHECK(h, other == out[i + j] || isnan(other), "row %d: %g, row 0: %g", row, other,
                      out[i + j]);
            }
        }
    }
}

/* out[i] = sgn(d[i]) |d[i]|^q by a tile of cdist_grad. */
static void by_gradient(struct harness *h, const struct format *f, enum gram_grad_power kind,
                        const struct gram_power *power, const double *d, double *out)
{
    const struct gram_grad_kernels *kernels = gram_cpu_kernels_of(h->g)->cdist_grad[f->dtype];
    _Alignas(64) double a[WIDEST], b[WIDEST] = {0}, points[WIDEST], w[WIDEST];
    struct gram_grad_tile tile = {.depth = 1, .a = a, .b = b, .d = points, .power = power};

    tile.b_stride = kernels->features;
    for (int j = 0; j < kernels->width; j++)
        put(f, a, j, 1);
    for (int i = 0; i < COUNT; i += kernels->width) {
        for (int j = 0; j < kernels->width; j++)
            put(f, points, j, d[i + j]);
        kernels->weights[kind](&tile, w);
        for (int j = 0; j < kernels->width; j++)
            out[i + j] = get(f, w, j);
    }
}

/* got is |d|^q within the bound, or what it rounds to beyond the largest and least numbers. */
static bool close_to_power(const struct format *f, double d, double q, double got)
{
    long double want = powl(fabsl((long double)d), (long double)q);
    long double slack = bound * (long double)f->eps * want;

    if (!isfinite(d))
        return isnan(d) ? isnan(got) : got == (double)want;
    if (got == INFINITY)
        return want + slack > (long double)f->most;
    if (want < (long double)f->least_normal)
        slack += f->least;
    return fabsl(got - want) <= slack;
}

static void check_cdist(struct harness *h, const struct format *f, double p, enum gram_step step)
{
    static double d[COUNT], out[COUNT];
    struct gram_power power;

    fill(h, f, p, d);
    gram_power_prepare(&power, f->dtype, p, 0);
    by_cdist(h, f, step, &power, d, out);
    for (int i = 0; i < COUNT; i++) {
        CHECK(h, fabs(d[i]) != 1 || out[i] == 1, "1^%.9g = %a", p, out[i]);
        CHECK(h, close_to_power(f, d[i], p, out[i]), "%s |%a|^%.9g: %a instead of %La",
              f->dtype == GRAM_F32 ? "f32" : "f64", d[i], p, out[i],
              powl(fabsl((long double)d[i]), (long double)p));
    }
}

static void check_gradient(struct harness *h, const struct format *f, double q,
                           enum gram_grad_power kind)
{
    static double d[COUNT], out[COUNT];
    struct gram_power power;

    fill(h, f, q, d);
    gram_power_prepare(&power, f->dtype, q, 0);
    by_gradient(h, f, kind, &power, d, out);
    for (int i = 0; i < COUNT; i++)
        if (d[i] == 0)
            CHECK(h, out[i] == 0, "a tie gives %g for q = %g", out[i], q);
        else {
            bool sign = isnan(d[i]) || signbit(d[i]) == signbit(out[i]);
            CHECK(h, sign && close_to_power(f, d[i], q, fabs(out[i])),
                  "%s sgn(d) |%a|^%.9g: %a instead of %La", f->dtype == GRAM_F32 ? "f32" : "f64",
                  d[i], q, out[i], powl(fabsl((long double)d[i]), (long double)q));
        }
}

static const double narrow[] = {
    1e-9, 1e-3, 0.1, 0.3, 1.0 / 3, 0.7, 0.99, 1.01, 1.3, 1.7, 1.999999, 2.2, 2.75, 3.3, 3.99,
};
static const double wide[] = {
    3.9999, 4.0001, 4.5, 5.3, 7.77, 17.3, 100.1, 1000.5, 1e6 + 0.3, 1e12 + 0.5, 1e30,
};

static void narrow_powers(struct harness *h)
{
    for (int f = 0; f < LENGTH(formats); f++)
        for (int i = 0; i < LENGTH(narrow); i++)
            check_cdist(h, &formats[f], narrow[i], GRAM_STEP_POWER);
}

/* The wide functions serve every q; the bound is the same. */
static void wide_powers(struct harness *h)
{
    for (int f = 0; f < LENGTH(formats); f++) {
        for (int i = 0; i < LENGTH(wide); i++)
            check_cdist(h, &formats[f], wide[i], GRAM_STEP_WIDE_POWER);
        for (int i = 0; i < LENGTH(narrow); i++)
            check_cdist(h, &formats[f], narrow[i], GRAM_STEP_WIDE_POWER);
    }
}

static void powers_without_logarithm(struct harness *h)
{
    for (int f = 0; f < LENGTH(formats); f++) {
        check_cdist(h, &formats[f], 0.5, GRAM_STEP_HALF);
        check_cdist(h, &formats[f], 1, GRAM_STEP_ONE);
        check_cdist(h, &formats[f], 1.5, GRAM_STEP_THREE_HALVES);
        check_cdist(h, &formats[f], 2, GRAM_STEP_TWO);
        check_cdist(h, &formats[f], 3, GRAM_STEP_THREE);
        check_cdist(h, &formats[f], 4, GRAM_STEP_FOUR);
    }
}

/* q = p - 1 is negative for p < 1: |d|^q is large where d is small, and a tie still gives 0. */
static void signed_powers(struct harness *h)
{
    static const double negative[] = {-0.999, -0.7, -0.5, -0.3, -1e-6};

    for (int f = 0; f < LENGTH(formats); f++) {
        for (int i = 0; i < LENGTH(negative); i++)
            check_gradient(h, &formats[f], negative[i], GRAM_GRAD_ANY);
        for (int i = 0; i < LENGTH(narrow); i++)
            check_gradient(h, &formats[f], narrow[i], GRAM_GRAD_ANY);
        for (int i = 0; i < LENGTH(wide); i++)
            check_gradient(h, &formats[f], wide[i], GRAM_GRAD_WIDE);
        check_gradient(h, &formats[f], 0.5, GRAM_GRAD_SQRT);
        check_gradient(h, &formats[f], 2, GRAM_GRAD_SQUARE);
        check_gradient(h, &formats[f], 3, GRAM_GRAD_CUBE);
    }
}

/* Several coordinates add up, and to what the tile held before. */
static void powers_accumulate(struct harness *h)
{
    for (int f = 0; f < LENGTH(formats); f++)
        for (enum gram_step step = GRAM_STEP_POWER; step <= GRAM_STEP_WIDE_POWER; step++) {
            const struct gram_cdist_kernels *kernels =
                &gram_cpu_kernels_of(h->g)->cdist[formats[f].dtype];
            _Alignas(64) double x[2 * WIDEST], y[2 * WIDEST], c[WIDEST * WIDEST];
            struct gram_power power;
            struct gram_tile tile = {
                .depth = 2,
                .x = x,
                .y = y,
                .c = c,
                .ldc = kernels->nr,
                .accumulate = true,
                .power = &power,
            };

            gram_power_prepare(&power, formats[f].dtype, 1.25, 0);
            for (int i = 0; i < 2 * kernels->mr; i++)
                put(&formats[f], x, i, i);
            for (int j = 0; j < 2 * kernels->nr; j++)
                put(&formats[f], y, j, -j);
            for (int i = 0; i < kernels->mr * kernels->nr; i++)
                put(&formats[f], c, i, i);
            kernels->tile[step](&tile);
            for (int i = 0; i < kernels->mr * kernels->nr; i++) {
                int row = i / kernels->nr, column = i % kernels->nr;
                double got = get(&formats[f], c, i),
                       want = i + pow(row + column, 1.25) +
                              pow(kernels->mr + row + kernels->nr + column, 1.25);
                CHECK(h, fabs(got - want) <= (bound + 2) * formats[f].eps * want,
                      "row %d, column %d: %.17g instead of %.17g", row, column, got, want);
            }
        }
}

static const struct test_function tests[] = {
    {           "narrow_powers",            narrow_powers},
    {             "wide_powers",              wide_powers},
    {"powers_without_logarithm", powers_without_logarithm},
    {           "signed_powers",            signed_powers},
    {       "powers_accumulate",        powers_accumulate},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}
