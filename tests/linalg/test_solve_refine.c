/*
 * test_solve_refine.c - refine of gram_solve_cholesky and gram_solve_lu
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_extra.h"
#include <math.h>

/* ---- refine --------------------------------------------------------------------------------- */

/* The largest backward error of the columns of an item, in long double. */
static double true_backward(const struct extra_problem *p, int64_t item)
{
    static double a[EXTRA_ORDER * EXTRA_ORDER], b[EXTRA_ORDER * EXTRA_COLUMNS],
        x[EXTRA_ORDER * EXTRA_COLUMNS];
    long double norm = 0, worst = 0;
    int64_t n = p->n;

    extra_copy(p, item, 0, a, b, x);
    for (int64_t i = 0; i < n; i++) {
        long double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += fabsl((long double)a[i * n + j]);
        norm = fmaxl(norm, sum);
    }
    for (int64_t c = 0; c < EXTRA_COLUMNS; c++) {
        long double r = 0, most_x = 0, most_b = 0;
        for (int64_t i = 0; i < n; i++) {
            long double sum = (long double)b[i * EXTRA_COLUMNS + c];
            most_b = fmaxl(most_b, fabsl(sum));
            for (int64_t j = 0; j < n; j++)
                sum -= (long double)a[i * n + j] * (long double)x[j * EXTRA_COLUMNS + c];
            r = fmaxl(r, fabsl(sum));
            most_x = fmaxl(most_x, fabsl((long double)x[i * EXTRA_COLUMNS + c]));
        }
        worst = fmaxl(worst, r / (norm * most_x + most_b));
    }
    return (double)worst;
}

static void refine_of(struct harness *h, bool lu, int64_t n, double condition, double scale,
                      bool in_f32)
{
    struct extra_problem p;
    double accepted = sqrt((double)n) * 0x1p-53;

    extra_create(h, &p, n, GRAM_F64, lu ? REVERSED : ROW_MAJOR);
    p.lu = lu;
    p.options.refine = 1;
    p.options.backward = &p.backward.t;
    p.options.refinings = &p.refinings.t;
    p.options.rcond = &p.rcond.t;
    for (int i = 0; i < EXTRA_ITEMS; i++)
        extra_fill(h, &p, i, condition, 0, scale);
    extra_run(h, &p);
    for (int i = 0; i < EXTRA_ITEMS; i++) {
        double told = test_at(&p.backward.t, i), truth = true_backward(&p, i);
        double steps = test_at(&p.refinings.t, i), rcond = test_at(&p.rcond.t, i);
        CHECK(h, test_at(&p.info.t, i) == 0, "info %g", test_at(&p.info.t, i));
        CHECK(h, in_f32 ? steps >= 1 : steps == -1, "condition %g: %g steps", condition, steps);
        CHECK(h, !in_f32 || told <= accepted, "backward error %g, accepted %g", told, accepted);
        CHECK(h, fabs(told - truth) <= (double)n * 0x1p-53, "backward error %g, truly %g", told,
              truth);
        CHECK(h, rcond > 0.01 / condition / (double)n && rcond < 10 / condition,
              "rcond %g at condition %g", rcond, condition);
    }
    extra_destroy(h, &p);
}

static void refinement(struct harness *h)
{
    for (int lu = 0; lu < 2; lu++) {
        refine_of(h, lu, 1, 1, 3, true);
        refine_of(h, lu, 60, 100, 1, true);
        refine_of(h, lu, EXTRA_ORDER, 1e5, 1e-200, true); /* out of the range of f32 */
        refine_of(h, lu, 60, 1e6, 1e250, true);
    }
    refine_of(h, true, 60, 1e8, 1, true); /* plain steps converge no more */
    refine_of(h, true, 60, 1e9, 1, true);
    refine_of(h, false, 60, 1e12, 1, false); /* not definite in f32 */
}

static void refinement_of_broken_matrices(struct harness *h)
{
    struct extra_problem p;

    extra_create(h, &p, 30, GRAM_F64, ROW_MAJOR);
    p.options.refine = 1;
    p.options.backward = &p.backward.t;
    extra_fill(h, &p, 0, 10, 0, 1);
    extra_fill(h, &p, 1, 10, -0.5, 1);
    extra_fill(h, &p, 2, 10, 0, 1);
    test_put(&p.b.t, 2 * 30 * EXTRA_COLUMNS + 1, NAN); /* one right-hand side */
    CHECK(h, extra_once(h, &p) == GRAM_OK, "%s", gram_message(h->g));
    extra_check(h, &p, 0, 0, 4 * 30 * test_eps(GRAM_F64));
    CHECK(h, test_at(&p.info.t, 1) > 0 && isnan(test_at(&p.backward.t, 1)), "info %g",
          test_at(&p.info.t, 1));
    CHECK(h, !(test_at(&p.backward.t, 2) <= 1), "backward error %g of a NaN",
          test_at(&p.backward.t, 2));
    CHECK(h,
          isfinite(test_at(&p.x.t, 2 * 30 * EXTRA_COLUMNS)) &&
              isnan(test_at(&p.x.t, 2 * 30 * EXTRA_COLUMNS + 1)),
          "columns hold %g and %g", test_at(&p.x.t, 2 * 30 * EXTRA_COLUMNS),
          test_at(&p.x.t, 2 * 30 * EXTRA_COLUMNS + 1));
    extra_destroy(h, &p);
}

static const struct test_function tests[] = {
    {                   "refinement",                    refinement},
    {"refinement_of_broken_matrices", refinement_of_broken_matrices},
};

int main(void)
{
    return harness_run_tests_where_asked(tests, LENGTH(tests));
}
