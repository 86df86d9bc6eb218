/*
 * test_matrix_power.c - what gram_matrix_power refuses, and what it says
 *
 * Every refusal must name the argument and leave out as it was.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/matrix_power_problem.h"
#include "tests/core/refusal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two 3 by 3 matrices and everything that a row of the table may spoil. */
struct call {
    double matrix[18], result[18], ridges[2], errors[2];
    int32_t outcome[2];
    gram_tensor a, out, info, error, ridge;
    gram_tensor *with_info;
    gram_matrix_power_options options;
};

#include "tests/core/refusal_spoil.h"

static void open_call(struct call *c)
{
    static const double matrix[9] = {4, 1, 0, 1, 3, 1, 0, 1, 2};

    *c = (struct call){.options = GRAM_MATRIX_POWER_OPTIONS_INIT};
    memcpy(c->matrix, matrix, sizeof matrix);
    memcpy(c->matrix + 9, matrix, sizeof matrix);
    c->a = gram_matrix(c->matrix, 3, 3, GRAM_F64);
    c->a.ndim = 3;
    c->a.shape[0] = 2, c->a.shape[2] = 3;
    c->a.stride[0] = 9, c->a.stride[1] = 3, c->a.stride[2] = 1;
    c->out = c->a;
    c->out.data = c->result;
    c->info = gram_vector(c->outcome, 2, GRAM_I32);
    c->error = gram_vector(c->errors, 2, GRAM_F64);
    c->ridge = gram_vector(c->ridges, 2, GRAM_F64);
}

static void bf16_dtype(struct call *c)
{
    c->a.dtype = GRAM_BF16;
}

static void other_dtype(struct call *c)
{
    c->out.dtype = GRAM_F32;
}

static void small_out(struct call *c)
{
    c->out.shape[1] = 2;
}

static void out_across_a(struct call *c)
{
    c->out.data = c->matrix + 1;
}

static void bad_method(struct call *c)
{
    c->options.method = (gram_power_method)9;
}

static void bad_precision(struct call *c)
{
    c->options.precision = (gram_power_precision)5;
}

static void f64_in_f32(struct call *c)
{
    c->options.precision = GRAM_POWER_PRECISION_F32;
}

static void power_zero(struct call *c)
{
    c->options.denominator = 2;
}

static void no_denominator(struct call *c)
{
    c->options.numerator = -1;
}

static void high_denominator(struct call *c)
{
    c->options.numerator = -1, c->options.denominator = 65;
}

static void power_twice(struct call *c)
{
    c->options.numerator = -1, c->options.denominator = 4, c->options.power = 0.3;
}

static void infinite_power(struct call *c)
{
    c->options.power = INFINITY;
}

static void real_by_newton(struct call *c)
{
    c->options.power = 0.12345, c->options.method = GRAM_POWER_COUPLED_NEWTON;
}

static void estimate_of_real(struct call *c)
{
    c->options.power = 0.12345, c->options.tolerance = 1;
}

static void high_floor(struct call *c)
{
    c->options.floor = 1.5;
}

static void floor_by_newton(struct call *c)
{
    c->options.floor = 0.5, c->options.method = GRAM_POWER_COUPLED_NEWTON;
}

static void low_numerator(struct call *c)
{
    c->options.numerator = -65, c->options.denominator = 2;
}

static void third_by_square_roots(struct call *c)
{
    c->options.method = GRAM_POWER_NEWTON_SCHULZ;
    c->options.numerator = -2, c->options.denominator = 6;
}

static void inverse_by_square_roots(struct call *c)
{
    c->options.method = GRAM_POWER_NEWTON_SCHULZ;
    c->options.numerator = -2, c->options.denominator = 2;
}

static void low_condition(struct call *c)
{
    c->options.condition = 0.5;
}

static void unknown_condition(struct call *c)
{
    c->options.method = GRAM_POWER_MINIMAX;
}

static void negative_ridge(struct call *c)
{
    c->options.ridge = gram_number(-1);
}

static void one_negative_ridge(struct call *c)
{
    c->ridges[1] = -2;
    c->options.ridge = gram_values(&c->ridge);
}

static void three_ridges(struct call *c)
{
    c->ridge.shape[0] = 3;
    c->options.ridge = gram_values(&c->ridge);
}

static void negative_tolerance(struct call *c)
{
    c->options.tolerance = -1;
}

static void nan_tolerance(struct call *c)
{
    c->options.tolerance = NAN;
}

static void negative_iterations(struct call *c)
{
    c->options.iterations = -1;
}

static void one_error(struct call *c)
{
    c->error.shape[0] = 1;
    c->options.error = &c->error;
}

static void error_in_out(struct call *c)
{
    c->error.data = c->result;
    c->options.error = &c->error;
}

static void error_of_f32(struct call *c)
{
    c->error.dtype = GRAM_F32;
    c->options.error = &c->error;
}

static void info_in_error(struct call *c)
{
    c->info.data = c->errors;
    c->with_info = &c->info;
    c->options.error = &c->error;
}

static void too_large(struct call *c)
{
    c->a = gram_matrix(c->matrix, 40000, 40000, GRAM_F64);
    c->a.stride[0] = c->a.stride[1] = 0;
    c->out = gram_matrix(c->result, 40000, 40000, GRAM_F64);
}

static const struct refusal refusals[] = {
    {             not_square, GRAM_INVALID_ARGUMENT,                                    "a is 2 by 3"},
    {             bf16_dtype, GRAM_INVALID_ARGUMENT,                               "a has dtype bf16"},
    {            other_dtype, GRAM_INVALID_ARGUMENT,                "out has dtype f32, expected f64"},
    {              small_out, GRAM_INVALID_ARGUMENT,                 "out is 2 by 3, expected 3 by 3"},
    {           out_across_a, GRAM_INVALID_ARGUMENT,                                 "out overlaps a"},
    {               bad_uplo, GRAM_INVALID_ARGUMENT,                              "options.uplo is 7"},
    {             bad_method, GRAM_INVALID_ARGUMENT,                            "options.method is 9"},
    {          bad_precision, GRAM_INVALID_ARGUMENT,                         "options.precision is 5"},
    {             f64_in_f32, GRAM_INVALID_ARGUMENT,                       "expected AUTO or F64 for"},
    {             power_zero, GRAM_INVALID_ARGUMENT,                         "options.numerator is 0"},
    {         no_denominator, GRAM_INVALID_ARGUMENT,                       "options.denominator is 0"},
    {       high_denominator, GRAM_INVALID_ARGUMENT,                      "options.denominator is 65"},
    {            power_twice, GRAM_INVALID_ARGUMENT,                           "options.power is 0.3"},
    {         infinite_power, GRAM_INVALID_ARGUMENT,                           "options.power is inf"},
    {         real_by_newton, GRAM_INVALID_ARGUMENT,               "because options.power is 0.12345"},
    {       estimate_of_real, GRAM_INVALID_ARGUMENT, "no estimate of the error when options.power is"},
    {             high_floor, GRAM_INVALID_ARGUMENT,                           "options.floor is 1.5"},
    {        floor_by_newton, GRAM_INVALID_ARGUMENT,                   "because options.floor is 0.5"},
    {          low_numerator, GRAM_INVALID_ARGUMENT,                       "options.numerator is -65"},
    {  third_by_square_roots, GRAM_INVALID_ARGUMENT,                       "options.denominator is 3"},
    {inverse_by_square_roots, GRAM_INVALID_ARGUMENT,                       "options.denominator is 1"},
    {          low_condition, GRAM_INVALID_ARGUMENT,                       "options.condition is 0.5"},
    {      unknown_condition, GRAM_INVALID_ARGUMENT,                      "without options.condition"},
    {         negative_ridge, GRAM_INVALID_ARGUMENT,                            "options.ridge is -1"},
    {     one_negative_ridge, GRAM_INVALID_ARGUMENT,                            "options.ridge is -2"},
    {           three_ridges, GRAM_INVALID_ARGUMENT,                                  "options.ridge"},
    {     negative_tolerance, GRAM_INVALID_ARGUMENT,                        "options.tolerance is -1"},
    {          nan_tolerance, GRAM_INVALID_ARGUMENT,                       "options.tolerance is nan"},
    {    negative_iterations, GRAM_INVALID_ARGUMENT,                       "options.iterations is -1"},
    {              one_error, GRAM_INVALID_ARGUMENT,              "options.error has batch shape (1)"},
    {           error_in_out, GRAM_INVALID_ARGUMENT,                     "options.error overlaps out"},
    {           error_of_f32, GRAM_INVALID_ARGUMENT,                    "options.error has dtype f32"},
    {         info_of_floats, GRAM_INVALID_ARGUMENT,                             "info has dtype f32"},
    {          info_in_error, GRAM_INVALID_ARGUMENT,                    "info overlaps options.error"},
    {              too_large,      GRAM_UNSUPPORTED,                               "a has 40000 rows"},
};

static void refused(struct harness *h)
{
    struct call c;

    for (int i = 0; i < LENGTH(refusals); i++) {
        open_call(&c);
        refusals[i].spoil(&c);
        refusal_check(h, &refusals[i],
                      gram_matrix_power(h->g, &c.a, &c.options, &c.out, c.with_info));
        for (int k = 0; k < 18; k++)
            CHECK(h, c.result[k] == 0, "out[%d] was set to %g", k, c.result[k]);
    }
}

/* Without an info tensor a failure of any item is a status, which names the first one. */
static void failures_without_info(struct harness *h)
{
    struct call c;
    gram_status status;

    open_call(&c);
    c.matrix[9] = -40;
    status = gram_matrix_power(h->g, &c.a, &c.options, &c.out, NULL);
    CHECK(h, status == GRAM_NUMERICAL, "status %s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), "item 1 of a is not positive definite") != NULL,
          "it says \"%s\"", gram_message(h->g));
    CHECK(h, isfinite(c.result[0]) && isnan(c.result[9]), "out holds %g and %g", c.result[0],
          c.result[9]);
    open_call(&c);
    c.options.tolerance = 1e-300;
    c.options.keep = 1;
    status = gram_matrix_power(h->g, &c.a, &c.options, &c.out, NULL);
    CHECK(h, status == GRAM_NUMERICAL && c.result[0] == 0 && c.result[9] == 0,
          "status %s, out holds %g", gram_status_name(status), c.result[0]);
    CHECK(h, strstr(gram_message(h->g), "item 0 of a has an error estimate") != NULL,
          "it says \"%s\"", gram_message(h->g));
}

/* The default is the inverse fourth root, whatever stands for the options. */
static void default_power(struct harness *h)
{
    struct call c;
    double worst = 0;

    open_call(&c);
    CHECK(h, gram_matrix_power(h->g, &c.a, NULL, &c.out, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) { /* X (X (X (X A))) = I, by columns */
            double v[3] = {c.matrix[j], c.matrix[3 + j], c.matrix[6 + j]}, w[3];
            for (int power = 0; power < 4; power++) {
                for (int k = 0; k < 3; k++)
                    w[k] = c.result[3 * k] * v[0] + c.result[3 * k + 1] * v[1] +
                           c.result[3 * k + 2] * v[2];
                memcpy(v, w, sizeof v);
            }
            worst = fmax(worst, fabs(v[i] - (i == j)));
        }
    CHECK(h, worst <= 1e-14, "X^4 A is off I by %g", worst);
}

/* Items of a batch are those of single calls, however many threads there are. */
static void batch_and_threads(struct harness *h)
{
    enum {
        N = 40,
        ITEMS = 9
    };
    static double a[ITEMS][N * N], one[N * N], many[2][ITEMS][N * N];
    int64_t size = (int64_t)N * N;
    gram_tensor t = gram_matrix(a, N, N, GRAM_F64), out = gram_matrix(one, N, N, GRAM_F64);
    gram_tensor batch = t;

    for (int i = 0; i < ITEMS; i++)
        power_fill(h, N, GEOMETRIC, 1000, a[i]);
    batch.ndim = 3;
    batch.shape[0] = ITEMS, batch.shape[1] = batch.shape[2] = N;
    batch.stride[0] = size, batch.stride[1] = N, batch.stride[2] = 1;
    for (int threads = 1; threads <= 2; threads++) {
        struct harness_options options = {.threads = threads};
        struct harness other;
        gram_tensor to = batch;
        if (!CHECK(h, harness_open(&other, &options, NULL), "no context"))
            return;
        to.data = many[threads - 1];
        CHECK(h, gram_matrix_power(other.g, &batch, NULL, &to, NULL) == GRAM_OK, "%s",
              gram_message(other.g));
        harness_close(&other);
    }
    CHECK(h, memcmp(many[0], many[1], sizeof many[0]) == 0, "2 threads give other bits than 1");
    for (int i = 0; i < ITEMS; i++) {
        double worst = 0;
        t.data = a[i];
        CHECK(h, gram_matrix_power(h->g, &t, NULL, &out, NULL) == GRAM_OK, "%s",
              gram_message(h->g));
        for (int k = 0; k < N * N; k++)
            worst = fmax(worst, fabs(one[k] - many[0][i][k]));
        CHECK(h, worst <= 1e-12, "item %d is off by %g", i, worst);
    }
}

static const struct test_function tests[] = {
    {              "refused",               refused},
    {"failures_without_info", failures_without_info},
    {        "default_power",         default_power},
    {    "batch_and_threads",     batch_and_threads},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
