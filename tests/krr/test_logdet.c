/*
 * test_logdet.c - log-determinants by products against Cholesky factorisations, and their errors
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "operator_problem.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 120,
    WIDTH = 3,
    PROBES = 40,
    SIDE_NUMBERS = POINTS * PROBES
};

static gram_logdet_options options_of(int64_t probes, int64_t steps, uint64_t seed)
{
    gram_logdet_options o = GRAM_LOGDET_OPTIONS_INIT;

    o.probes = probes, o.steps = steps, o.seed = seed;
    return o;
}

static gram_status estimate(struct harness *h, struct operator_problem *p,
                            const gram_logdet_options *o, gram_logdet_report *report)
{
    *report = (gram_logdet_report){.size = sizeof *report};
    p->calls = 0;
    p->cancelled = h->g;
    return gram_logdet_operator(h->g, &p->apply, o, report);
}

static void finds_it(struct harness *h)
{
    static const struct {
        gram_dtype dtype;
        enum spectrum kind;
        int64_t n, steps;
    } rows[] = {
        {GRAM_F64,      WELL, 80,   0},
        {GRAM_F32,      WELL, 80,   0},
        {GRAM_F64,       ILL, 70, 250}, /* rounding makes it take more steps than eigenvalues */
        {GRAM_F32,       ILL, 40, 250},
        {GRAM_F64, CLUSTERED, 50,   3}, /* one step for each distinct eigenvalue is enough */
        {GRAM_F64,      WELL,  1,   0}, /* a number, and its logarithm */
    };

    for (int i = 0; i < LENGTH(rows); i++) {
        struct operator_problem *p =
            operator_problem_create(rows[i].n, rows[i].dtype, rows[i].kind);
        gram_logdet_options o = options_of(20, rows[i].steps, 1);
        gram_logdet_report r;
        double truth = operator_problem_logdet(p),
               rounding = rows[i].dtype == GRAM_F32 ? 1e-3 : 1e-9;

        CHECK(h, estimate(h, p, &o, &r) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, fabs(r.value - truth) <= 3 * r.standard_error + rounding,
              "row %d: %g +- %g, and %g in truth", i, r.value, r.standard_error, truth);
        CHECK(h, r.standard_error < 0.1 * (double)rows[i].n, "row %d: +- %g", i, r.standard_error);
        CHECK(h, r.residual < 1e-2 && r.products >= 20 && p->by_rows, "row %d: %g", i, r.residual);
        operator_problem_destroy(p);
    }
}

/* A single probe gives n log c for c I, and has no error to state. */
static void one_probe(struct harness *h)
{
    struct operator_problem *p = operator_problem_create(30, GRAM_F64, WELL);
    gram_logdet_options o = options_of(1, 10, 3);
    gram_logdet_report r;

    for (int64_t i = 0; i < 900; i++)
        p->a[i] = i % 31 == 0 ? 2.5 : 0;
    CHECK(h, estimate(h, p, &o, &r) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, fabs(r.value - 30 * log(2.5)) < 1e-12 && isinf(r.standard_error), "%g +- %g", r.value,
          r.standard_error);
    CHECK(h, r.steps == 1 && r.products == 1, "%lld steps", (long long)r.steps);
    o.probes = 9;
    CHECK(h, estimate(h, p, &o, &r) == GRAM_OK && r.standard_error < 1e-13 && r.products == 9, "%s",
          gram_message(h->g));
    operator_problem_destroy(p);
}

/* Gauss quadrature of a logarithm comes from above. */
static void few_steps(struct harness *h)
{
    struct operator_problem *p = operator_problem_create(70, GRAM_F64, ILL);
    gram_logdet_report few, many;
    gram_logdet_options o = options_of(16, 4, 5);

    CHECK(h, estimate(h, p, &o, &few) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, few.residual > 0.01 && few.steps == 4 && few.products == 64, "%g", few.residual);
    o.steps = 0;
    CHECK(h, estimate(h, p, &o, &many) == GRAM_OK && few.value > many.value + 1, "%g and %g",
          few.value, many.value);
    operator_problem_destroy(p);
}

/* The truth lies within twice the standard error in at least 90 % of some problems. */
static void the_stated_error_holds(struct harness *h)
{
    static const enum spectrum kinds[] = {WELL, ILL, CLUSTERED};
    int covered = 0, problems = 0;

    for (int i = 0; i < 200; i++, problems++) {
        struct operator_problem *p =
            operator_problem_create(8 + i % 37, i % 2 ? GRAM_F32 : GRAM_F64, kinds[i % 3]);
        gram_logdet_options o = options_of(24, 0, (uint64_t)i);
        gram_logdet_report r;

        if (!CHECK(h, estimate(h, p, &o, &r) == GRAM_OK, "%s", gram_message(h->g)))
            break;
        covered += fabs(r.value - operator_problem_logdet(p)) <= 2 * r.standard_error;
        operator_problem_destroy(p);
    }
    CHECK(h, covered >= 180, "%d of %d", covered, problems);
    CHECK(h, covered < 200, "an error that always holds is stated too large");
}

static void says(struct harness *h, gram_status status, gram_status expected, const char *text)
{
    CHECK(h, status == expected && strstr(gram_message(h->g), text), "%s, \"%s\" of \"%s\"",
          gram_status_name(status), text, gram_message(h->g));
}

static void trouble(struct harness *h)
{
    struct operator_problem *p = operator_problem_create(40, GRAM_F64, INDEFINITE);
    gram_logdet_report r;

    says(h, estimate(h, p, NULL, &r), GRAM_NUMERICAL, "a is not positive definite");
    CHECK(h, r.value == 0 && r.products == 0, "a report was written");
    operator_problem_destroy(p);
    p = operator_problem_create(40, GRAM_F64, WELL);
    p->nan_at = 3;
    says(h, estimate(h, p, NULL, &r), GRAM_NUMERICAL, "NaN or infinity in a product");
    p->nan_at = 0, p->fail_at = 2;
    says(h, estimate(h, p, NULL, &r), GRAM_IO, "a.apply returned GRAM_IO");
    p->fail_at = 0, p->cancel_at = 5;
    says(h, estimate(h, p, NULL, &r), GRAM_CANCELLED, "cancelled");
    p->cancel_at = 0;
    CHECK(h, estimate(h, p, NULL, &r) == GRAM_OK && r.standard_error > 0, "%s", gram_message(h->g));
    operator_problem_destroy(p);
    p = operator_problem_create(0, GRAM_F64, WELL);
    CHECK(h, estimate(h, p, NULL, &r) == GRAM_OK && r.value == 0 && p->calls == 0, "n = 0: %s",
          gram_message(h->g));
    operator_problem_destroy(p);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

struct points {
    double x[POINTS * WIDTH], k[POINTS * POINTS]; /* of either dtype */
    gram_tensor x_tensor;
    gram_kernel_options kernel;
};

static struct points *points_open(gram_dtype dtype)
{
    struct points *p = calloc(1, sizeof *p);

    if (!p)
        abort();
    for (int i = 0; i < POINTS * WIDTH; i++) {
        if (dtype == GRAM_F32)
            ((float *)(void *)p->x)[i] = (float)sin(0.37 * i * i);
        else
            p->x[i] = sin(0.37 * i * i);
    }
    p->x_tensor = gram_matrix(p->x, POINTS, WIDTH, dtype);
    p->kernel = gram_lpq_laplace(1, 1, 1);
    p->kernel.regularization = gram_number(0.05);
    return p;
}

/* An element of an array that t is made of. */
static double value_at(const gram_tensor *t, int64_t at)
{
    return t->dtype == GRAM_F32 ? (double)((const float *)t->data)[at]
                                : ((const double *)t->data)[at];
}

static gram_status kernel_estimate(struct harness *h, const struct points *p,
                                   const gram_logdet_options *o, gram_logdet_report *report)
{
    gram_tensor x = p->x_tensor;
    gram_status status;

    *report = (gram_logdet_report){.size = sizeof *report};
    if (h->device.type == GRAM_CPU)
        return gram_kernel_logdet(h->g, &x, &p->kernel, o, report);
    x.device = h->device;
    if (gram_memory_allocate(h->g, sizeof p->x, &x.data) != GRAM_OK ||
        gram_memory_copy(h->g, x.data, p->x, sizeof p->x) != GRAM_OK)
        abort();
    status = gram_kernel_logdet(h->g, &x, &p->kernel, o, report);
    gram_memory_free(h->g, x.data, sizeof p->x);
    return status;
}

/* The matrix in f64, on the CPU, factorised. */
static double kernel_truth(struct harness *h, const struct points *p)
{
    struct operator_problem *dense = operator_problem_create(POINTS, GRAM_F64, WELL);
    gram_tensor x, out = gram_matrix(dense->a, POINTS, POINTS, GRAM_F64);
    double wide[POINTS * WIDTH], truth;
    gram_context *g;

    for (int i = 0; i < POINTS * WIDTH; i++)
        wide[i] = p->x_tensor.dtype == GRAM_F32 ? (double)((const float *)(const void *)p->x)[i]
                                                : p->x[i];
    x = gram_matrix(wide, POINTS, WIDTH, GRAM_F64);
    if (gram_context_create(NULL, &g) != GRAM_OK)
        abort();
    CHECK(h, gram_kernel(g, &x, NULL, &p->kernel, &out) == GRAM_OK, "%s", gram_message(g));
    gram_context_destroy(g);
    truth = operator_problem_logdet(dense);
    operator_problem_destroy(dense);
    return truth;
}

static void of_kernels(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};

    for (int d = 0; d < 2; d++) {
        struct points *p = points_open(dtypes[d]);
        gram_logdet_options o = options_of(20, 0, 9);
        gram_logdet_report r, again;
        double truth = kernel_truth(h, p);

        CHECK(h, kernel_estimate(h, p, &o, &r) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, fabs(r.value - truth) <= 3 * r.standard_error && r.residual < 1e-2,
              "%g +- %g, and %g in truth", r.value, r.standard_error, truth);
        CHECK(h, r.standard_error < 5, "%g", r.standard_error);
        CHECK(h, kernel_estimate(h, p, &o, &again) == GRAM_OK && again.value == r.value,
              "%g, then %g", r.value, again.value);
        o.seed = 10;
        CHECK(h, kernel_estimate(h, p, &o, &again) == GRAM_OK && again.value != r.value,
              "another seed, and %g", r.value);
        free(p);
    }
}

static void refuses_and_says_why(struct harness *h)
{
    struct points *p = points_open(GRAM_F64);
    const gram_distance divergence = {.size = sizeof divergence,
                                      .kind = GRAM_DISTANCE_KULLBACK_LEIBLER};
    gram_logdet_report r = {.size = sizeof r};
    gram_logdet_options o = options_of(-1, 0, 0);
    gram_operator none = {3, GRAM_F64, NULL, NULL};

    says(h, kernel_estimate(h, p, &o, &r), GRAM_INVALID_ARGUMENT, "options.probes is -1");
    o.probes = 0, o.steps = -2;
    says(h, kernel_estimate(h, p, &o, &r), GRAM_INVALID_ARGUMENT, "options.steps is -2");
    o.steps = 0, o.tolerance = 2;
    says(h, kernel_estimate(h, p, &o, &r), GRAM_INVALID_ARGUMENT, "options.tolerance is 2");
    o.tolerance = 0, o.left = &p->x_tensor;
    says(h, gram_kernel_logdet(h->g, &p->x_tensor, &p->kernel, &o, &r), GRAM_INVALID_ARGUMENT,
         "options.left is 120 by 3, expected 120 by 32");
    o.left = NULL;
    p->kernel.row_offset = 1;
    says(h, kernel_estimate(h, p, NULL, &r), GRAM_INVALID_ARGUMENT, "expected equal offsets");
    p->kernel.row_offset = 0, p->kernel.metric = &divergence;
    says(h, kernel_estimate(h, p, NULL, &r), GRAM_INVALID_ARGUMENT, "KULLBACK_LEIBLER");
    p->kernel.metric = NULL, p->x_tensor.ndim = 3;
    p->x_tensor.shape[2] = p->x_tensor.stride[2] = 1;
    says(h, kernel_estimate(h, p, NULL, &r), GRAM_INVALID_ARGUMENT, "x has 3 dimensions");
    p->x_tensor.ndim = 2;
    says(h, gram_kernel_logdet(h->g, &p->x_tensor, NULL, NULL, &r), GRAM_INVALID_ARGUMENT,
         "kernel is NULL");
    says(h, gram_kernel_logdet(h->g, &p->x_tensor, &p->kernel, NULL, NULL), GRAM_INVALID_ARGUMENT,
         "report is NULL");
    r.size = 0;
    says(h, gram_kernel_logdet(h->g, &p->x_tensor, &p->kernel, NULL, &r), GRAM_INVALID_ARGUMENT,
         "report has size 0");
    says(h, gram_logdet_operator(h->g, &none, NULL, &r), GRAM_INVALID_ARGUMENT, "a.apply is NULL");
    free(p);
}

/* ---- The preconditioner ---------------------------------------------------------------------- */

/* Kernels on normal points from a seed, ridges and ranks that differ from problem to problem. */
static void vary(struct points *p, int i)
{
    static const gram_function functions[] = {GRAM_EXPONENTIAL_POWER, GRAM_MATERN32, GRAM_MATERN52,
                                              GRAM_RATIONAL_QUADRATIC, GRAM_EXPONENTIAL_POWER};
    uint64_t state = (uint64_t)i;

    for (int k = 0; k < POINTS * WIDTH; k++) {
        double normal = -6; /* the sum of twelve uniform numbers */

        for (int j = 0; j < 12; j++)
            normal += gram_random_unit(&state);
        if (p->x_tensor.dtype == GRAM_F32)
            ((float *)(void *)p->x)[k] = (float)normal;
        else
            p->x[k] = normal;
    }
    p->kernel = gram_lpq_laplace(2, i % 5 == 0 ? 2 : 1, 1 + i % 3);
    p->kernel.function = functions[i % 5];
    p->kernel.regularization = gram_number(POINTS * pow(10, -1 - i / 5 % 4));
}

/* The truth lies within twice the standard error, which is far below that without one. */
static void the_preconditioned_error_holds(struct harness *h)
{
    int covered = 0, compared = 0, problems = h->device.type == GRAM_CPU ? 200 : 8;
    double less = 0;

    for (int i = 0; i < problems; i++) {
        struct points *p = points_open(i % 2 ? GRAM_F32 : GRAM_F64);
        gram_logdet_options o = options_of(64, 0, (uint64_t)i);
        gram_logdet_report r, plain;
        double truth;

        vary(p, i);
        truth = kernel_truth(h, p);
        o.rank = 20 + i % 3 * 20;
        if (CHECK(h, kernel_estimate(h, p, &o, &r) == GRAM_OK, "%d: %s", i, gram_message(h->g)))
            covered += fabs(r.value - truth) <= 2 * r.standard_error;
        CHECK(h, r.rank == o.rank && r.residual < 1e-5, "%d: rank %lld, %g", i, (long long)r.rank,
              r.residual);
        o.rank = -1;
        if (i % 10 == 0 && CHECK(h, kernel_estimate(h, p, &o, &plain) == GRAM_OK, "%d: %s", i,
                                 gram_message(h->g))) {
            CHECK(h, r.standard_error < plain.standard_error && r.products < plain.products,
                  "%d: %g and %g, %lld and %lld", i, r.standard_error, plain.standard_error,
                  (long long)r.products, (long long)plain.products);
            less += log(plain.standard_error / r.standard_error);
            compared++;
        }
        free(p);
    }
    CHECK(h, covered >= problems * 19 / 20, "%d of %d", covered, problems);
    less = exp(less / compared);
    CHECK(h, less > 5, "the standard error is smaller by a factor of %g", less);
}

/* The halves of an array as left and right, or their places on the device. */
static void on_device(struct harness *h, gram_tensor *left, gram_tensor *right)
{
    const size_t half = SIDE_NUMBERS * sizeof(double);

    if (h->device.type == GRAM_CPU)
        return;
    left->device = right->device = h->device;
    if (gram_memory_allocate(h->g, 2 * half, &left->data) != GRAM_OK)
        abort();
    right->data = (char *)left->data + half;
}

static void back_from_device(struct harness *h, double *memory, gram_tensor *left,
                             gram_tensor *right)
{
    const size_t half = SIDE_NUMBERS * sizeof *memory;

    if (h->device.type == GRAM_CPU)
        return;
    if (gram_memory_copy(h->g, memory, left->data, 2 * half) != GRAM_OK ||
        gram_context_synchronize(h->g) != GRAM_OK)
        abort();
    gram_memory_free(h->g, left->data, 2 * half);
    left->data = memory;
    right->data = memory + SIDE_NUMBERS;
}

/* left and right are P^-1 z and A^-1 z: sum(left A right) is that of left and z, and the trace of
 * A^-1 K that they estimate is n - r trace(A^-1). */
static void the_sides_are_those_of_the_probes(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};

    for (int i = 0; i < 4; i++) {
        struct points *p = points_open(dtypes[i % 2]);
        double *memory = calloc(2 * SIDE_NUMBERS, sizeof *memory), found[2] = {0};
        gram_tensor left = gram_matrix(memory, POINTS, PROBES, dtypes[i % 2]);
        gram_tensor right = gram_matrix(memory + SIDE_NUMBERS, POINTS, PROBES, dtypes[i % 2]);
        gram_logdet_options o = options_of(PROBES, 0, 4);
        gram_logdet_report r, more;
        const double step = 1e-3, ridge = 5;

        if (!memory)
            abort();
        vary(p, 12);
        right.stride[0] = 1, right.stride[1] = POINTS;
        o.rank = i < 2 ? 0 : -1;
        o.left = &left, o.right = &right;
        p->kernel.regularization = gram_number(ridge);
        on_device(h, &left, &right);
        CHECK(h, kernel_estimate(h, p, &o, &r) == GRAM_OK, "%s", gram_message(h->g));
        back_from_device(h, memory, &left, &right);
        for (int a = 0; a < POINTS; a++)
            for (int b = 0; b < PROBES; b++)
                found[0] += value_at(&left, a * PROBES + b) * value_at(&right, b * POINTS + a);
        /* d log det / d ridge, by differences of exact ones */
        p->kernel.regularization = gram_number(ridge + step);
        found[1] = kernel_truth(h, p);
        p->kernel.regularization = gram_number(ridge - step);
        found[1] = (found[1] - kernel_truth(h, p)) / (2 * step);
        CHECK(h, fabs(found[0] / PROBES / found[1] - 1) < 0.1, "%d: %g, and %g in truth", i,
              found[0] / PROBES, found[1]);
        o.left = o.right = NULL;
        p->kernel.regularization = gram_number(ridge);
        CHECK(h, kernel_estimate(h, p, &o, &more) == GRAM_OK && more.value == r.value,
              "another value without them");
        free(memory);
        free(p);
    }
}

/* Rounding leaves a preconditioner of points that coincide, and of a ridge of 0, usable or unused.
 */
static void hard_matrices(struct harness *h)
{
    for (int i = 0; i < 3; i++) {
        struct points *p = points_open(GRAM_F64);
        gram_logdet_options o = options_of(30, 0, 1);
        gram_logdet_report r;
        double truth;

        vary(p, 5); /* a Gaussian kernel */
        for (int k = 0; i == 0 && k < POINTS * WIDTH; k++)
            p->x[k] = 1.5;
        p->kernel.regularization = gram_number(i < 2 ? 1e-7 : 1e-10 * POINTS);
        if (i == 2)
            p->kernel.function = GRAM_EXPONENTIAL_POWER, p->kernel.exponent = gram_number(1);
        o.rank = 60;
        truth = kernel_truth(h, p);
        CHECK(h, kernel_estimate(h, p, &o, &r) == GRAM_OK, "%d: %s", i, gram_message(h->g));
        CHECK(h, fabs(r.value - truth) <= 4 * r.standard_error + 1e-6 * fabs(truth),
              "%d: %g +- %g, and %g in truth; rank %lld, residual %g", i, r.value, r.standard_error,
              truth, (long long)r.rank, r.residual);
        free(p);
    }
}

static void same_bits_with_any_threads(struct harness *h)
{
    struct points *p = points_open(GRAM_F32);
    gram_logdet_report r[2] = {{0}, {0}};

    for (int i = 0; i < 2; i++) {
        struct harness other = *h;
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;

        o.threads = 1 + 2 * i;
        if (!CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL)))
            break;
        CHECK(h, kernel_estimate(&other, p, NULL, &r[i]) == GRAM_OK, "%s", gram_message(other.g));
        gram_context_destroy(other.g);
    }
    CHECK(h, memcmp(&r[0], &r[1], sizeof r[0]) == 0, "%.17g and %.17g", r[0].value, r[1].value);
    free(p);
}

static void without_memory(struct harness *h)
{
    for (int kernel = 0; kernel < 2; kernel++) {
        struct operator_problem *p = operator_problem_create(20, GRAM_F64, WELL);
        struct points *points = points_open(GRAM_F64);
        struct harness other = *h;
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        gram_status status = GRAM_OUT_OF_MEMORY;
        int left = 100, allowed;

        limited_alloc_use(&left, &o);
        o.threads = 1;
        if (!CHECK(h, gram_context_create(&o, &other.g) == GRAM_OK, "%s", gram_message(NULL)))
            break;
        for (allowed = 0; allowed < 60 && status == GRAM_OUT_OF_MEMORY; allowed++) {
            gram_logdet_report r;

            left = allowed;
            status =
                kernel ? kernel_estimate(&other, points, NULL, &r) : estimate(&other, p, NULL, &r);
            left = 1000; /* what a call keeps grows as it wants */
            CHECK(h, status == GRAM_OK || (status == GRAM_OUT_OF_MEMORY && r.value == 0), "%d: %s",
                  allowed, gram_message(other.g));
        }
        CHECK(h, status == GRAM_OK && allowed >= 4, "%d allocations", allowed);
        gram_context_destroy(other.g);
        operator_problem_destroy(p);
        free(points);
    }
}

static const struct test_function tests[] = {
    {                         "finds_it",                          finds_it},
    {                        "one_probe",                         one_probe},
    {                        "few_steps",                         few_steps},
    {                          "trouble",                           trouble},
    {                       "of_kernels",                        of_kernels},
    {             "refuses_and_says_why",              refuses_and_says_why},
    {           "the_stated_error_holds",            the_stated_error_holds},
    {   "the_preconditioned_error_holds",    the_preconditioned_error_holds},
    {"the_sides_are_those_of_the_probes", the_sides_are_those_of_the_probes},
    {                    "hard_matrices",                     hard_matrices},
    {       "same_bits_with_any_threads",        same_bits_with_any_threads},
    {                   "without_memory",                    without_memory},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), 5);
}
