/*
 * test_options.c - every operation refuses numbers and options out of their range
 *
 * SPDX-License-Identifier: MIT
 */
#include "arguments.h"
#include <math.h>

static void powers_out_of_range(struct harness *h)
{
    static const char *const takes_p[] = {"gram_cdist", "gram_median_distance", "gram_nearest",
                                          "gram_cdist_grad", "gram_agop"};
    static const double wrong[] = {-1, -0.5, -INFINITY, NAN};
    float values[2] = {1, -2};
    gram_tensor tensor = gram_vector(values, 2, GRAM_F32);
    struct arguments a;

    for (int n = 0; n < LENGTH(takes_p); n++) {
        const struct operation *o = operation_named(takes_p[n]);
        for (int i = 0; i < LENGTH(wrong); i++) {
            make_valid(o, &a);
            a.p = gram_number(wrong[i]);
            refuses(h, o, &a, "p", "is out of range");
        }
        make_valid(o, &a);
        a.p = gram_values(&tensor); /* of shape (2), where the median has a batch of 2 */
        refuses(h, o, &a, n == 1 ? "p" : "", "holds a negative value, or makes a batch");
    }
    for (int n = 3; n < LENGTH(takes_p); n++) {
        make_valid(operation_named(takes_p[n]), &a);
        a.p = gram_number(0);
        refuses(h, operation_named(takes_p[n]), &a, "p", "is 0, which has no gradient");
    }
}

static void scalars_of_kernels_out_of_range(struct harness *h)
{
    static const struct {
        const char *name;
        size_t offset;
        gram_function function;
        double value;
    } rows[] = {
        {     "bandwidth", offsetof(gram_kernel_options,      bandwidth),            GRAM_LAPLACE,   0},
        {     "bandwidth", offsetof(gram_kernel_options,      bandwidth),           GRAM_GAUSSIAN,  -1},
        {     "bandwidth", offsetof(gram_kernel_options,      bandwidth),           GRAM_MATERN32, NAN},
        {      "exponent", offsetof(gram_kernel_options,       exponent),  GRAM_EXPONENTIAL_POWER,   0},
        {      "exponent", offsetof(gram_kernel_options,       exponent),  GRAM_EXPONENTIAL_POWER,  -2},
        {         "alpha", offsetof(gram_kernel_options,          alpha), GRAM_RATIONAL_QUADRATIC,   0},
        {             "p", offsetof(gram_kernel_options,              p),            GRAM_LAPLACE,  -1},
        {             "p", offsetof(gram_kernel_options,              p),            GRAM_LAPLACE, NAN},
        {   "outer_power", offsetof(gram_kernel_options,    outer_power),            GRAM_LAPLACE, NAN},
        {"regularization", offsetof(gram_kernel_options, regularization),            GRAM_LAPLACE, NAN},
    };

    for (int n = 0; n < LENGTH(rows); n++) {
        struct arguments a;
        make_valid(operation_named("gram_kernel"), &a);
        a.kernel.function = rows[n].function;
        *(gram_scalar *)((char *)&a.kernel + rows[n].offset) = gram_number(rows[n].value);
        refuses(h, operation_named("gram_kernel"), &a, rows[n].name, "is out of range");
    }
}

static void lengths_out_of_range(struct harness *h)
{
    static const double wrong[] = {0, -1, NAN, INFINITY};
    static const char *const take[] = {"gram_kernel", "gram_kernel_matmul", "gram_kernel_vjp"};
    double values[4] = {1, 1, 1, 1};
    float single[4] = {1, 1, 1, 1};
    struct arguments a;

    for (int n = 0; n < LENGTH(take); n++) {
        const struct operation *o = operation_named(take[n]);
        int64_t k;
        gram_tensor lengths;
        make_valid(o, &a);
        k = a.arg[0]->shape[a.arg[0]->ndim - 1];
        lengths = a.arg[0]->dtype == GRAM_F64 ? gram_vector(values, k, GRAM_F64)
                                              : gram_vector(single, k, GRAM_F32);
        for (int i = 0; i < LENGTH(wrong); i++) {
            make_valid(o, &a);
            a.kernel.lengths = &lengths;
            test_put(&lengths, k - 1, wrong[i]);
            refuses(h, o, &a, "options.lengths", "holds a value out of range");
        }
        test_put(&lengths, k - 1, 1);
        make_valid(o, &a);
        lengths.shape[0] = k - 1;
        a.kernel.lengths = &lengths;
        refuses(h, o, &a, "options.lengths", "is too short");
        make_valid(o, &a);
        lengths.shape[0] = k;
        lengths.dtype = lengths.dtype == GRAM_F64 ? GRAM_F32 : GRAM_F64;
        lengths.data = lengths.dtype == GRAM_F64 ? (void *)values : (void *)single;
        a.kernel.lengths = &lengths;
        refuses(h, o, &a, "options.lengths", "has another dtype than x");
    }
}

static void options_that_mean_nothing(struct harness *h)
{
    const struct operation *kernel = operation_named("gram_kernel"),
                           *cholesky = operation_named("gram_solve_cholesky");
    struct arguments a;

    make_valid(kernel, &a);
    a.kernel_options = NULL;
    refuses(h, kernel, &a, "options", "is NULL");
    make_valid(kernel, &a);
    a.kernel.inner = (gram_inner)9;
    refuses(h, kernel, &a, "inner", "is 9");
    make_valid(kernel, &a);
    a.kernel.function = (gram_function)99;
    refuses(h, kernel, &a, "function", "is 99");
    make_valid(kernel, &a);
    a.kernel.output = (gram_kernel_output)9;
    refuses(h, kernel, &a, "output", "is 9");
    make_valid(kernel, &a);
    a.kernel.size = sizeof a.kernel + 8;
    refuses(h, kernel, &a, "size", "is of a newer header");
    make_valid(cholesky, &a);
    a.solve.uplo = (gram_uplo)5;
    refuses(h, cholesky, &a, "uplo", "is 5");
    make_valid(operation_named("gram_solve_lu"), &a);
    a.solve.factored = 1;
    refuses(h, operation_named("gram_solve_lu"), &a, "pivots", "is NULL with a factor");
}

static void searches_that_mean_nothing(struct harness *h)
{
    gram_distance metric = GRAM_DISTANCE_INIT;
    struct arguments a;

    make_valid(operation_named("gram_cdist"), &a);
    a.cdist.size = 0;
    refuses(h, operation_named("gram_cdist"), &a, "size", "is 0");
    make_valid(operation_named("gram_nearest"), &a);
    a.nearest.within = 1;
    a.nearest.radius = -1;
    refuses(h, operation_named("gram_nearest"), &a, "radius", "is -1");
    make_valid(operation_named("gram_nearest"), &a);
    a.nearest.exclude_self = 1;
    refuses(h, operation_named("gram_nearest"), &a, "exclude_self", "is set where y is not x");
    make_valid(operation_named("gram_nearest"), &a);
    a.nearest.metric = &metric;
    metric.kind = (gram_distance_kind)14;
    refuses(h, operation_named("gram_nearest"), &a, "metric->kind", "is 14");
    metric.kind = GRAM_DISTANCE_SEUCLIDEAN;
    refuses(h, operation_named("gram_nearest"), &a, "metric->weights", "is NULL");
    make_valid(operation_named("gram_median_distance"), &a);
    a.median.rows = -3;
    refuses(h, operation_named("gram_median_distance"), &a, "rows", "is -3");
    make_valid(operation_named("gram_agop"), &a);
    a.agop.points = -1;
    refuses(h, operation_named("gram_agop"), &a, "points", "is -1");
}

/* Packed bits: those of other metrics, other numbers of bytes, numbers in the place of bytes, and
 * bytes where there are no bits. */
static void bits_that_mean_nothing(struct harness *h)
{
    const struct operation *cdist = operation_named("gram_cdist");
    gram_distance metric = GRAM_DISTANCE_INIT;
    struct arguments a;

    make_valid(cdist, &a);
    a.cdist.metric = &metric;
    metric.bits = 8;
    refuses(h, cdist, &a, "metric->bits", "is 8 with the kind 0");
    metric.kind = GRAM_DISTANCE_JACCARD;
    refuses(h, cdist, &a, "x", "has dtype f");
    metric.weights = &a.t[0];
    refuses(h, cdist, &a, "metric->weights", "is not NULL");
    metric.weights = NULL;
    metric.bits = -1;
    refuses(h, cdist, &a, "metric->bits", "is -1");
    metric.bits = INT64_C(1) << 31;
    refuses(h, cdist, &a, "metric->bits", "is 2147483648");
    metric.bits = 1000;
    a.t[0].dtype = a.t[1].dtype = GRAM_U8;
    refuses(h, cdist, &a, "x", "columns, expected 125");
    metric.bits = 0;
    refuses(h, cdist, &a, "x", "has dtype u8");
    make_valid(operation_named("gram_kernel"), &a);
    metric.bits = 8;
    a.kernel.metric = &metric;
    refuses(h, operation_named("gram_kernel"), &a, "metric->bits", "kernels have no packed bits");
}

static void paths_that_mean_nothing(struct harness *h)
{
    const struct operation *path = operation_named("gram_krr_path");
    struct arguments a;

    make_valid(path, &a);
    a.path.method = (gram_krr_path_method)3;
    refuses(h, path, &a, "method", "is 3");
    make_valid(path, &a);
    a.path.intercept = (gram_krr_intercept)-1;
    refuses(h, path, &a, "intercept", "is -1");
    make_valid(path, &a);
    a.ridges[1] = -0.5;
    refuses(h, path, &a, "ridges", "is -0.5");
    make_valid(path, &a);
    a.ridges[0] = NAN;
    refuses(h, path, &a, "ridges", "is nan");
    make_valid(path, &a);
    a.path.error = &a.t[0];
    refuses(h, path, &a, "options.error", "is of other sizes");
}

static const struct test_function tests[] = {
    {            "powers_out_of_range",             powers_out_of_range},
    {"scalars_of_kernels_out_of_range", scalars_of_kernels_out_of_range},
    {           "lengths_out_of_range",            lengths_out_of_range},
    {      "options_that_mean_nothing",       options_that_mean_nothing},
    {     "searches_that_mean_nothing",      searches_that_mean_nothing},
    {         "bits_that_mean_nothing",          bits_that_mean_nothing},
    {        "paths_that_mean_nothing",         paths_that_mean_nothing},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
