/*
 * test_krr_variance.c - gram_krr_variance against Cholesky in long double, its bounds, all trouble
 *
 * GRAM_TEST_DEVICE is as in run_cases.c; on a device: what depends on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include "tests/krr/krr_numbers.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_N = 110,
    MOST_M = 300, /* more than a block has */
    WIDTH = 3
};

/* A call and all that it is given; arrays are of either dtype. */
struct call {
    int64_t n, m;
    gram_dtype dtype, out_dtype;
    double x[MOST_N * WIDTH], z[MOST_M * WIDTH], weights[MOST_N];
    double variance[2 * MOST_M], bound[MOST_M];
    gram_tensor x_tensor, z_tensor, weights_tensor, variance_tensor, bound_tensor;
    gram_kernel_options kernel;
    gram_krr_variance_options options;
    gram_krr_variance_report report;
    long double l[MOST_N * MOST_N], cross[MOST_N];
    double k[MOST_N * MOST_N], zx[MOST_M * MOST_N], own[MOST_M];
};

static void outputs_of(struct call *c, gram_dtype dtype)
{
    c->out_dtype = dtype;
    for (int i = 0; i < 2 * MOST_M; i++)
        set_number(dtype, c->variance, i, 7);
    for (int i = 0; i < MOST_M; i++)
        set_number(dtype, c->bound, i, 7);
    c->variance_tensor = gram_matrix(c->variance, c->m, 1, dtype);
    c->bound_tensor = gram_matrix(c->bound, c->m, 1, dtype);
    c->variance_tensor.ndim = c->bound_tensor.ndim = 1;
    c->variance_tensor.stride[0] = 2;
}

/* Test points: those of x at first, then others near and far. */
static struct call *call_open(struct harness *h, gram_dtype dtype, int64_t n, int64_t m)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        harness_end_without_memory("a call");
    c->n = n;
    c->m = m;
    c->dtype = dtype;
    c->kernel = gram_gaussian(1);
    c->options = (gram_krr_variance_options)GRAM_KRR_VARIANCE_OPTIONS_INIT;
    c->options.ridge = 1e-2;
    c->options.bound = &c->bound_tensor;
    c->report.size = sizeof c->report;
    c->options.report = &c->report;
    for (int64_t i = 0; i < n * WIDTH; i++)
        set_number(dtype, c->x, i, 4 * test_uniform(h) - 2);
    for (int64_t i = 0; i < m * WIDTH; i++)
        set_number(dtype, c->z, i,
                   i / WIDTH < n && i / WIDTH < m / 2 ? get_number(dtype, c->x, i)
                                                      : 6 * test_uniform(h) - 3);
    for (int64_t i = 0; i < n; i++)
        set_number(dtype, c->weights, i, 0.5 + 2 * test_uniform(h));
    c->x_tensor = gram_matrix(c->x, n, WIDTH, dtype);
    c->z_tensor = gram_matrix(c->z, m, WIDTH, dtype);
    c->weights_tensor = gram_matrix(c->weights, n, 1, dtype);
    c->weights_tensor.ndim = 1;
    outputs_of(c, dtype);
    return c;
}

static gram_status call_run(struct harness *h, struct call *c)
{
    gram_tensor x = c->x_tensor, z = c->z_tensor, w = c->weights_tensor, v = c->variance_tensor,
                b = c->bound_tensor;
    gram_krr_variance_options options = c->options;
    gram_status status;

    if (h->device.type == GRAM_CPU)
        return gram_krr_variance(h->g, &x, &c->kernel, &z, &options, &v);
    upload(h, &x, sizeof c->x);
    upload(h, &z, sizeof c->z);
    upload(h, &w, sizeof c->weights);
    upload(h, &v, sizeof c->variance);
    upload(h, &b, sizeof c->bound);
    if (options.weights)
        options.weights = &w;
    options.bound = &b;
    status = gram_krr_variance(h->g, &x, &c->kernel, &z, &options, &v);
    if (!device_download(c->variance, v.data, sizeof c->variance) ||
        !device_download(c->bound, b.data, sizeof c->bound))
        abort();
    gram_memory_free(h->g, x.data, sizeof c->x);
    gram_memory_free(h->g, z.data, sizeof c->z);
    gram_memory_free(h->g, w.data, sizeof c->weights);
    gram_memory_free(h->g, v.data, sizeof c->variance);
    gram_memory_free(h->g, b.data, sizeof c->bound);
    return status;
}

static double variance_at(const struct call *c, int64_t j)
{
    return get_number(c->out_dtype, c->variance, j * c->variance_tensor.stride[0]);
}

static double bound_at(const struct call *c, int64_t j)
{
    return get_number(c->out_dtype, c->bound, j);
}

/* ---- The truth ------------------------------------------------------------------------------- */

static void fill_kernels(struct call *c)
{
    gram_context *g;
    double x[MOST_N * WIDTH], z[MOST_M * WIDTH];
    gram_tensor points = gram_matrix(x, c->n, WIDTH, GRAM_F64);
    gram_tensor others = gram_matrix(z, c->m, WIDTH, GRAM_F64);
    gram_tensor k = gram_matrix(c->k, c->n, c->n, GRAM_F64);
    gram_tensor zx = gram_matrix(c->zx, c->m, c->n, GRAM_F64);

    for (int64_t i = 0; i < c->n * WIDTH; i++)
        x[i] = get_number(c->dtype, c->x, i);
    for (int64_t i = 0; i < c->m * WIDTH; i++)
        z[i] = get_number(c->dtype, c->z, i);
    if (gram_context_create(NULL, &g) != GRAM_OK ||
        gram_kernel(g, &points, NULL, &c->kernel, &k) != GRAM_OK ||
        gram_kernel(g, &others, &points, &c->kernel, &zx) != GRAM_OK)
        abort();
    for (int64_t j = 0; j < c->m; j++) {
        gram_tensor one = gram_matrix(z + j * WIDTH, 1, WIDTH, GRAM_F64);
        gram_tensor own = gram_matrix(c->own + j, 1, 1, GRAM_F64);
        if (gram_kernel(g, &one, NULL, &c->kernel, &own) != GRAM_OK)
            abort();
    }
    gram_context_destroy(g);
}

static bool factorise(struct call *c)
{
    const int64_t n = c->n;

    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            long double sum = (long double)c->k[i * n + k];
            if (i == k)
                sum +=
                    (long double)(c->options.ridge /
                                  (c->options.weights ? get_number(c->dtype, c->weights, i) : 1));
            for (int64_t m = 0; m < k; m++)
                sum -= c->l[i * n + m] * c->l[k * n + m];
            if (i == k && !(sum > 0))
                return false;
            c->l[i * n + k] = i == k ? sqrtl(sum) : sum / c->l[k * n + k];
        }
    return true;
}

static double exact(struct call *c, int64_t j)
{
    long double sum = (long double)c->own[j];

    for (int64_t i = 0; i < c->n; i++) {
        long double v = (long double)c->zx[j * c->n + i];
        for (int64_t m = 0; m < i; m++)
            v -= c->l[i * c->n + m] * c->cross[m];
        c->cross[i] = v / c->l[i * c->n + i];
        sum -= c->cross[i] * c->cross[i];
    }
    return (double)sum;
}

/* No variance is farther from the truth than its bound, nor below it by more than rounding; the
 * largest bound is that of the report.  Returns the largest error over k(z, z). */
static double check_bounds(struct harness *h, struct call *c)
{
    double most = 0, bounds = 0;

    fill_kernels(c);
    CHECK(h, factorise(c), "the problem is not positive definite");
    for (int64_t j = 0; j < c->m; j++) {
        double truth = exact(c, j), v = variance_at(c, j), bound = bound_at(c, j);

        CHECK(h, fabs(v - truth) <= bound && v >= 0, "point %lld: %.12g, truth %.12g, bound %g",
              (long long)j, v, truth, bound);
        if (c->own[j] > 0) {
            most = fmax(most, fabs(v - truth) / c->own[j]);
            bounds = fmax(bounds, bound / c->own[j]);
        }
    }
    CHECK(h, fabs(bounds - c->report.bound) <= 1e-6 * bounds, "the bound is %g, reported %g",
          bounds, c->report.bound);
    return most;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};
static const gram_krr_method methods[] = {GRAM_KRR_AUTO, GRAM_KRR_CHOLESKY, GRAM_KRR_CG};
static const int64_t sizes[] = {1, 2, 50, 109};

static void finds_variances(struct harness *h)
{
    for (int d = 0; d < LENGTH(dtypes); d++)
        for (int m = 0; m < LENGTH(methods); m++)
            for (int s = 0; s < LENGTH(sizes); s++) {
                struct call *c = call_open(h, dtypes[d], sizes[s], s == 2 ? MOST_M : 9);
                gram_status status;
                double error;

                c->options.method = methods[m];
                if ((m + s) % 2)
                    c->options.weights = &c->weights_tensor;
                if (d == 0 && s > 1)
                    outputs_of(c, GRAM_F64);
                status = call_run(h, c);
                error = check_bounds(h, c);
                CHECK(h, status == GRAM_OK && c->report.reached && c->report.bound <= 1e-4, "%s",
                      gram_message(h->g));
                CHECK(h, error < 1e-4, "the error is %g", error);
                CHECK(h, m == 0 || c->report.method == methods[m], "the method is %d",
                      (int)c->report.method);
                CHECK(h, get_number(c->out_dtype, c->variance, 1) == 7, "a gap was written");
                free(c);
            }
}

/* Some hundreds of problems, hard ones among them, which end at different tolerances and limits. */
static void bounds_hold(struct harness *h)
{
    static const double ridges[] = {10, 1, 1e-1, 1e-2, 1e-4, 1e-6, 1e-9};
    int count = 0, useful = 0;

    for (int kernel = 0; kernel < KERNELS; kernel += h->device.type == GRAM_CPU ? 1 : 3)
        for (int r = 0; r < LENGTH(ridges); r += h->device.type == GRAM_CPU ? 1 : 2)
            for (int d = 0; d < LENGTH(dtypes); d++)
                for (int m = 1; m < LENGTH(methods); m++, count++) {
                    struct call *c = call_open(h, dtypes[d], 30 + 9 * kernel, 20);

                    c->kernel = kernel_of(kernel);
                    c->options.ridge = ridges[r];
                    c->options.method = methods[m];
                    c->options.rank = count % 4 - 1;
                    c->options.tolerance = pow(10, -1 - count % 5);
                    c->options.products = count % 3 == 0 ? 8 : 0;
                    if (count % 4 == 1)
                        c->options.weights = &c->weights_tensor;
                    call_run(h, c);
                    check_bounds(h, c);
                    useful += c->report.bound <= c->options.tolerance;
                    CHECK(h, c->report.reached == (c->report.bound <= c->options.tolerance),
                          "reached is %d with a bound of %g", c->report.reached, c->report.bound);
                    free(c);
                }
    CHECK(h, count >= 40 && useful > count / 2, "%d of %d are useful", useful, count);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Bounds are at most some times the error: the median over problems with preconditioners that stop
 * early, where the error is no rounding. */
static void bounds_are_tight(struct harness *h)
{
    static const double ridges[] = {10, 1, 1e-1, 1e-2, 1e-3};
    static const int64_t ranks[] = {10, 30, 60};
    double ratio[3 * 5 * 3 * 2 * 20];
    int count = 0, problem = 0;

    for (int kernel = 0; kernel < KERNELS; kernel += h->device.type == GRAM_CPU ? 1 : 4)
        for (int r = 0; r < LENGTH(ridges); r++, problem++) {
            struct call *c = call_open(h, problem % 2 ? GRAM_F32 : GRAM_F64, 109, 8);

            c->kernel = kernel_of(kernel);
            c->options.ridge = ridges[r];
            c->options.method = GRAM_KRR_CG;
            c->options.rank = ranks[problem % 3];
            c->options.tolerance = pow(10, -1 - problem % 4);
            if (problem % 4 == 1)
                c->options.weights = &c->weights_tensor;
            outputs_of(c, GRAM_F64);
            call_run(h, c);
            check_bounds(h, c);
            for (int64_t j = 0; j < c->m; j++) {
                double error = fabs(variance_at(c, j) - exact(c, j));

                if (error > 1e-11 * c->own[j] && count < LENGTH(ratio))
                    ratio[count++] = bound_at(c, j) / error;
            }
            free(c);
        }
    qsort(ratio, (size_t)count, sizeof *ratio, by_value);
    CHECK(h, count > 20 && ratio[count / 2] < 5, "the median ratio of %d is %g, the largest %g",
          count, ratio[count / 2], ratio[count - 1]);
}

/* The preconditioner of the first block serves the others. */
static void one_preconditioner(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 109, MOST_M);

    c->options.method = GRAM_KRR_CG;
    c->options.rank = 109;
    c->options.tolerance = 1e-8;
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, c->report.rank > 50 && c->report.products <= 2 * 8, "rank %lld, %lld products",
          (long long)c->report.rank, (long long)c->report.products);
    check_bounds(h, c);
    free(c);
}

static void limits(struct harness *h)
{
    static const char *const says[] = {"options.products are used up", "options.time_limit"};

    for (int which = 0; which < 2; which++) {
        struct call *c = call_open(h, GRAM_F64, 100, 20);
        gram_status status;

        c->options.method = GRAM_KRR_CG;
        c->options.rank = -1;
        c->options.tolerance = 1e-9;
        if (which == 0)
            c->options.products = 9;
        else
            c->options.time_limit = 1e-9;
        status = call_run(h, c);
        CHECK(h, status == GRAM_NUMERICAL && strstr(gram_message(h->g), says[which]), "%s",
              gram_message(h->g));
        CHECK(h, !c->report.reached && c->report.end == (which ? GRAM_KRR_TIME : GRAM_KRR_PRODUCTS),
              "the end is %d", (int)c->report.end);
        check_bounds(h, c);
        free(c);
    }
}

/* NaN where there is no variance, by each method. */
static void indefinite(struct harness *h)
{
    for (int m = 0; m < LENGTH(methods); m++) {
        struct call *c = call_open(h, GRAM_F64, 60, 5);
        gram_status status;

        c->options.method = methods[m];
        c->options.rank = -1;
        c->options.ridge = 1e-3;
        c->kernel.function = GRAM_EXPRESSION;
        c->kernel.expression = "1 - 0.5 * s";
        status = call_run(h, c);
        CHECK(h,
              status == GRAM_NUMERICAL && strstr(gram_message(h->g), "is not positive definite") &&
                  strstr(gram_message(h->g), "gram_krr_variance: "),
              "%s", gram_message(h->g));
        CHECK(h, isnan(variance_at(c, 0)) && isnan(bound_at(c, 4)) && isnan(c->report.bound),
              "%g, bound %g", variance_at(c, 0), c->report.bound);
        CHECK(h, c->report.end == GRAM_KRR_INDEFINITE && !c->report.reached, "the end is %d",
              (int)c->report.end);
        free(c);
    }
}

static void nothing_to_do(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F32, 0, 4);

    CHECK(h, call_run(h, c) == GRAM_OK && c->report.reached, "%s", gram_message(h->g));
    for (int64_t j = 0; j < 4; j++)
        CHECK(h, variance_at(c, j) == 1, "the prior has %g", variance_at(c, j));
    free(c);
    c = call_open(h, GRAM_F64, 5, 0);
    CHECK(h, call_run(h, c) == GRAM_OK && c->report.reached && c->report.bound == 0, "%s",
          gram_message(h->g));
    free(c);
}

static void cancelled(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 100, 3);

    c->options.method = GRAM_KRR_CG;
    gram_context_cancel(h->g);
    CHECK(h, call_run(h, c) == GRAM_CANCELLED && variance_at(c, 0) == 7, "%s", gram_message(h->g));
    CHECK(h, call_run(h, c) == GRAM_OK, "%s", gram_message(h->g));
    free(c);
}

static void without_memory(struct harness *h)
{
    for (int m = 1; m < LENGTH(methods); m++) {
        struct call *c = call_open(h, GRAM_F32, 40, MOST_M);
        gram_status status = GRAM_OUT_OF_MEMORY;
        bool failed;

        c->options.method = methods[m];
        for (int64_t fail_at = 1; status == GRAM_OUT_OF_MEMORY && fail_at < 500; fail_at++) {
            status = run_failing(h, fail_at, call_run, c, &failed);
            CHECK(h, status == GRAM_OK || failed, "allocation %lld: %s", (long long)fail_at,
                  gram_status_name(status));
        }
        CHECK(h, status == GRAM_OK, "%s", gram_status_name(status));
        free(c);
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void no_ridge(struct call *c)
{
    c->options.ridge = 0;
}

static void centres(struct call *c)
{
    c->options.method = GRAM_KRR_CENTRES;
}

static void bad_tolerance(struct call *c)
{
    c->options.tolerance = -1;
}

static void nan_in_x(struct call *c)
{
    c->x[4] = NAN;
}

static void nan_in_z(struct call *c)
{
    c->z[4] = NAN;
}

static void no_weight(struct call *c)
{
    c->options.weights = &c->weights_tensor;
    c->weights[3] = 0;
}

static void narrow_z(struct call *c)
{
    c->z_tensor.shape[1] = 2;
}

static void vector_z(struct call *c)
{
    c->z_tensor.ndim = 1;
}

static void other_z(struct call *c)
{
    c->z_tensor.dtype = GRAM_F32;
}

static void few_variances(struct call *c)
{
    c->variance_tensor.shape[0] = 3;
}

static void few_bounds(struct call *c)
{
    c->bound_tensor.shape[0] = 3;
}

static void narrow_bounds(struct call *c)
{
    c->bound_tensor.dtype = GRAM_F32;
}

static void over_z(struct call *c)
{
    c->variance_tensor.data = c->z_tensor.data;
}

static void bound_over_variance(struct call *c)
{
    c->bound_tensor.data = c->variance_tensor.data;
}

static void regularized(struct call *c)
{
    c->kernel.regularization = gram_number(1);
}

static void by_one_norm(struct call *c)
{
    c->kernel.function = GRAM_EXPRESSION;
    c->kernel.expression = "exp(-s) * norm_x";
}

static void report_without_size(struct call *c)
{
    c->report.size = 0;
}

static const struct {
    void (*spoil)(struct call *c);
    const char *says;
} wrong[] = {
    {           no_ridge,    "options.ridge is 0, expected a finite number above 0"},
    {            centres,                                     "options.method is 3"},
    {      bad_tolerance,                                 "options.tolerance is -1"},
    {           nan_in_x,                                              "x[1, 1] is"},
    {           nan_in_z,                                              "z[1, 1] is"},
    {          no_weight,                                 "options.weights[3] is 0"},
    {           narrow_z, "z has 2 dimensions and 2 columns, expected 2 and 3 as x"},
    {           vector_z,                                      "z has 1 dimensions"},
    {            other_z,                                         "z has dtype f32"},
    {      few_variances,            "variance is 3 by 1, expected 6 elements as z"},
    {         few_bounds,       "options.bound is 3 by 1, expected 6 elements as z"},
    {      narrow_bounds,                             "options.bound has dtype f32"},
    {             over_z,                                                "variance"},
    {bound_over_variance,                                           "options.bound"},
    {        regularized,                  "kernel.regularization is 1, expected 0"},
    {        by_one_norm,                    "kernel.expression is not symmetric: "},
    {report_without_size,                               "options.report has size 0"},
};

static void refuses_and_says_why(struct harness *h)
{
    for (int i = 0; i < LENGTH(wrong); i++) {
        struct call *c = call_open(h, GRAM_F64, 10, 6);
        gram_status status;

        wrong[i].spoil(c);
        status = call_run(h, c);
        CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), wrong[i].says),
              "%s: %s", wrong[i].says, gram_message(h->g));
        CHECK(h, c->variance[0] == 7 && c->bound[0] == 7, "%s: it was written", wrong[i].says);
        free(c);
    }
}

static void null_arguments(struct harness *h)
{
    struct call *c = call_open(h, GRAM_F64, 3, 2);
    gram_tensor *x = &c->x_tensor, *z = &c->z_tensor, *v = &c->variance_tensor;

    CHECK(
        h,
        gram_krr_variance(h->g, NULL, &c->kernel, z, &c->options, v) == GRAM_INVALID_ARGUMENT &&
            gram_krr_variance(h->g, x, NULL, z, &c->options, v) == GRAM_INVALID_ARGUMENT &&
            gram_krr_variance(h->g, x, &c->kernel, z, NULL, v) == GRAM_INVALID_ARGUMENT &&
            gram_krr_variance(h->g, x, &c->kernel, z, &c->options, NULL) == GRAM_INVALID_ARGUMENT &&
            gram_krr_variance(h->g, x, &c->kernel, NULL, &c->options, v) == GRAM_INVALID_ARGUMENT &&
            strstr(gram_message(h->g), "z is NULL"),
        "%s", gram_message(h->g));
    free(c);
}

static const struct test_function tests[] = {
    {     "finds_variances",      finds_variances},
    {         "bounds_hold",          bounds_hold},
    {  "one_preconditioner",   one_preconditioner},
    {    "bounds_are_tight",     bounds_are_tight},
    {              "limits",               limits},
    {          "indefinite",           indefinite},
    {       "nothing_to_do",        nothing_to_do},
    {           "cancelled",            cancelled},
 /* On the CPU alone: */
    {      "without_memory",       without_memory},
    {"refuses_and_says_why", refuses_and_says_why},
    {      "null_arguments",       null_arguments},
};

int main(void)
{
    return harness_run_tests_or_some(tests, LENGTH(tests), LENGTH(tests) - 3);
}
