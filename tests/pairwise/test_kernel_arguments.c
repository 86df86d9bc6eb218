/*
 * test_kernel_arguments.c - what kernels of a metric and expressions of norms are given, by
 * operations that use a kernel matrix otherwise than gram_kernel does
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "gram/gram.h"
#include <math.h>
#include <string.h>

enum {
    M = 7,
    N = 5,
    K = 3,
    R = 2
};

static gram_tensor vector(double *data, int64_t count)
{
    return (gram_tensor){
        .data = data, .dtype = GRAM_F64, .ndim = 1, .shape = {count}, .stride = {1}};
}

static void fill(double *to, int count, double from)
{
    for (int i = 0; i < count; i++)
        to[i] = from + sin(1 + 2.7 * i);
}

/* The largest difference of grads.v from K^T grad, with a matrix K that is stored; x and y may be
 * one. */
static double off_transposed(const char *text, bool same, double regularization,
                             gram_status *status)
{
    double x[M * K], y[M * K], v[M * R], grad[M * R], k[M * M], to[M * R], worst = 0;
    const int n = same ? M : N;
    gram_tensor tx = gram_matrix(x, M, K, GRAM_F64), ty = gram_matrix(y, n, K, GRAM_F64),
                tv = gram_matrix(v, n, R, GRAM_F64), tg = gram_matrix(grad, M, R, GRAM_F64),
                tk = gram_matrix(k, M, n, GRAM_F64), tt = gram_matrix(to, n, R, GRAM_F64);
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    gram_context *g;

    fill(x, M * K, 0.2), fill(y, M * K, 0.5), fill(v, M * R, 0), fill(grad, M * R, 0.1);
    o.function = GRAM_EXPRESSION, o.expression = text;
    o.p = gram_number(2), o.outer_power = gram_number(1);
    o.regularization = gram_number(regularization), o.row_offset = 2, o.column_offset = 1;
    grads.v = &tt;
    *status = gram_context_create(NULL, &g);
    if (*status)
        return INFINITY;
    *status = gram_kernel(g, &tx, same ? NULL : &ty, &o, &tk);
    if (!*status)
        *status = gram_kernel_matmul_vjp(g, &tx, same ? NULL : &ty, &o, &tv, &tg, &grads);
    gram_context_destroy(g);
    for (int j = 0; j < n; j++)
        for (int c = 0; c < R; c++) {
            double sum = 0, error;
            for (int i = 0; i < M; i++)
                sum += k[i * n + j] * grad[i * R + c];
            error = fabs(sum - to[j * R + c]);
            worst = error > worst || isnan(error) ? error : worst;
        }
    return worst;
}

/* The transposed matrix of f(s, |x|, |y|) has f(s, |y|, |x|).  The derivative of the third by s is
 * symmetric where the expression is not. */
static void gradient_to_v_of_norms_that_are_not_exchangeable(struct harness *h)
{
    static const char *const texts[] = {"exp(-s) * norm_x", "norm_x - 2 * norm_y * dot",
                                        "s + norm_x",       "norm_x * norm_y * exp(-s)",
                                        "exp(-s)",          "norm_y = s; norm_x + norm_y"};

    for (int i = 0; i < LENGTH(texts); i++)
        for (int same = 0; same < 2; same++) {
            gram_status status;
            const double off = off_transposed(texts[i], same, i % 2, &status);
            CHECK(h, status == GRAM_OK, "%s: status %d", texts[i], (int)status);
            CHECK(h, off < 1e-12, "%s, y %s: off by %g", texts[i], same ? "is x" : "is given", off);
        }
}

/* A call whose output is `out`, and which would read the weights. */
static gram_status call(gram_context *g, int which, gram_kernel_options *kernel, gram_tensor *out)
{
    double x[M * K], values[K], vectors[M * K];
    gram_tensor tx = gram_matrix(x, M, K, GRAM_F64), tv = gram_matrix(x, M, 1, GRAM_F64),
                val = vector(values, K), vec = gram_matrix(vectors, M, K, GRAM_F64);
    gram_tensor column = *out, first = *out;
    gram_eigh_options eigh = GRAM_EIGH_OPTIONS_INIT;

    fill(x, M * K, 2);
    column.ndim = 2, column.shape[0] = M, column.shape[1] = 1, column.stride[1] = 1;
    eigh.select = GRAM_EIGH_LARGEST, eigh.count = K, first.shape[0] = K;
    switch (which) {
    case 0:
        return gram_kernel_matmul(g, &tx, NULL, kernel, &tv, NULL, &column);
    case 1:
        return gram_kernel_reduce(g, &tx, NULL, kernel, GRAM_REDUCE_MAX, NULL, NULL, out, NULL);
    case 2:
        return gram_eigh_kernel(g, &tx, kernel, &eigh, &first, &vec, NULL);
    default:
        return gram_eigh_kernel(g, &tx, kernel, &eigh, &val, NULL, NULL);
    }
}

/* Products, reductions and eigenvalues write what they would still read. */
static void outputs_over_the_weights_of_a_metric(struct harness *h)
{
    double memory[M + 2] = {1, 2, 3};
    gram_tensor out = vector(memory + 2, M), weights = vector(memory, K);
    gram_distance metric = GRAM_DISTANCE_INIT;
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    gram_context *g;

    kernel.function = GRAM_LAPLACE;
    metric.kind = GRAM_DISTANCE_CANBERRA, metric.weights = &weights;
    kernel.metric = &metric;
    if (!CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "no context"))
        return;
    for (int which = 0; which < 3; which++) {
        gram_status status = call(g, which, &kernel, &out);
        CHECK(h,
              status == GRAM_INVALID_ARGUMENT && strstr(gram_message(g), "options.metric->weights"),
              "call %d: status %d, %s", which, (int)status, gram_message(g));
        CHECK(h, memory[2] == 3, "call %d wrote", which);
    }
    out.data = memory, weights.data = memory + 2; /* the other order, one element in common */
    weights.shape[0] = K;
    CHECK(h, call(g, 3, &kernel, &out) == GRAM_OK, "apart: %s", gram_message(g));
    gram_context_destroy(g);
}

/* The message spoke of offsets, which were equal. */
static void eigenvalues_of_a_distance_that_is_not_symmetric(struct harness *h)
{
    double memory[M];
    gram_tensor out = vector(memory, M);
    gram_distance metric = GRAM_DISTANCE_INIT;
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    gram_context *g;

    kernel.function = GRAM_LAPLACE;
    metric.kind = GRAM_DISTANCE_KULLBACK_LEIBLER;
    kernel.metric = &metric;
    if (!CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "no context"))
        return;
    CHECK(h, call(g, 3, &kernel, &out) == GRAM_INVALID_ARGUMENT, "was not refused");
    CHECK(h, strstr(gram_message(g), "GRAM_DISTANCE_KULLBACK_LEIBLER"), "%s", gram_message(g));
    /* Whether an expression is symmetric is the caller's to know: this one is. */
    kernel.metric = NULL, kernel.function = GRAM_EXPRESSION;
    kernel.expression = "exp(-s) * (norm_x * norm_x) * norm_y / (1 / norm_y)";
    CHECK(h, call(g, 3, &kernel, &out) == GRAM_OK, "%s", gram_message(g));
    kernel.row_offset = 1;
    CHECK(h, call(g, 3, &kernel, &out) == GRAM_OK, "without a diagonal: %s", gram_message(g));
    kernel.regularization = gram_number(0.5);
    CHECK(h, call(g, 3, &kernel, &out) == GRAM_INVALID_ARGUMENT, "other offsets");
    CHECK(h, strstr(gram_message(g), "row_offset"), "%s", gram_message(g));
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {"gradient_to_v_of_norms_that_are_not_exchangeable",
     gradient_to_v_of_norms_that_are_not_exchangeable                                        },
    {            "outputs_over_the_weights_of_a_metric", outputs_over_the_weights_of_a_metric},
    { "eigenvalues_of_a_distance_that_is_not_symmetric",
     eigenvalues_of_a_distance_that_is_not_symmetric                                         },
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}
