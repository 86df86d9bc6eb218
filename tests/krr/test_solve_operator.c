/*
 * test_solve_operator.c - gram_solve_operator against f64, and everything that goes wrong
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "operator_problem.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 90,
    MOST = 20, /* columns */
    PAD = 3
};

/* A call and all that it is given; b and x are rows of MOST + PAD numbers. */
struct call {
    struct operator_problem *p;
    const gram_operator *preconditioner;
    int64_t columns;
    bool vector;
    double b[N * (MOST + PAD)], x[N * (MOST + PAD)]; /* of either dtype */
    gram_tensor b_tensor, x_tensor;
    gram_solve_operator_options options;
    gram_solve_operator_report report;
};

static double element(gram_dtype dtype, const double *data, int64_t at)
{
    return dtype == GRAM_F32 ? (double)((const float *)(const void *)data)[at] : data[at];
}

static void set_element(gram_dtype dtype, double *data, int64_t at, double value)
{
    if (dtype == GRAM_F32)
        ((float *)(void *)data)[at] = (float)value;
    else
        data[at] = value;
}

/* b is random but for what the tests put there; x is 7 everywhere. */
static struct call *call_open(gram_dtype dtype, enum spectrum kind, int64_t columns)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c || !(c->p = operator_problem_create(N, dtype, kind)))
        abort();
    c->columns = columns;
    c->b_tensor = gram_matrix(c->b, N, columns, dtype);
    c->x_tensor = gram_matrix(c->x, N, columns, dtype);
    c->b_tensor.stride[0] = c->x_tensor.stride[0] = MOST + PAD;
    for (int64_t i = 0; i < N * (MOST + PAD); i++) {
        set_element(dtype, c->b, i, sin(0.37 * (double)(i * i % 1009)));
        set_element(dtype, c->x, i, 7);
    }
    c->options = (gram_solve_operator_options)GRAM_SOLVE_OPERATOR_OPTIONS_INIT;
    c->report.size = sizeof c->report;
    return c;
}

static void call_close(struct call *c)
{
    operator_problem_destroy(c->p);
    free(c);
}

static bool untouched(const struct call *c)
{
    for (int64_t i = 0; i < N * (MOST + PAD); i++)
        if (element(c->p->dtype, c->x, i) != 7)
            return false;
    return true;
}

/* On a device: with copies of the tensors, strides included. */
static gram_status call_run(struct harness *h, struct call *c)
{
    gram_tensor b = c->b_tensor, x = c->x_tensor;
    gram_status status, moved = GRAM_OK;

    c->p->calls = 0;
    c->p->cancelled = h->g;
    if (h->device.type == GRAM_CPU)
        return gram_solve_operator(h->g, &c->p->apply, c->preconditioner, &b, &c->options, &x,
                                   &c->report);
    b.device = x.device = h->device;
    if (gram_memory_allocate(h->g, sizeof c->b, &b.data) != GRAM_OK ||
        gram_memory_allocate(h->g, sizeof c->x, &x.data) != GRAM_OK ||
        gram_memory_copy(h->g, b.data, c->b, sizeof c->b) != GRAM_OK ||
        gram_memory_copy(h->g, x.data, c->x, sizeof c->x) != GRAM_OK)
        abort();
    status =
        gram_solve_operator(h->g, &c->p->apply, c->preconditioner, &b, &c->options, &x, &c->report);
    if (!device_download(c->x, x.data, sizeof c->x))
        moved = GRAM_DEVICE_FAILED;
    gram_memory_free(h->g, b.data, sizeof c->b);
    gram_memory_free(h->g, x.data, sizeof c->x);
    return moved == GRAM_OK ? status : moved;
}

/* The largest |b - A x| / |b| of the columns, in f64; columns of zeros must have zeros. */
static double true_residual(struct harness *h, const struct call *c)
{
    double worst = 0, x[N], ax[N];

    for (int64_t j = 0; j < c->columns; j++) {
        double r = 0, norm = 0;
        for (int64_t i = 0; i < N; i++)
            x[i] =
                element(c->p->dtype, c->x, i * c->x_tensor.stride[0] + j * c->x_tensor.stride[1]);
        operator_problem_multiply(c->p, x, ax);
        for (int64_t i = 0; i < N; i++) {
            double b =
                element(c->p->dtype, c->b, i * c->b_tensor.stride[0] + j * c->b_tensor.stride[1]);
            r += (b - ax[i]) * (b - ax[i]);
            norm += b * b;
            CHECK(h, fabs(x[i]) < INFINITY, "x[%lld] of column %lld is %g", (long long)i,
                  (long long)j, x[i]);
        }
        if (norm > 0)
            worst = fmax(worst, sqrt(r / norm));
        else
            CHECK(h, r == 0, "b is 0 in column %lld, and x is not", (long long)j);
    }
    return worst;
}

static void set_column(struct call *c, int64_t column, const double *value)
{
    for (int64_t i = 0; i < N; i++)
        set_element(c->p->dtype, c->b, i * c->b_tensor.stride[0] + column * c->b_tensor.stride[1],
                    value ? value[i] : 0);
}

enum help {
    NONE,
    JACOBI,
    INVERSE
};

static const struct row {
    gram_dtype dtype;
    enum spectrum kind;
    int64_t columns;
    enum help help;
    double tolerance;
    int64_t most; /* iterations */
} rows[] = {
    {GRAM_F64,      WELL,    1,    NONE,     0,  60}, /* a vector goes to the operator as it is */
    {GRAM_F32,      WELL,    1,    NONE,     0,  40},
    {GRAM_F64,      WELL,    8,    NONE,     0,  60}, /* one block */
    {GRAM_F64,      WELL, MOST,  JACOBI,     0,  60}, /* three blocks, the last one ragged */
    {GRAM_F32,      WELL, MOST,  JACOBI,     0,  40},
    {GRAM_F64,       ILL,    3,    NONE,  1e-8, 900}, /* more than a look at the true residuals */
    {GRAM_F32,       ILL,    3,    NONE,  1e-3, 900},
    {GRAM_F64,       ILL,    5, INVERSE,  1e-9,   4}, /* the preconditioner is the answer */
    {GRAM_F64, CLUSTERED,    9,    NONE, 1e-12,   5}, /* as many steps as distinct eigenvalues */
    {GRAM_F32, CLUSTERED,    2,    NONE,  1e-5,   6},
};

static void solves(struct harness *h)
{
    for (int i = 0; i < LENGTH(rows); i++) {
        const struct row *r = &rows[i];
        struct call *c = call_open(r->dtype, r->kind, r->columns);
        double tolerance = r->tolerance > 0 ? r->tolerance : r->dtype == GRAM_F32 ? 1e-5 : 1e-10;
        double slack = r->dtype == GRAM_F32 ? 1e-6 : 1e-14, residual;

        c->options.tolerance = r->tolerance;
        c->preconditioner = r->help == JACOBI    ? &c->p->jacobi
                            : r->help == INVERSE ? &c->p->inverse
                                                 : NULL;
        CHECK(h, call_run(h, c) == GRAM_OK, "row %d: %s", i, gram_message(h->g));
        residual = true_residual(h, c);
        CHECK(h, c->report.reached == 1 && residual <= tolerance + slack, "row %d: %g", i,
              residual);
        CHECK(h, fabs(c->report.residual - residual) <= 0.01 * residual + slack,
              "row %d: %g, not %g", i, c->report.residual, residual);
        CHECK(h, c->report.iterations <= r->most, "row %d: %lld iterations", i,
              (long long)c->report.iterations);
        CHECK(h, c->p->by_rows, "row %d: a block of another shape", i);
        call_close(c);
    }
}

static void any_layout(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, WELL, 4), *v = call_open(GRAM_F64, WELL, 1);

    c->b_tensor.stride[0] = -1, c->b_tensor.stride[1] = N; /* by columns, backwards */
    c->b_tensor.data = c->b + N - 1;
    c->x_tensor.stride[0] = 1, c->x_tensor.stride[1] = N + 5;
    if (h->device.type == GRAM_CPU) { /* copies begin at the first number */
        CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
        for (int64_t j = 0; j < 4; j++) {
            double x[N], ax[N];
            memcpy(x, c->x + j * (N + 5), sizeof x);
            operator_problem_multiply(c->p, x, ax);
            for (int64_t i = 0; i < N; i++)
                CHECK(h, fabs(ax[i] - c->b[j * N + N - 1 - i]) < 1e-8, "%lld, %lld", (long long)i,
                      (long long)j);
            CHECK(h, c->x[j * (N + 5) + N] == 7, "written behind column %lld", (long long)j);
        }
    }
    v->b_tensor.ndim = v->x_tensor.ndim = 1;
    CHECK(h, call_run(h, v) == GRAM_OK && true_residual(h, v) <= 1e-10, "%s", gram_message(h->g));
    call_close(c);
    call_close(v);
}

/* An eigenvector is solved in one step, and then takes no part in products; so are zeros. */
static void columns_leave(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, ILL, 6);
    double v[N];
    int64_t alone;

    c->options.tolerance = 1e-7;
    for (int64_t j = 1; j < 5; j++) {
        operator_problem_eigenvector(c->p, j, v);
        set_column(c, j, v);
    }
    set_column(c, 5, NULL);
    CHECK(h, call_run(h, c) == GRAM_OK && true_residual(h, c) <= 1e-7, "%s", gram_message(h->g));
    CHECK(h, c->report.iterations > 50, "%lld iterations", (long long)c->report.iterations);
    alone = c->report.products - c->report.iterations;
    CHECK(h, alone < 60, "%lld products more than iterations", (long long)alone);
    CHECK(h, c->report.column == 0, "column %lld", (long long)c->report.column);
    call_close(c);
}

static void nothing_to_do(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, WELL, 0), *z = call_open(GRAM_F32, WELL, 3);
    struct operator_problem *p = operator_problem_create(0, GRAM_F64, WELL);

    CHECK(h,
          call_run(h, c) == GRAM_OK && c->report.reached == 1 && c->p->calls == 0 && untouched(c),
          "no columns: %s", gram_message(h->g));
    for (int64_t j = 0; j < 3; j++)
        set_column(z, j, NULL);
    for (int warm = 0; warm < 2; warm++) {
        z->options.warm_start = warm;
        CHECK(h, call_run(h, z) == GRAM_OK && z->report.iterations == 0 && z->report.residual == 0,
              "zeros: %s", gram_message(h->g));
        CHECK(h, true_residual(h, z) == 0, "zeros");
        for (int64_t i = 0; i < N; i++)
            set_element(GRAM_F32, z->x, i * (MOST + PAD), 3);
    }
    if (p && h->device.type == GRAM_CPU) {
        gram_tensor b = gram_matrix(c->b, 0, 2, GRAM_F64), x = gram_matrix(c->x, 0, 2, GRAM_F64);
        CHECK(h,
              gram_solve_operator(h->g, &p->apply, NULL, &b, NULL, &x, NULL) == GRAM_OK &&
                  p->calls == 0,
              "no rows: %s", gram_message(h->g));
    }
    operator_problem_destroy(p);
    call_close(c);
    call_close(z);
}

static void warm_starts(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, ILL, 3);
    int64_t cold;

    c->options.tolerance = 1e-6;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    cold = c->report.iterations;
    c->options.warm_start = 1;
    CHECK(h, call_run(h, c) == GRAM_OK && c->report.iterations == 0 && c->report.products == 3,
          "%s", gram_message(h->g));
    c->options.tolerance = 1e-8;
    CHECK(h, call_run(h, c) == GRAM_OK && true_residual(h, c) <= 1.0001e-8, "%s",
          gram_message(h->g));
    CHECK(h, c->report.iterations > 0, "%lld and %lld", (long long)cold,
          (long long)c->report.iterations);
    c->x[0] = NAN;
    CHECK(h, call_run(h, c) == GRAM_NUMERICAL && strstr(gram_message(h->g), "first guess"), "%s",
          gram_message(h->g));
    call_close(c);
}

static void says(struct harness *h, gram_status status, gram_status expected, const char *text)
{
    CHECK(h, status == expected && strstr(gram_message(h->g), text), "%s, \"%s\" of \"%s\"",
          gram_status_name(status), text, gram_message(h->g));
}

static void not_positive_definite(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};

    for (int d = 0; d < 2; d++) {
        struct call *c = call_open(dtypes[d], INDEFINITE, 2);
        double v[N];

        says(h, call_run(h, c), GRAM_NUMERICAL, "a is not positive definite: p^T A p is -");
        CHECK(h, c->report.reached == 0 && !untouched(c), "reached %d", c->report.reached);
        (void)true_residual(h, c);
        operator_problem_eigenvector(c->p, N / 2, v); /* found in the first step */
        set_column(c, 1, v);
        says(h, call_run(h, c), GRAM_NUMERICAL, "iteration 1 in column 1");
        CHECK(h, c->report.column == 1, "column %lld", (long long)c->report.column);
        call_close(c);
        c = call_open(dtypes[d], WELL, 2);
        c->preconditioner = &c->p->negative;
        says(h, call_run(h, c), GRAM_NUMERICAL,
             "preconditioner is not positive definite: r^T P^-1");
        call_close(c);
    }
}

/* With b in the range there is an answer; else the residual cannot fall below its other part. */
static void singular(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, SINGULAR, 1);
    double null[N], b[N], dot = 0;

    operator_problem_eigenvector(c->p, 0, null);
    for (int64_t i = 0; i < N; i++)
        dot += null[i] * c->b[i * (MOST + PAD)];
    for (int64_t i = 0; i < N; i++)
        b[i] = c->b[i * (MOST + PAD)] - dot * null[i];
    set_column(c, 0, b);
    CHECK(h, call_run(h, c) == GRAM_OK && true_residual(h, c) <= 1e-10, "%s", gram_message(h->g));
    for (int64_t i = 0; i < N; i++)
        b[i] += null[i];
    set_column(c, 0, b);
    CHECK(h, call_run(h, c) == GRAM_NUMERICAL && c->report.residual > 1e-3, "%s",
          gram_message(h->g));
    call_close(c);
}

static void not_a_number(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, WELL, 3);

    c->b[2 * (MOST + PAD) + 1] = NAN;
    says(h, call_run(h, c), GRAM_NUMERICAL, "NaN or infinity in column 1 of b");
    CHECK(h, untouched(c) && isnan(c->report.residual) && c->report.column == 1, "x was written");
    c->b[2 * (MOST + PAD) + 1] = INFINITY;
    says(h, call_run(h, c), GRAM_NUMERICAL, "NaN or infinity in column 1 of b");
    c->b[2 * (MOST + PAD) + 1] = 1;
    c->p->nan_at = 4;
    says(h, call_run(h, c), GRAM_NUMERICAL, "NaN or infinity in a product of iteration 4");
    CHECK(h, true_residual(h, c) < 1, "the best answer was not kept");
    call_close(c);
}

static void limits(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, ILL, 2);
    double residual;

    c->options.iterations = 5;
    says(h, call_run(h, c), GRAM_NUMERICAL, "after 5 iterations, where options.iterations");
    residual = true_residual(h, c);
    CHECK(h, residual < 10 && fabs(residual - c->report.residual) < 1e-9 && !c->report.reached,
          "%g and %g", residual, c->report.residual);
    c->options.iterations = 0;
    c->options.time_limit = 1e-9;
    says(h, call_run(h, c), GRAM_NUMERICAL, "options.time_limit");
    CHECK(h, c->report.residual == 1, "%g", c->report.residual);
    call_close(c);
    c = call_open(GRAM_F32, ILL, 2); /* the dtype allows no such residual */
    c->options.tolerance = 1e-9;
    says(h, call_run(h, c), GRAM_NUMERICAL, "rounding allows no less");
    residual = true_residual(h, c);
    CHECK(h, residual < 1e-2 && c->report.iterations < 1000, "%g after %lld", residual,
          (long long)c->report.iterations);
    call_close(c);
}

static void products_that_fail(struct harness *h)
{
    struct call *c = call_open(GRAM_F64, WELL, 2);

    c->p->fail_at = 4;
    says(h, call_run(h, c), GRAM_IO, "a.apply returned GRAM_IO");
    CHECK(h, untouched(c), "x was written");
    c->p->fail_at = 0, c->p->cancel_at = 3;
    says(h, call_run(h, c), GRAM_CANCELLED, "cancelled");
    CHECK(h, c->p->calls == 3 && untouched(c), "%d calls", c->p->calls);
    c->p->cancel_at = 0;
    CHECK(h, call_run(h, c) == GRAM_OK, "the request was not taken: %s", gram_message(h->g));
    call_close(c);
}

static void same_bits_with_any_threads(struct harness *h)
{
    struct call *c = call_open(GRAM_F32, ILL, 9);

    c->options.tolerance = 1e-3;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    for (int threads = 1; threads < 4; threads += 2) {
        struct call *d = call_open(GRAM_F32, ILL, 9);
        struct harness other = *h;
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;

        o.threads = threads;
        d->options.tolerance = 1e-3;
        if (CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL))) {
            CHECK(h, call_run(&other, d) == GRAM_OK, "%s", gram_message(other.g));
            CHECK(h, memcmp(c->x, d->x, sizeof c->x) == 0, "%d threads", threads);
            gram_context_destroy(other.g);
        }
        call_close(d);
    }
    call_close(c);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void without_memory(struct harness *h)
{
    struct harness other = *h;
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_status status = GRAM_OUT_OF_MEMORY;
    int left = 100, allowed;

    limited_alloc_use(&left, &o);
    o.threads = 1;
    if (!CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL)))
        return;
    for (allowed = 0; allowed < 20 && status == GRAM_OUT_OF_MEMORY; allowed++) {
        struct call *c = call_open(GRAM_F64, WELL, 2);

        c->preconditioner = &c->p->jacobi;
        left = allowed;
        status = call_run(&other, c);
        CHECK(h, status == GRAM_OK || (status == GRAM_OUT_OF_MEMORY && untouched(c)), "%d: %s",
              allowed, gram_message(other.g));
        call_close(c);
    }
    CHECK(h, status == GRAM_OK && allowed >= 4, "%d allocations", allowed);
    gram_context_destroy(other.g);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void tolerance_of_2(struct call *c)
{
    c->options.tolerance = 2;
}

static void nan_tolerance(struct call *c)
{
    c->options.tolerance = NAN;
}

static void negative_iterations(struct call *c)
{
    c->options.iterations = -1;
}

static void negative_time(struct call *c)
{
    c->options.time_limit = -1;
}

static void few_rows(struct call *c)
{
    c->b_tensor.shape[0] = N - 1;
}

static void more_columns(struct call *c)
{
    c->x_tensor.shape[1] = 3;
}

static void b_of_floats(struct call *c)
{
    c->b_tensor.dtype = GRAM_F32;
}

static void a_batch(struct call *c)
{
    c->b_tensor.ndim = 3;
    c->b_tensor.shape[2] = 1;
    c->b_tensor.stride[2] = 1;
}

static void a_vector(struct call *c)
{
    c->x_tensor.ndim = 1;
}

static void x_over_b(struct call *c)
{
    c->x_tensor.data = c->b + 1;
}

static void no_apply(struct call *c)
{
    c->p->apply.apply = NULL;
}

static void halves(struct call *c)
{
    c->p->apply.dtype = GRAM_F16;
}

static void negative_n(struct call *c)
{
    c->p->apply.n = -1;
}

static void other_preconditioner(struct call *c)
{
    c->preconditioner = &c->p->jacobi;
    c->p->jacobi.n = N + 1;
}

static void report_without_size(struct call *c)
{
    c->report.size = 0;
}

static const struct {
    void (*spoil)(struct call *);
    const char *says;
} wrong[] = {
    {      tolerance_of_2,                           "options.tolerance is 2"},
    {       nan_tolerance,                            "options.tolerance is "},
    { negative_iterations,                         "options.iterations is -1"},
    {       negative_time,                         "options.time_limit is -1"},
    {            few_rows,                 "b has 89 rows, expected a.n, whi"},
    {        more_columns, "x has 2 dimensions and 3 columns, expected 2 and"},
    {         b_of_floats,                                  "b has dtype f32"},
    {             a_batch,              "b has 3 dimensions, expected 1 or 2"},
    {            a_vector,                                  "x has 1 dimensi"},
    {            x_over_b,                                                "x"},
    {            no_apply,                                  "a.apply is NULL"},
    {              halves,                                   "a.dtype is f16"},
    {          negative_n,                                        "a.n is -1"},
    {other_preconditioner,                   "preconditioner is 91 by 91 of "},
    { report_without_size,                              "report has size 0, "},
};

static void refuses_and_says_why(struct harness *h)
{
    gram_tensor b;

    for (int i = 0; i < LENGTH(wrong); i++) {
        struct call *c = call_open(GRAM_F64, WELL, 2);

        wrong[i].spoil(c);
        says(h, call_run(h, c), GRAM_INVALID_ARGUMENT, wrong[i].says);
        CHECK(h, untouched(c), "%s: x was written", wrong[i].says);
        call_close(c);
    }
    b = gram_matrix(NULL, 0, 0, GRAM_F64);
    says(h, gram_solve_operator(h->g, NULL, NULL, &b, NULL, &b, NULL), GRAM_INVALID_ARGUMENT,
         "a is NULL");
}

static const struct test_function tests[] = {
    {                    "solves",                     solves},
    {                "any_layout",                 any_layout},
    {             "columns_leave",              columns_leave},
    {             "nothing_to_do",              nothing_to_do},
    {               "warm_starts",                warm_starts},
    {     "not_positive_definite",      not_positive_definite},
    {                  "singular",                   singular},
    {              "not_a_number",               not_a_number},
    {                    "limits",                     limits},
    {        "products_that_fail",         products_that_fail},
    {"same_bits_with_any_threads", same_bits_with_any_threads},
    {            "without_memory",             without_memory},
    {      "refuses_and_says_why",       refuses_and_says_why},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 3);
}
