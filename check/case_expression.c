/*
 * case_expression.c - the rows of gram_kernel with an expression: every one is a built-in function,
 * written out, and is compared with what the reference has for that function
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise_problem.h"
#include <string.h>

/* In terms of the numbers of a kernel: see pair_write_out. */
#define ID      "s"
#define LAPLACE "exp(-s / L)"
#define GAUSS   "exp(-s / (2 * L * L))"
#define LPQ     "exp(-pow(s, q) / pow(L, q))"
#define MAT                                          \
  "(1 + sqrt(5) * s / L + 5 * s * s / (3 * L * L)) " \
  "* exp(-sqrt(5) * s / L)"
#define RAT  "pow(1 + s / (2 * alpha * L * L), -alpha)"
#define POLY "pow(gamma * s + coef0, p5)"
#define SIG  "tanh(gamma * s + coef0)"
#define COS  "s / (norm_x * norm_y)"
#define COS2 "norm_x * norm_x * dot / norm_y / pow(norm_x, 3)" /* no mirror that it knows of */

/* Both from the sums beside s, which is not used; D1 is of one column. */
#define COS_D2 "(norm_x * norm_x + norm_y * norm_y - d2 * d2) / (2 * norm_x * norm_y)"
#define D1     "exp(-d1 / L)"
#define D1_D2  "exp(-(d1 + 3 * d2) / (4 * L))"

/* clang-format off */
#define KERNEL(name, f, power, outer, ...)                                                      \
    static const gram_kernel_options name = {                                                   \
        .size = sizeof(gram_kernel_options), .inner = GRAM_DIFFERENCE, .p = {power, NULL},      \
        .outer_power = {outer, NULL}, .function = f, .exponent = {0.8, NULL},             \
        .alpha = {1.7, NULL}, .degree = {3, NULL}, __VA_ARGS__}
#define PRODUCT(name, f, ...)                                                                   \
    static const gram_kernel_options name = {                                                   \
        .size = sizeof(gram_kernel_options), .inner = GRAM_DOT, .p = {2, NULL},                 \
        .outer_power = {1, NULL}, .function = f, .bandwidth = {1, NULL}, .exponent = {1, NULL}, \
        .alpha = {1, NULL}, __VA_ARGS__}

KERNEL(distance, GRAM_IDENTITY, 2, 0.5, .bandwidth = {1, NULL});
KERNEL(laplace, GRAM_LAPLACE, 2, 0.5, .bandwidth = {1.5, NULL});
KERNEL(gaussian, GRAM_GAUSSIAN, 2, 1, .bandwidth = {1.3, NULL});
KERNEL(regular, GRAM_GAUSSIAN, 2, 1, .bandwidth = {1.3, NULL}, .regularization = {0.5, NULL});
KERNEL(tile_below, GRAM_GAUSSIAN, 2, 1, .bandwidth = {1.3, NULL}, .regularization = {0.5, NULL},
    .row_offset = 40, .column_offset = 9);
KERNEL(matern52, GRAM_MATERN52, 2, 0.5, .bandwidth = {2, NULL});
KERNEL(matern52_weight, GRAM_MATERN52, 2, 0.5, .bandwidth = {2, NULL}, .output = GRAM_WEIGHT);
KERNEL(rational, GRAM_RATIONAL_QUADRATIC, 2, 1, .bandwidth = {1.1, NULL});
KERNEL(rational_weight, GRAM_RATIONAL_QUADRATIC, 2, 1, .bandwidth = {1.1, NULL},
    .output = GRAM_WEIGHT);
KERNEL(lpq_weight, GRAM_EXPONENTIAL_POWER, 1.4, 1 / 1.4, .bandwidth = {2, NULL},
    .output = GRAM_WEIGHT);
PRODUCT(polynomial, GRAM_POLYNOMIAL, .gamma = {0.05, NULL}, .coef0 = {2, NULL}, .degree = {2.5,
    NULL});
PRODUCT(polynomial_weight, GRAM_POLYNOMIAL, .gamma = {0.2, NULL}, .coef0 = {1, NULL}, .degree =
    {3, NULL}, .output = GRAM_WEIGHT);
PRODUCT(sigmoid, GRAM_SIGMOID, .gamma = {0.1, NULL}, .coef0 = {-0.5, NULL});
PRODUCT(sigmoid_weight, GRAM_SIGMOID, .gamma = {0.1, NULL}, .coef0 = {-0.5, NULL}, .output =
    GRAM_WEIGHT);

PRODUCT(cosine, GRAM_COSINE, .gamma = {1, NULL}, .degree = {3, NULL});
PRODUCT(cosine_regular, GRAM_COSINE, .gamma = {1, NULL}, .degree = {3, NULL}, .regularization =
    {0.5, NULL});

static const struct pair_row rows[] = {
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &laplace,
     .expression = LAPLACE, .why = "a function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &matern52,
     .expression = MAT, .why = "polynomial times function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &rational,
     .expression = RAT, .why = "a power with a constant exponent"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &polynomial,
     .expression = POLY, .why = "a power of an affine function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &sigmoid,
     .expression = SIG, .why = "of an inner product"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &matern52_weight,
     .expression = MAT, .why = "a derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq_weight,
     .expression = LPQ, .why = "the derivative of a power in a function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &rational_weight,
     .expression = RAT, .why = "the derivative of a power"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &polynomial_weight,
     .expression = POLY, .why = "a derivative by an inner product"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &sigmoid_weight,
     .expression = SIG, .why = "the derivative of tanh"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &laplace,
     .expression = LAPLACE, .why = "a function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &matern52,
     .expression = MAT, .why = "polynomial times function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &rational,
     .expression = RAT, .why = "a power with a constant exponent"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &polynomial,
     .expression = POLY, .why = "a power of an affine function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &sigmoid,
     .expression = SIG, .why = "of an inner product"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &matern52_weight,
     .expression = MAT, .why = "a derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &lpq_weight,
     .expression = LPQ, .why = "the derivative of a power in a function"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &rational_weight,
     .expression = RAT, .why = "the derivative of a power"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &polynomial_weight,
     .expression = POLY, .why = "a derivative by an inner product"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &sigmoid_weight,
     .expression = SIG, .why = "the derivative of tanh"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &distance,
     .expression = ID, .why = "nothing but s"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq_weight, .data = DATA_INTEGERS,
     .expression = LPQ, .why = "weights of points that coincide are 0"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian, .data = DATA_SPECIAL,
     .expression = GAUSS, .why = "NaN and infinity"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &regular, .out_layout = COLUMN_MAJOR,
     .expression = GAUSS, .why = "the diagonal by columns"},
    {.m = 131, .n = 0, .k = 9, .dtype = GRAM_F64, .kernel = &regular, .same = true, .out_layout = EVERY_SECOND,
     .expression = GAUSS, .why = "x = y, no unit stride"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &tile_below,
     .expression = GAUSS, .why = "a tile off the diagonal"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F16, .kernel = &gaussian,
     .expression = GAUSS, .why = "f16"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_BF16, .kernel = &laplace,
     .expression = LAPLACE, .why = "bf16"},
    {.m = 40, .n = 50, .k = 0, .dtype = GRAM_F32, .kernel = &gaussian,
     .expression = GAUSS, .why = "no columns: f(0)"},
    {.m = 0, .n = 5, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian,
     .expression = GAUSS, .why = "an empty result"},
    {.m = 14, .n = 15, .k = 5, .dtype = GRAM_F32, .kernel = &regular, .x_batch = {4}, .y_batch = {4}, .per_item = true,
     .expression = GAUSS, .why = "another parameter for every item"},
    {.m = 14, .n = 0, .k = 5, .dtype = GRAM_F64, .kernel = &laplace, .x_batch = {2, 2}, .same = true, .per_item = true,
     .expression = LAPLACE, .why = "another parameter for every item, x = y"},
    {.m = 14, .n = 33, .k = 2500, .dtype = GRAM_F32, .kernel = &gaussian, .data = DATA_CLUSTERED,
     .expression = GAUSS, .why = "several rounds over k"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &cosine,
     .expression = COS, .why = "norms of rows"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &cosine,
     .expression = COS, .why = "norms of rows"},
    {.m = 200, .n = 170, .k = 33, .dtype = GRAM_F32, .kernel = &cosine,
     .expression = COS2, .why = "norms, tiles of all sizes"},
    {.m = 131, .n = 0, .k = 9, .dtype = GRAM_F64, .kernel = &cosine_regular, .same = true,
     .expression = COS, .why = "norms, x = y: a half and its mirror image"},
    {.m = 131, .n = 0, .k = 9, .dtype = GRAM_F64, .kernel = &cosine_regular, .same = true,
     .expression = COS2, .why = "norms, x = y: both halves"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &cosine, .out_layout = COLUMN_MAJOR,
     .expression = COS2, .why = "norms, out by columns"},
    {.m = 3, .n = 150, .k = 5, .dtype = GRAM_F64, .kernel = &cosine,
     .expression = COS2, .why = "norms, few rows"},
    {.m = 150, .n = 3, .k = 5, .dtype = GRAM_F64, .kernel = &cosine, .x_layout = REVERSED,
     .expression = COS2, .why = "norms, few columns"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F16, .kernel = &cosine,
     .expression = COS, .why = "norms of f16"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_BF16, .kernel = &cosine,
     .expression = COS, .why = "norms of bf16"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .kernel = &cosine, .data = DATA_SPECIAL,
     .expression = "norm_x * norm_y == 0 ? 0 : " COS, .why = "norms that are NaN or infinite"},
    {.m = 14, .n = 15, .k = 5, .dtype = GRAM_F32, .kernel = &cosine, .x_batch = {5}, .y_batch = {1},
     .expression = COS2, .why = "norms of every item"},
    {.m = 14, .n = 33, .k = 2500, .dtype = GRAM_F32, .kernel = &cosine,
     .expression = COS, .why = "norms, several rounds over k"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &cosine,
     .expression = COS_D2, .why = "a second distance"},
    {.m = 200, .n = 170, .k = 33, .dtype = GRAM_F64, .kernel = &cosine,
     .expression = COS_D2, .why = "a second distance, tiles of all sizes"},
    {.m = 200, .n = 170, .k = 33, .dtype = GRAM_F32, .kernel = &cosine, .x_layout = EVERY_SECOND,
     .expression = COS_D2, .why = "a second distance, tiles of all sizes"},
    {.m = 14, .n = 33, .k = 2500, .dtype = GRAM_F64, .kernel = &cosine,
     .expression = COS_D2, .why = "a second distance, long rows"},
    {.m = 14, .n = 15, .k = 5, .dtype = GRAM_F64, .kernel = &cosine, .x_batch = {5}, .y_batch = {1},
     .expression = COS_D2, .why = "a second distance of every item"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F16, .kernel = &cosine,
     .expression = COS_D2, .why = "a second distance of f16"},
    {.m = 150, .n = 133, .k = 1, .dtype = GRAM_F32, .kernel = &laplace,
     .expression = D1, .why = "another distance"},
    {.m = 61, .n = 50, .k = 1, .dtype = GRAM_F64, .kernel = &laplace, .out_layout = COLUMN_MAJOR,
     .expression = D1_D2, .why = "two distances, out by columns"},
    {.m = 131, .n = 0, .k = 1, .dtype = GRAM_F32, .kernel = &laplace, .same = true,
     .expression = D1_D2, .why = "two distances, x = y"},
    {.m = 20, .n = 21, .k = 1, .dtype = GRAM_F32, .kernel = &laplace, .data = DATA_SPECIAL,
     .expression = D1_D2, .why = "two distances, NaN and infinity"},
    {.m = 14, .n = 15, .k = 1, .dtype = GRAM_F64, .kernel = &laplace, .x_batch = {4},
     .y_batch = {4}, .per_item = true, .expression = D1_D2,
     .why = "two distances, another parameter for every item"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    pair_row_label(&rows[row], text, size);
}

static void check(struct harness *h, int row)
{
    pair_row_check(h, &rows[row]);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    static const struct {
        const char *name;
        const gram_kernel_options *kernel;
        const char *expression;
    } kernels[] = {
        {           "laplace",  &laplace, LAPLACE},
        {          "gaussian", &gaussian,   GAUSS},
        {          "matern52", &matern52,     MAT},
        {"rational_quadratic", &rational,     RAT},
        {           "sigmoid",  &sigmoid,     SIG},
    };
    const char *name = case_param(args, "function", "laplace");

    for (int i = 0; i < LENGTH(kernels); i++)
        if (strcmp(name, kernels[i].name) == 0)
            return pair_prepare(h, args, kernels[i].kernel, kernels[i].expression, out);
    fprintf(stderr, "function=%s, expected one of:", name);
    for (int i = 0; i < LENGTH(kernels); i++)
        fprintf(stderr, " %s", kernels[i].name);
    fprintf(stderr, "\n");
    return false;
}

const struct case_op case_expression = {
    .name = "expression",
    .sizes = "M N K",
    .params = "function=laplace dtype=f32 symmetric=0 layout=row",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
