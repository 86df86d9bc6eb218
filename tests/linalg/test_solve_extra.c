/*
 * test_solve_extra.c - rcond and jitter of gram_solve_cholesky and gram_solve_lu, and refusals
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "solve_extra.h"
#include <math.h>
#include <string.h>

/* 1 / (|A|_1 |A^-1|_1), by elimination in double. */
static double true_rcond(const struct extra_problem *p, int64_t item)
{
    static double a[EXTRA_ORDER * EXTRA_ORDER], inverse[EXTRA_ORDER * EXTRA_ORDER],
        b[EXTRA_ORDER * EXTRA_COLUMNS], x[EXTRA_ORDER * EXTRA_COLUMNS];
    double norm[2] = {0, 0};
    int64_t n = p->n;

    extra_copy(p, item, 0, a, b, x);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += fabs(pass ? inverse[i * n + j] : a[i * n + j]);
            norm[pass] = fmax(norm[pass], sum);
        }
        for (int64_t i = 0; i < n * n; i++)
            inverse[i] = pass ? inverse[i] : i / n == i % n;
        if (!pass)
            reference_solve(n, n, a, inverse);
    }
    return 1 / (norm[0] * norm[1]);
}

/* ---- rcond ---------------------------------------------------------------------------------- */

/* LAPACK's estimate of |A^-1| is a lower bound that is rarely off by 3. */
static void rcond_of(struct harness *h, bool lu, gram_dtype dtype, enum layout layout, bool kept)
{
    static const double conditions[EXTRA_ITEMS] = {1, 100, 1e5};
    struct extra_problem p;

    extra_create(h, &p, 70, dtype, layout);
    p.lu = lu;
    p.options.uplo = layout == COLUMN_MAJOR ? GRAM_UPPER : GRAM_LOWER;
    p.options.rcond = &p.rcond.t;
    p.options.factor = kept ? &p.factor.t : NULL;
    p.options.pivots = kept && lu ? &p.pivots.t : NULL;
    for (int i = 0; i < EXTRA_ITEMS; i++)
        extra_fill(h, &p, i, conditions[i], 0, 3);
    if (!extra_run(h, &p))
        return;
    for (int i = 0; i < EXTRA_ITEMS; i++) {
        double truth = true_rcond(&p, i), told = test_at(&p.rcond.t, i);
        CHECK(h, told >= truth * 0.9 && told <= truth * 10, "rcond of item %d is %g, truly %g", i,
              told, truth);
        extra_check(h, &p, i, 0, 4 * 70 * test_eps(dtype));
    }
    if (kept) { /* the factor serves as any other */
        p.options.rcond = NULL;
        p.options.factor = NULL;
        p.options.factored = 1;
        memset(p.x.t.data, 0, sizeof(float));
        gram_tensor a = p.a.t;
        p.a.t = p.factor.t;
        CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        p.a.t = a;
        for (int i = 0; i < EXTRA_ITEMS; i++)
            extra_check(h, &p, i, 0, 4 * 70 * test_eps(dtype));
    }
    extra_destroy(h, &p);
}

static void condition_estimates(struct harness *h)
{
    for (int lu = 0; lu < 2; lu++)
        for (int kept = 0; kept < 2; kept++) {
            rcond_of(h, lu, GRAM_F64, ROW_MAJOR, kept);
            rcond_of(h, lu, GRAM_F32, COLUMN_MAJOR, kept);
        }
}

static void condition_of_broken_matrices(struct harness *h)
{
    struct extra_problem p;

    extra_create(h, &p, 9, GRAM_F64, PADDED);
    p.options.rcond = &p.rcond.t;
    extra_fill(h, &p, 0, 10, 0, 1);
    extra_fill(h, &p, 1, 10, -0.5, 1); /* eigenvalues of both signs */
    extra_fill(h, &p, 2, 10, 0, 1);
    test_put(&p.a.t, 2 * 81 + 8 * 9, NAN);
    CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, test_at(&p.rcond.t, 0) > 0.01, "rcond is %g", test_at(&p.rcond.t, 0));
    for (int i = 1; i < EXTRA_ITEMS; i++) {
        CHECK(h, test_at(&p.rcond.t, i) == 0, "rcond is %g", test_at(&p.rcond.t, i));
        CHECK(h, test_at(&p.info.t, i) > 0 && isnan(test_at(&p.x.t, i * 9 * EXTRA_COLUMNS)),
              "info %g, x %g", test_at(&p.info.t, i), test_at(&p.x.t, i * 9 * EXTRA_COLUMNS));
    }
    extra_check(h, &p, 0, 0, 4 * 9 * test_eps(GRAM_F64));
    extra_destroy(h, &p);
}

/* ---- jitter --------------------------------------------------------------------------------- */

/* Eigenvalues from 1 - 1/condition up: the smallest s that lifts them above 0 is taken. */
static void ladder_of(struct harness *h, gram_dtype dtype, gram_uplo uplo, bool refine)
{
    static const double ladder[] = {0, 1e-4, 0.01, 0.25};
    static const double lowest[EXTRA_ITEMS] = {0.001, -0.001, -0.1},
                        expected[EXTRA_ITEMS] = {0, 0.01, 0.25};
    gram_tensor a;
    struct extra_problem p;

    extra_create(h, &p, 40, dtype, uplo == GRAM_LOWER ? ROW_MAJOR : EVERY_SECOND);
    p.options.uplo = uplo;
    p.options.jitter = ladder;
    p.options.jitters = LENGTH(ladder);
    p.options.jittered = &p.jittered.t;
    p.options.refine = refine;
    if (uplo == GRAM_LOWER && !refine)
        p.options.factor = &p.factor.t;
    for (int i = 0; i < EXTRA_ITEMS; i++)
        extra_fill(h, &p, i, 100, lowest[i] - 0.01, 1);
    if (!extra_run(h, &p))
        return;
    for (int i = 0; i < EXTRA_ITEMS; i++) {
        double s = test_at(&p.jittered.t, i);
        CHECK(h, fabs(s - expected[i]) <= test_eps(dtype), "item %d was given %g, expected %g", i,
              s, expected[i]);
        extra_check(h, &p, i, expected[i], 4 * 40 * test_eps(dtype));
    }
    if (p.options.factor) { /* of a + s I */
        p.options = (gram_solve_options)GRAM_SOLVE_OPTIONS_INIT;
        p.options.factored = 1;
        a = p.a.t;
        p.a.t = p.factor.t;
        CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
        p.a.t = a;
        for (int i = 0; i < EXTRA_ITEMS; i++)
            extra_check(h, &p, i, expected[i], 4 * 40 * test_eps(dtype));
    }
    extra_destroy(h, &p);
}

static void ladders(struct harness *h)
{
    ladder_of(h, GRAM_F64, GRAM_LOWER, false);
    ladder_of(h, GRAM_F32, GRAM_LOWER, false);
    ladder_of(h, GRAM_F32, GRAM_UPPER, false);
    ladder_of(h, GRAM_F64, GRAM_UPPER, true);
}

static void ladders_that_are_too_short(struct harness *h)
{
    static const double ladder[] = {0, 0.01};
    struct extra_problem p;

    extra_create(h, &p, 20, GRAM_F64, ROW_MAJOR);
    p.options.jitter = ladder;
    p.options.jitters = LENGTH(ladder);
    p.options.jittered = &p.jittered.t;
    extra_fill(h, &p, 0, 10, 0, 1);
    extra_fill(h, &p, 1, 10, -0.5, 1);
    extra_fill(h, &p, 2, 10, 0, 1);
    test_put(&p.a.t, 2 * 400 + 399, NAN);
    CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, test_at(&p.jittered.t, 0) == 0 && test_at(&p.info.t, 0) == 0, "s is %g",
          test_at(&p.jittered.t, 0));
    extra_check(h, &p, 0, 0, 4 * 20 * test_eps(GRAM_F64));
    for (int i = 1; i < EXTRA_ITEMS; i++)
        CHECK(h,
              isnan(test_at(&p.jittered.t, i)) && test_at(&p.info.t, i) > 0 &&
                  isnan(test_at(&p.x.t, i * 20 * EXTRA_COLUMNS)),
              "item %d: s is %g, info %g", i, test_at(&p.jittered.t, i), test_at(&p.info.t, i));
    extra_destroy(h, &p);
}

/* ---- Empty, refused ------------------------------------------------------------------------- */

static void empty(struct harness *h)
{
    static const double ladder[] = {0, 1};
    struct extra_problem p;

    extra_create(h, &p, 0, GRAM_F64, ROW_MAJOR);
    p.options.refine = 1;
    p.options.jitter = ladder;
    p.options.jitters = 2;
    p.options.jittered = &p.jittered.t;
    p.options.rcond = &p.rcond.t;
    p.options.refinings = &p.refinings.t;
    CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h,
          test_at(&p.info.t, 1) == 0 && test_at(&p.rcond.t, 1) == 1 &&
              test_at(&p.jittered.t, 1) == 0 && test_at(&p.refinings.t, 1) == 0,
          "info %g, rcond %g", test_at(&p.info.t, 1), test_at(&p.rcond.t, 1));
    extra_destroy(h, &p);
}

static void refused(struct harness *h)
{
    static const double descending[] = {1, 0.5}, negative[] = {-1};
    static const char *const says[] = {
        "options.jitter[1] is 0.5",
        "options.jitter[0] is -1",
        "options.jitters is 2",
        "options.jitters is given",
        "a has dtype f32",
        "options.backward is given",
        "options.factored is given",
        "options.factor is given",
        "options.rcond overlaps a",
        "options.rcond has dtype",
        "options.rcond has batch shape",
        "options.backward overlaps",
        "options.refinings has dtype",
    };

    for (int i = 0; i < LENGTH(says); i++) {
        struct extra_problem p;
        gram_status status;
        extra_create(h, &p, 4, i == 4 ? GRAM_F32 : GRAM_F64, ROW_MAJOR);
        p.options.jitter = i == 0 ? descending : i == 1 || i == 3 ? negative : NULL;
        p.options.jitters = i == 0 || i == 2 ? 2 : i == 1 || i == 3 ? 1 : 0;
        p.lu = i == 3;
        p.options.refine = i == 4 || i == 7 || i >= 11;
        p.options.backward = i == 5 || i == 11 ? &p.backward.t : NULL;
        p.options.refinings = i == 12 ? &p.backward.t : NULL;
        p.options.factored = i == 6;
        p.options.factor = i == 7 ? &p.factor.t : NULL;
        p.options.rcond = i == 6 || (i >= 8 && i < 12) ? &p.rcond.t : NULL;
        if (i == 8)
            p.rcond.t.data = p.a.t.data;
        if (i == 9)
            p.rcond.t.dtype = GRAM_F32;
        if (i == 10)
            p.rcond.t.shape[0] = 2;
        if (i == 11)
            p.backward.t.data = p.rcond.t.data;
        status = extra_once(h, &p);
        CHECK(h, status == GRAM_INVALID_ARGUMENT, "%s: status %s", says[i],
              gram_status_name(status));
        CHECK(h, strstr(gram_message(h->g), says[i]) != NULL, "it says \"%s\", not \"%s\"",
              gram_message(h->g), says[i]);
        p.rcond.t.dtype = p.a.t.dtype, p.rcond.t.shape[0] = EXTRA_ITEMS;
        p.rcond.t.data = p.rcond.t.data == p.a.t.data ? p.jittered.t.data : p.rcond.t.data;
        extra_destroy(h, &p);
    }
}

static const struct test_function tests[] = {
    {         "condition_estimates",          condition_estimates},
    {"condition_of_broken_matrices", condition_of_broken_matrices},
    {                     "ladders",                      ladders},
    {  "ladders_that_are_too_short",   ladders_that_are_too_short},
    {                       "empty",                        empty},
    {                     "refused",                      refused},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
