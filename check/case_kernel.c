/*
 * case_kernel.c - the rows of gram_kernel
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZE sizeof(gram_kernel_options)

/* clang-format off */
static const gram_kernel_options identity_sqrt = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {0.5, NULL},
    .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree = {3, NULL}};
static const gram_kernel_options laplace_l1 = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_LAPLACE, .bandwidth = {3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree =
    {3, NULL}};
static const gram_kernel_options laplace_l2 = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {0.5, NULL},
    .function = GRAM_LAPLACE, .bandwidth = {1.5, NULL}, .exponent = {1, NULL}, .alpha = {1,
    NULL}, .degree = {3, NULL}};
static const gram_kernel_options gaussian = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}};
static const gram_kernel_options lpq = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1.4, NULL}, .outer_power = {1 / 1.4, NULL},
    .function = GRAM_EXPONENTIAL_POWER, .bandwidth = {2, NULL}, .exponent = {0.8, NULL}, .alpha
    = {1, NULL}, .degree = {3, NULL}};
static const gram_kernel_options lpq_root = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1.4, NULL}, .outer_power = {3, NULL}, .root = 1,
    .function = GRAM_EXPONENTIAL_POWER, .bandwidth = {2, NULL}, .exponent = {0.8, NULL}, .alpha
    = {1, NULL}, .degree = {3, NULL}};
static const gram_kernel_options product_laplace = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1.2, NULL}, .outer_power = {1 / 1.2, NULL},
    .function = GRAM_EXPONENTIAL_POWER, .bandwidth = {2, NULL}, .exponent = {1.2, NULL}, .alpha
    = {1, NULL}, .degree = {3, NULL}};
static const gram_kernel_options matern32 = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {0.5, NULL},
    .function = GRAM_MATERN32, .bandwidth = {2, NULL}, .exponent = {1, NULL}, .alpha = {1,
    NULL}, .degree = {3, NULL}};
static const gram_kernel_options matern52 = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {0.5, NULL},
    .function = GRAM_MATERN52, .bandwidth = {2, NULL}, .exponent = {1, NULL}, .alpha = {1,
    NULL}, .degree = {3, NULL}};
static const gram_kernel_options rational = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_RATIONAL_QUADRATIC, .bandwidth = {1.1, NULL}, .exponent = {1, NULL}, .alpha = {1.7,
    NULL}, .degree = {3, NULL}};
static const gram_kernel_options cubic = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_POLYNOMIAL, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .gamma =
    {0.2, NULL}, .coef0 = {1, NULL}, .degree = {3, NULL}};
static const gram_kernel_options odd_degree = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_POLYNOMIAL, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .gamma =
    {0.05, NULL}, .coef0 = {2, NULL}, .degree = {2.5, NULL}};
static const gram_kernel_options sigmoid = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_SIGMOID, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .gamma =
    {0.1, NULL}, .coef0 = {-0.5, NULL}, .degree = {3, NULL}};
static const gram_kernel_options cosine = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_COSINE, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree =
    {3, NULL}};
static const gram_kernel_options linear = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .bandwidth = {1,
    NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree = {3, NULL}};
static const gram_kernel_options chebyshev = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {INFINITY, NULL}, .outer_power = {1, NULL},
    .function = GRAM_LAPLACE, .bandwidth = {0.7, NULL}, .exponent = {1, NULL}, .alpha = {1,
    NULL}, .degree = {3, NULL}};
static const gram_kernel_options regular = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}, .regularization = {0.5, NULL}};
static const gram_kernel_options tile_above = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}, .regularization = {0.5, NULL}, .row_offset = 5, .column_offset = 17};
static const gram_kernel_options tile_below = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}, .regularization = {0.5, NULL}, .row_offset = 40, .column_offset = 9};
static const gram_kernel_options tile_apart = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}, .regularization = {0.5, NULL}, .row_offset = 100000, .column_offset = 9};
static const gram_kernel_options cosine_regular = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_COSINE, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree =
    {3, NULL}, .regularization = {0.25, NULL}};
static const gram_kernel_options laplace_l1_weight = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_LAPLACE, .bandwidth = {3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree =
    {3, NULL}, .output = GRAM_WEIGHT};
static const gram_kernel_options laplace_l1_slope = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_LAPLACE, .bandwidth = {3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .degree =
    {3, NULL}, .output = GRAM_BANDWIDTH_DERIVATIVE};
static const gram_kernel_options gaussian_weight = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}, .output = GRAM_WEIGHT};
static const gram_kernel_options gaussian_slope = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_GAUSSIAN, .bandwidth = {1.3, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL},
    .degree = {3, NULL}, .output = GRAM_BANDWIDTH_DERIVATIVE};
static const gram_kernel_options lpq_weight = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1.4, NULL}, .outer_power = {1 / 1.4, NULL},
    .function = GRAM_EXPONENTIAL_POWER, .bandwidth = {2, NULL}, .exponent = {0.8, NULL}, .alpha
    = {1, NULL}, .degree = {3, NULL}, .output = GRAM_WEIGHT};
static const gram_kernel_options lpq_slope = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {1.4, NULL}, .outer_power = {1 / 1.4, NULL},
    .function = GRAM_EXPONENTIAL_POWER, .bandwidth = {2, NULL}, .exponent = {0.8, NULL}, .alpha
    = {1, NULL}, .degree = {3, NULL}, .output = GRAM_BANDWIDTH_DERIVATIVE};
static const gram_kernel_options matern52_weight = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {0.5, NULL},
    .function = GRAM_MATERN52, .bandwidth = {2, NULL}, .exponent = {1, NULL}, .alpha = {1,
    NULL}, .degree = {3, NULL}, .output = GRAM_WEIGHT};
static const gram_kernel_options matern52_slope = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {0.5, NULL},
    .function = GRAM_MATERN52, .bandwidth = {2, NULL}, .exponent = {1, NULL}, .alpha = {1,
    NULL}, .degree = {3, NULL}, .output = GRAM_BANDWIDTH_DERIVATIVE};
static const gram_kernel_options rational_weight = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_RATIONAL_QUADRATIC, .bandwidth = {1.1, NULL}, .exponent = {1, NULL}, .alpha = {1.7,
    NULL}, .degree = {3, NULL}, .output = GRAM_WEIGHT};
static const gram_kernel_options rational_slope = {
    .size = SIZE, .inner = GRAM_DIFFERENCE, .p = {2, NULL}, .outer_power = {1, NULL}, .function
    = GRAM_RATIONAL_QUADRATIC, .bandwidth = {1.1, NULL}, .exponent = {1, NULL}, .alpha = {1.7,
    NULL}, .degree = {3, NULL}, .output = GRAM_BANDWIDTH_DERIVATIVE};
static const gram_kernel_options cubic_weight = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_POLYNOMIAL, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .gamma =
    {0.2, NULL}, .coef0 = {1, NULL}, .degree = {3, NULL}, .output = GRAM_WEIGHT};
static const gram_kernel_options sigmoid_weight = {
    .size = SIZE, .inner = GRAM_DOT, .p = {2, NULL}, .outer_power = {1, NULL}, .function =
    GRAM_SIGMOID, .bandwidth = {1, NULL}, .exponent = {1, NULL}, .alpha = {1, NULL}, .gamma =
    {0.1, NULL}, .coef0 = {-0.5, NULL}, .degree = {3, NULL}, .output = GRAM_WEIGHT};

static const struct pair_row rows[] = {
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &identity_sqrt,
     .why = "a distance"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &identity_sqrt,
     .why = "a distance"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &laplace_l1,
     .why = "L1 Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &laplace_l1,
     .why = "L1 Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &laplace_l2,
     .why = "L2 Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &laplace_l2,
     .why = "L2 Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian,
     .why = "Gaussian"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &gaussian,
     .why = "Gaussian"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq,
     .why = "Lpq Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &lpq,
     .why = "Lpq Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq_root,
     .why = "the power 1 / p in the place of the outer power"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &lpq_root,
     .why = "the power 1 / p in the place of the outer power"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &product_laplace,
     .why = "product Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &product_laplace,
     .why = "product Laplace"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &matern32,
     .why = "Matern 3/2"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &matern32,
     .why = "Matern 3/2"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &matern52,
     .why = "Matern 5/2"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &matern52,
     .why = "Matern 5/2"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &rational,
     .why = "rational quadratic"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &rational,
     .why = "rational quadratic"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &cubic,
     .why = "polynomial"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &cubic,
     .why = "polynomial"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &odd_degree,
     .why = "a polynomial of fractional degree"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &odd_degree,
     .why = "a polynomial of fractional degree"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &sigmoid,
     .why = "sigmoid"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &sigmoid,
     .why = "sigmoid"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &cosine,
     .why = "cosine"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &cosine,
     .why = "cosine"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &linear,
     .why = "linear"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &linear,
     .why = "linear"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &chebyshev,
     .why = "of the largest difference"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &chebyshev,
     .why = "of the largest difference"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &laplace_l1_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &laplace_l1_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &gaussian_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &lpq_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &matern52_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &matern52_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &rational_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &rational_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &cubic_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &cubic_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &sigmoid_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &sigmoid_weight,
     .why = "weight"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &laplace_l1_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &laplace_l1_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &gaussian_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &lpq_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &matern52_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &matern52_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &rational_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &rational_slope,
     .why = "bandwidth derivative"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian_weight, .data = DATA_DUPLICATED,
     .why = "weights of points that coincide are 0"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F64, .kernel = &laplace_l1_weight, .data = DATA_DUPLICATED,
     .why = "weights of points that coincide are 0"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &lpq_weight, .data = DATA_INTEGERS,
     .why = "weights of points that coincide are 0"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .kernel = &cosine, .data = DATA_SPECIAL,
     .why = "a norm of 0, NaN and infinity"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .kernel = &gaussian, .data = DATA_SPECIAL,
     .why = "NaN and infinity"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F64, .kernel = &lpq, .data = DATA_SPECIAL,
     .why = "NaN and infinity"},
    {.m = 60, .n = 0, .k = 9, .dtype = GRAM_F32, .kernel = &cosine_regular, .same = true,
     .why = "x = y"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &regular,
     .why = "the diagonal"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &regular, .out_layout = COLUMN_MAJOR,
     .why = "the diagonal by columns"},
    {.m = 131, .n = 0, .k = 9, .dtype = GRAM_F32, .kernel = &regular, .same = true,
     .why = "x = y"},
    {.m = 131, .n = 0, .k = 9, .dtype = GRAM_F64, .kernel = &regular, .same = true, .out_layout = EVERY_SECOND,
     .why = "x = y, no unit stride"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &tile_above,
     .why = "a tile right of the diagonal"},
    {.m = 61, .n = 150, .k = 9, .dtype = GRAM_F64, .kernel = &tile_above, .out_layout = COLUMN_MAJOR,
     .why = "a tile right of the diagonal, by columns"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &tile_below,
     .why = "a tile below the diagonal"},
    {.m = 61, .n = 150, .k = 9, .dtype = GRAM_F64, .kernel = &tile_below, .out_layout = COLUMN_MAJOR,
     .why = "a tile below the diagonal, by columns"},
    {.m = 61, .n = 50, .k = 9, .dtype = GRAM_F32, .kernel = &tile_apart,
     .why = "a tile off the diagonal"},
    {.m = 61, .n = 150, .k = 9, .dtype = GRAM_F64, .kernel = &tile_apart, .out_layout = COLUMN_MAJOR,
     .why = "a tile off the diagonal, by columns"},
    {.m = 70, .n = 0, .k = 9, .dtype = GRAM_F32, .kernel = &tile_above, .same = true,
     .why = "x = y off the diagonal"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_F16, .kernel = &gaussian,
     .why = "f16"},
    {.m = 40, .n = 50, .k = 9, .dtype = GRAM_BF16, .kernel = &laplace_l1,
     .why = "bf16"},
    {.m = 40, .n = 50, .k = 0, .dtype = GRAM_F32, .kernel = &gaussian,
     .why = "no columns: f(0)"},
    {.m = 14, .n = 15, .k = 5, .dtype = GRAM_F32, .kernel = &regular, .x_batch = {4}, .y_batch = {4}, .per_item = true,
     .why = "a batch, another bandwidth for every item"},
    {.m = 14, .n = 0, .k = 5, .dtype = GRAM_F64, .kernel = &laplace_l1, .x_batch = {2, 2}, .same = true, .per_item = true,
     .why = "a batch, another bandwidth for every item"},
    {.m = 14, .n = 15, .k = 5, .dtype = GRAM_F32, .kernel = &cosine, .x_batch = {5}, .y_batch = {1},
     .why = "a batch"},
    {.m = 19, .n = 0, .k = 1800, .dtype = GRAM_F32, .kernel = &tile_above, .same = true,
     .why = "long sums, x = y off the diagonal"},
    {.m = 19, .n = 0, .k = 1800, .dtype = GRAM_F64, .kernel = &regular, .same = true, .x_batch = {3},
     .out_layout = COLUMN_MAJOR, .why = "long sums of a batch, a diagonal"},
    {.m = 7, .n = 9, .k = 1800, .dtype = GRAM_F32, .kernel = &lpq_weight, .why = "long sums, weights"},
    {.m = 7, .n = 9, .k = 1801, .dtype = GRAM_F32, .kernel = &sigmoid, .why = "long products"},
    {.m = 14, .n = 33, .k = 2500, .dtype = GRAM_F32, .kernel = &cosine,
     .why = "several rounds over k"},
    {.m = 14, .n = 33, .k = 2500, .dtype = GRAM_F64, .kernel = &gaussian, .data = DATA_CLUSTERED,
     .why = "several rounds over k"},
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

static bool function_of(const char *name, gram_function *out)
{
    static const char *const names[] = {
        [GRAM_IDENTITY] = "identity",
        [GRAM_LAPLACE] = "laplace",
        [GRAM_GAUSSIAN] = "gaussian",
        [GRAM_EXPONENTIAL_POWER] = "exponential_power",
        [GRAM_MATERN32] = "matern32",
        [GRAM_MATERN52] = "matern52",
        [GRAM_RATIONAL_QUADRATIC] = "rational_quadratic",
        [GRAM_POLYNOMIAL] = "polynomial",
        [GRAM_SIGMOID] = "sigmoid",
        [GRAM_COSINE] = "cosine",
    };

    for (int i = 0; i < LENGTH(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (gram_function)i;
            return true;
        }
    fprintf(stderr, "function=%s, expected one of:", name);
    for (int i = 0; i < LENGTH(names); i++)
        fprintf(stderr, " %s", names[i]);
    fprintf(stderr, "\n");
    return false;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    if (!function_of(case_param(args, "function", "gaussian"), &o.function))
        return false;
    if (strcmp(case_param(args, "inner", "difference"), "dot") == 0)
        o.inner = GRAM_DOT;
    o.p = gram_number(case_number(args, "p", 2));
    o.outer_power = gram_number(case_number(args, "outer", 1));
    o.bandwidth = gram_number(case_number(args, "bandwidth", 1));
    o.exponent = gram_number(case_number(args, "exponent", 1));
    o.alpha = gram_number(case_number(args, "alpha", 1));
    o.gamma = gram_number(case_number(args, "gamma", 1));
    o.coef0 = gram_number(case_number(args, "coef0", 0));
    o.degree = gram_number(case_number(args, "degree", 3));
    o.regularization = gram_number(case_number(args, "regularization", 0));
    return pair_prepare(h, args, &o, NULL, out);
}

const struct case_op case_kernel = {
    .name = "kernel",
    .sizes = "M N K",
    .params =
        "function=gaussian inner=difference p=2 outer=1 bandwidth=1 exponent=1 alpha=1 "
        "gamma=1 coef0=0 degree=3 regularization=0 dtype=f32 symmetric=0 layout=row",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
