/*
 * matrix_power_problem.c - matrices of a known spectrum, their powers, and the promised bounds
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power_problem.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RIDGES = 3,  /* of a row with ridges but without a batch */
    PREVIOUS = 7 /* what out holds before a call that may keep it */
};

/* A row's tensors, and what they held. */
struct power {
    const struct power_row *row;
    int64_t items;
    struct test_tensor a, out, info, error, ridges;
    struct { /* the same where the context's device is */
        struct test_copy a, out, info, error, ridges;
    } there;
    double *a_copy; /* items of n by n, symmetric; one if a has no batch */
    gram_matrix_power_options options;
};

static void *numbers(int64_t count, size_t size)
{
    void *memory = calloc((size_t)(count > 0 ? count : 1), size);

    if (!memory)
        harness_end_without_memory("a reference");
    return memory;
}

void power_row_label(const struct power_row *row, char *text, size_t size)
{
    snprintf(text, size, "n=%lld %s condition=%g method=%d: %s", (long long)row->n,
             row->dtype == GRAM_F32 ? "f32" : "f64", row->condition, (int)row->method, row->why);
}

/* ---- Matrices ------------------------------------------------------------------------------- */

static double eigenvalue(enum power_spectrum spectrum, double condition, int64_t i, int64_t n)
{
    double at = n > 1 ? (double)i / (double)(n - 1) : 0;

    switch (spectrum) {
    case ZERO:
        return 0;
    case IDENTITY:
        return 1;
    case RANK:
        return i < n / 3;
    case CLUSTERED:
        return (i < n / 2 ? 1 : 1 / condition) * (1 + 1e-3 * at);
    case INDEFINITE:
        return i == n / 2 ? -0.5 : pow(condition, -at);
    default:
        return pow(condition, -at);
    }
}

void power_fill(struct harness *h, int64_t n, enum power_spectrum spectrum, double condition,
                double *a)
{
    bool turned = spectrum != DIAGONAL && spectrum != ZERO && spectrum != IDENTITY;
    double *v = numbers(n, sizeof *v), *av = numbers(n, sizeof *av);

    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t i = 0; i < n; i++)
        a[i * n + i] = eigenvalue(spectrum, condition, i, n);
    for (int turn = 0; turned && turn < 3; turn++) { /* a <- H a H, H = I - 2 v v^T */
        double length = 0, vav = 0;
        for (int64_t i = 0; i < n; i++) {
            v[i] = test_uniform(h) - 0.5;
            length += v[i] * v[i];
        }
        for (int64_t i = 0; i < n; i++) {
            v[i] /= sqrt(length);
            av[i] = 0;
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                av[i] += a[i * n + j] * v[j];
        for (int64_t i = 0; i < n; i++)
            vav += v[i] * av[i];
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                a[i * n + j] += 4 * vav * v[i] * v[j] - 2 * (v[i] * av[j] + av[i] * v[j]);
    }
    free(v);
    free(av);
}

static bool is_damaged(const struct power_row *row, int64_t item)
{
    return row->nan && item == row->batch / 2;
}

/* Fills a, NaN where it must not be read; a_copy gets what a holds. */
static void fill_matrices(struct harness *h, struct power *p)
{
    const struct power_row *row = p->row;
    int64_t n = row->n, items = row->batch ? row->batch : 1;

    for (int64_t item = 0; item < items; item++) {
        double *a = p->a_copy + item * n * n;
        power_fill(h, n, row->spectrum, row->condition, a);
        if (is_damaged(row, item))
            a[n * n / 2] = a[n * n / 2 % n * n + n * n / 2 / n] = NAN;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t at = item * n * n + i * n + j;
                bool read = row->uplo == GRAM_LOWER ? i >= j : i <= j;
                test_put(&p->a.t, at,
                         read ? a[i * n + j] * (row->scale != 0 ? row->scale : 1) : NAN);
            }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                bool lower = row->uplo == GRAM_LOWER;
                int64_t at = lower ? i * n + j : j * n + i;
                a[i * n + j] = a[j * n + i] = test_at(&p->a.t, item * n * n + at);
            }
    }
}

static void open_power(struct harness *h, struct power *p, const struct power_row *row)
{
    int64_t n = row->n, batch = row->batch ? row->batch : row->ridges ? RIDGES : 0;
    int64_t shape[3] = {batch, n, n};

    *p = (struct power){
        .row = row, .items = batch ? batch : 1, .options = GRAM_MATRIX_POWER_OPTIONS_INIT};
    p->a_copy = numbers((row->batch ? row->batch : 1) * n * n, sizeof *p->a_copy);
    test_tensor_create(h, &p->a, row->dtype, row->layout, row->batch ? 3 : 2, shape + !row->batch);
    test_tensor_create(h, &p->out, row->dtype, row->layout, batch ? 3 : 2, shape + !batch);
    test_tensor_create(h, &p->info, GRAM_I32, ROW_MAJOR, batch ? 1 : 0, shape);
    test_tensor_create(h, &p->error, row->dtype, ROW_MAJOR, batch ? 1 : 0, shape);
    test_tensor_create(h, &p->ridges, GRAM_F64, ROW_MAJOR, batch ? 1 : 0, shape);
    fill_matrices(h, p);
    for (int64_t i = 0; i < test_count(&p->out.t); i++)
        test_put(&p->out.t, i, PREVIOUS);
    for (int64_t i = 0; i < p->items; i++)
        test_put(&p->ridges.t, i, row->ridge / (double)(i + 1));
    if (!row->in_place)
        test_tensor_freeze(&p->a);
    test_tensor_freeze(&p->ridges);
    p->options.numerator = row->numerator;
    p->options.denominator = row->denominator;
    p->options.method = row->method;
    p->options.precision = row->precision;
    p->options.uplo = row->uplo;
    p->options.ridge_relative = row->relative;
    p->options.condition = row->bound;
    p->options.tolerance = row->tolerance;
    p->options.iterations = row->iterations;
    p->options.keep = row->keep;
    p->options.power = row->power;
    p->options.floor = row->floor;
}

static void close_power(struct harness *h, struct power *p)
{
    test_tensor_destroy(h, &p->a, "a");
    test_tensor_destroy(h, &p->out, "out");
    test_tensor_destroy(h, &p->info, "info");
    test_tensor_destroy(h, &p->error, "error");
    test_tensor_destroy(h, &p->ridges, "ridges");
    free(p->a_copy);
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* Real powers and floors have none. */
static bool without_estimate(const struct power_row *row)
{
    return row->power != 0 || row->floor > 0;
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct power *p = problem;
    gram_tensor *a = &p->there.a.t, *out = p->row->in_place ? a : &p->there.out.t;

    p->options.ridge =
        p->row->ridges ? gram_values(&p->there.ridges.t) : gram_number(p->row->ridge);
    p->options.error = without_estimate(p->row) ? NULL : &p->there.error.t;
    return need ? gram_matrix_power_workspace(h->g, a, &p->options, out, need)
                : gram_matrix_power(h->g, a, &p->options, out, &p->there.info.t);
}

static bool run(struct harness *h, struct power *p)
{
    const struct test_pair pairs[] = {
        {     &p->a,      &p->there.a},
        {   &p->out,    &p->there.out},
        {  &p->info,   &p->there.info},
        { &p->error,  &p->there.error},
        {&p->ridges, &p->there.ridges},
    };

    return test_call_there(h, pairs, LENGTH(pairs), call, p);
}

/* Of the products of an iteration. */
static double eps_of(const struct power_row *row)
{
    if (row->precision == GRAM_POWER_PRECISION_TF32)
        return 0x1p-10;
    return row->precision == GRAM_POWER_PRECISION_TF32X3 ? 0x1p-20 : test_eps(row->dtype);
}

/* What gram.h promises: the relative error in the Frobenius norm. */
static double promised(const struct power_row *row, double condition)
{
    double eps = eps_of(row);

    if (row->method == GRAM_POWER_AUTO || row->method == GRAM_POWER_EIGH)
        return eps + 8 * (double)row->n * 0x1p-52 * condition;
    return (row->method == GRAM_POWER_MINIMAX ? 4 : 2) * condition * eps +
           16 * (double)row->n * eps;
}

/* The estimate against the same formula in long double. */
static void check_estimate(struct harness *h, const struct power *p, int64_t item,
                           const struct reference_matrix_power *r, const long double *b,
                           const long double *x, double condition)
{
    const struct power_row *row = p->row;
    int64_t n = row->n;
    long double *t = numbers(2 * n * n + 2 * n, sizeof *t);
    double truth = (double)reference_matrix_power_error(r, b, x, t, t + n * n + 2 * n);
    double told = test_at(&p->error.t, item);
    bool eigh = row->method == GRAM_POWER_AUTO || row->method == GRAM_POWER_EIGH;
    double eps = eigh ? 0x1p-52 : eps_of(row);
    double slack = r->denominator * eps * ((double)n + condition);

    CHECK(h, fabs(told - truth) <= slack + 1e-6 * truth,
          "the estimate of item %lld is %g, in long double it is %g (+- %.2g)", (long long)item,
          told, truth, slack);
    free(t);
}

/* Item by item: against the reference. */
static void check_power(struct harness *h, const struct power *p, int64_t item)
{
    const struct power_row *row = p->row;
    const gram_tensor *out = row->in_place ? &p->a.t : &p->out.t;
    int64_t n = row->n, nn = n * n;
    long double *a = numbers(5 * nn + n, sizeof *a), *b = a + nn, *v = b + nn, *x = v + nn;
    long double *got = x + nn, *w = got + nn, error = 0, norm = 0;
    struct reference_matrix_power r = {.n = n,
                                       .numerator = row->denominator ? row->numerator : -1,
                                       .denominator = row->denominator ? row->denominator : 4,
                                       .ridge =
                                           row->ridges ? test_at(&p->ridges.t, item) : row->ridge,
                                       .relative = row->relative,
                                       .power = row->power,
                                       .floor = row->floor};
    double ridge, condition, bound;

    for (int64_t i = 0; i < nn; i++)
        a[i] = b[i] = (long double)p->a_copy[(row->batch ? item * nn : 0) + i];
    reference_matrix_power(&r, a, v, w, x);
    ridge = n ? (double)(row->relative ? r.ridge * fmaxl(w[n - 1], 0) : (long double)r.ridge) : 0;
    for (int64_t i = 0; i < n; i++)
        b[i * n + i] += (long double)ridge;
    condition =
        n && w[n - 1] > 0
            ? (double)((w[n - 1] + (long double)ridge) / (fmaxl(w[0], 0) + (long double)ridge))
            : 1;
    if (r.numerator > 0 && row->spectrum == RANK)
        condition = 1; /* a root's small eigenvalues do not weigh */
    for (int64_t i = 0; i < nn; i++) {
        got[i] = (long double)test_at(out, item * nn + i);
        error += (got[i] - x[i]) * (got[i] - x[i]);
        norm += x[i] * x[i];
        CHECK(h, got[i] == (long double)test_at(out, item * nn + i % n * n + i / n),
              "item %lld is not symmetric", (long long)item);
    }
    if (row->floor > 0)
        condition = 1 / row->floor;
    bound = promised(row, condition);
    if (r.numerator > 0 && row->spectrum == RANK)
        bound = 4 * sqrt((double)n * 0x1p-52); /* rounding of eigenvalues near 0, and its root */
    CHECK(h, sqrtl(error) <= (long double)bound * sqrtl(norm),
          "item %lld: relative error %.3Lg, bound %.3g at condition %.3g", (long long)item,
          sqrtl(error / (norm > 0 ? norm : 1)), bound, condition);
    if (n > 0 && !without_estimate(row))
        check_estimate(h, p, item, &r, b, got, condition);
    free(a);
}

/* Items that failed: what out holds, and their estimate. */
static void check_failed(struct harness *h, const struct power *p, int64_t item)
{
    const struct power_row *row = p->row;
    const gram_tensor *out = row->in_place ? &p->a.t : &p->out.t;
    int64_t nn = row->n * row->n, as_expected = 0;
    bool inexact = row->outcome == GRAM_POWER_INEXACT;

    for (int64_t i = 0; i < nn; i++) {
        double v = test_at(out, item * nn + i);
        if (!row->keep)
            as_expected += isnan(v) != 0;
        else if (row->in_place) /* a itself: NaN in one triangle, and one more */
            as_expected += isnan(v) || v == p->a_copy[item * nn + i];
        else
            as_expected += v == PREVIOUS;
    }
    if (!inexact || row->keep)
        CHECK(h, as_expected == nn, "%lld of %lld elements of item %lld are as expected",
              (long long)as_expected, (long long)nn, (long long)item);
    CHECK(h, without_estimate(row) || isnan(test_at(&p->error.t, item)) == !inexact,
          "the estimate of item %lld is %g", (long long)item, test_at(&p->error.t, item));
}

void power_row_check(struct harness *h, const struct power_row *row)
{
    struct power p;
    bool ran;

    open_power(h, &p, row);
    ran = run(h, &p);
    for (int64_t item = 0; ran && item < p.items; item++) {
        bool fails = row->outcome && (!row->nan || is_damaged(row, item));
        double info = test_at(&p.info.t, item);
        CHECK(h, info == (double)(fails ? row->outcome : GRAM_POWER_DONE),
              "info of item %lld is %g", (long long)item, info);
        if (fails)
            check_failed(h, &p, item);
        if (!fails || (row->outcome == GRAM_POWER_INEXACT && !row->keep))
            check_power(h, &p, item);
    }
    close_power(h, &p);
}
