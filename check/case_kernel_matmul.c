/*
 * case_kernel_matmul.c - the rows of gram_kernel_matmul
 *
 * On a CPU a block has from 96 to 1536 points, in strips of 24 rows and pieces of 192 or 96
 * columns; v goes in groups of 8 columns and the rest of them, from 17 on to BLAS.  Where cdist
 * does the work a block is 384 by 384, a chunk of its product has 128 rows.  The call gets exactly
 * the scratch that its workspace query names, and one byte less is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include "pairwise_problem.h"
#include "vjp_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row {
    gram_inner inner;
    gram_function function;
    double p, outer;
    int64_t m, n, k, r;
    int64_t x_batch, y_batch, v_batch; /* 0: none */
    gram_dtype dtype;                  /* of x */
    enum layout x_layout, y_layout, v_layout, out_layout;
    gram_kernel_output output;
    int64_t row_offset, column_offset;
    bool same;     /* y is NULL: n is m */
    bool per_item; /* the bandwidth is a tensor */
    bool accumulate;
    bool nan;            /* in row 1 of x */
    bool expression;     /* the call has f as an expression: function is GRAM_LAPLACE */
    bool integers;       /* points that coincide */
    double offset;       /* of all points from the origin */
    const char *written; /* the function, written out as an expression */
    const char *why;
};

/* clang-format off */
#define LAPLACE  .inner = GRAM_DIFFERENCE, .function = GRAM_LAPLACE, .p = 1, .outer = 1
#define GAUSSIAN .inner = GRAM_DIFFERENCE, .function = GRAM_GAUSSIAN, .p = 2, .outer = 1
#define LPQ      .inner = GRAM_DIFFERENCE, .function = GRAM_EXPONENTIAL_POWER, .p = 1.3, \
                 .outer = 1 / 1.3
#define LAPLACE2 .inner = GRAM_DIFFERENCE, .function = GRAM_LAPLACE, .p = 2, .outer = 0.5
#define OF(f, power) .inner = GRAM_DIFFERENCE, .function = f, .p = power, .outer = 1
#define COLUMNS(count, type) \
    {GAUSSIAN, .m = 103, .k = 3, .r = count, .dtype = type, .same = true, .why = "columns of v"}, \
    {LAPLACE2, .m = 61, .n = 107, .k = 3, .r = count, .dtype = type, .why = "columns of v"}, \
    {LAPLACE, .m = 107, .n = 11, .k = 3, .r = count, .dtype = type, .why = "columns of v, few y"}
#define CUBIC    .inner = GRAM_DOT, .function = GRAM_POLYNOMIAL, .p = 2, .outer = 1
#define COSINE   .inner = GRAM_DOT, .function = GRAM_COSINE, .p = 2, .outer = 1
#define TERM(e)  .inner = GRAM_DIFFERENCE, .function = GRAM_LAPLACE, .p = e, .outer = 1
#define EUCLIDEAN(f) .inner = GRAM_DIFFERENCE, .function = f, .p = 2, .outer = 0.5

static const struct row rows[] = {
    {LAPLACE, .m = 1, .n = 1, .k = 1, .r = 1, .dtype = GRAM_F32, .why = "smallest"},
    {LAPLACE, .m = 0, .n = 3, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "no rows of x"},
    {LAPLACE, .m = 3, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F32, .why = "no rows of y: zeros"},
    {LAPLACE, .m = 3, .n = 0, .k = 2, .r = 2, .dtype = GRAM_F64, .accumulate = true,
     .why = "no rows of y: nothing is added"},
    {LAPLACE, .m = 3, .n = 4, .k = 2, .r = 0, .dtype = GRAM_F64, .why = "no columns of v"},
    {GAUSSIAN, .m = 3, .n = 4, .k = 0, .r = 2, .dtype = GRAM_F64, .why = "no columns of x"},
    {LAPLACE, .m = 140, .n = 90, .k = 5, .r = 1, .dtype = GRAM_F32, .why = "one vector"},
    {GAUSSIAN, .m = 140, .n = 90, .k = 5, .r = 7, .dtype = GRAM_F32, .why = "Gaussian"},
    {LPQ, .m = 70, .n = 90, .k = 5, .r = 3, .dtype = GRAM_F64, .why = "Lpq Laplace"},
    {CUBIC, .m = 70, .n = 90, .k = 5, .r = 3, .dtype = GRAM_F32, .why = "polynomial"},
    {COSINE, .m = 70, .n = 90, .k = 5, .r = 3, .dtype = GRAM_F64, .why = "cosine"},
    {LAPLACE, .m = 140, .k = 5, .r = 3, .dtype = GRAM_F32, .same = true, .why = "y is x"},
    {LAPLACE, .m = 2100, .k = 2, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "y is x, blocks and their mirror images"},
    {GAUSSIAN, .m = 1030, .k = 2, .r = 1, .dtype = GRAM_F64, .same = true, .v_layout = EVERY_SECOND,
     .out_layout = EVERY_SECOND, .why = "y is x, a vector without unit stride"},
    {LAPLACE, .m = 1100, .k = 2, .r = 2, .dtype = GRAM_F64, .same = true, .row_offset = 3,
     .why = "y is x, but not the diagonal's place"},
    {LAPLACE, .m = 2060, .n = 5, .k = 2, .r = 3, .dtype = GRAM_F32, .why = "blocks of rows"},
    {LAPLACE, .m = 5, .n = 2060, .k = 2, .r = 3, .dtype = GRAM_F64, .why = "blocks of columns"},
    {LAPLACE, .m = 1050, .n = 1040, .k = 2, .r = 2, .dtype = GRAM_F32, .row_offset = 2,
     .column_offset = 9, .why = "the diagonal passes through blocks"},
    {LPQ, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F64, .x_layout = COLUMN_MAJOR,
     .y_layout = EVERY_SECOND, .v_layout = COLUMN_MAJOR, .out_layout = EVERY_SECOND,
     .why = "strides"},
    {GAUSSIAN, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F32, .x_layout = REVERSED,
     .y_layout = PADDED, .v_layout = PADDED, .out_layout = COLUMN_MAJOR, .why = "strides"},
    {GAUSSIAN, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F64, .x_layout = PADDED,
     .y_layout = COLUMN_MAJOR, .v_layout = REVERSED, .out_layout = REVERSED, .why = "strides"},
    {LAPLACE, .m = 20, .n = 30, .k = 3, .r = 4, .dtype = GRAM_F32, .v_layout = ROWS_REPEATED,
     .why = "one row of v for all"},
    {GAUSSIAN, .m = 40, .n = 30, .k = 5, .r = 3, .dtype = GRAM_F16, .why = "halves"},
    {LAPLACE, .m = 40, .n = 30, .k = 5, .r = 3, .dtype = GRAM_BF16, .why = "bfloat16"},
    {LAPLACE, .m = 40, .n = 30, .k = 5, .r = 3, .dtype = GRAM_F64, .output = GRAM_WEIGHT,
     .why = "weights"},
    {GAUSSIAN, .m = 40, .k = 5, .r = 3, .dtype = GRAM_F64, .same = true,
     .output = GRAM_BANDWIDTH_DERIVATIVE, .why = "bandwidth derivatives"},
    {LAPLACE, .m = 40, .n = 30, .k = 5, .r = 3, .dtype = GRAM_F32, .accumulate = true,
     .out_layout = COLUMN_MAJOR, .why = "added to out"},
    {LAPLACE, .m = 9, .n = 7, .k = 3, .r = 2, .x_batch = 3, .y_batch = 3, .v_batch = 3,
     .dtype = GRAM_F32, .per_item = true, .why = "a batch, another L for every item"},
    {CUBIC, .m = 9, .n = 7, .k = 3, .r = 2, .v_batch = 3, .dtype = GRAM_F64,
     .why = "a batch of v alone"},
    {CUBIC, .m = 9, .n = 7, .k = 3, .r = 2, .y_batch = 3, .dtype = GRAM_F64,
     .why = "x and v are broadcast"},
    {LAPLACE, .m = 2, .n = 3, .k = 1, .r = 1, .x_batch = 150, .y_batch = 150, .v_batch = 150,
     .dtype = GRAM_F64, .per_item = true, .x_layout = EVERY_SECOND, .out_layout = PADDED,
     .why = "many tiny items"},
    {GAUSSIAN, .m = 3, .k = 2, .r = 2, .x_batch = 150, .dtype = GRAM_F32, .same = true,
     .accumulate = true, .why = "many tiny items, added to out"},
    {LAPLACE, .m = 140, .n = 90, .k = 3, .r = 2, .dtype = GRAM_F32, .nan = true,
     .why = "NaN in one row only"},
    /* Elements in registers: edges of blocks of rows, of points and of passes; every term and every
     * function. */
    {GAUSSIAN, .m = 129, .n = 257, .k = 3, .r = 1, .dtype = GRAM_F32, .why = "edges of blocks"},
    {GAUSSIAN, .m = 513, .n = 128, .k = 10, .r = 2, .dtype = GRAM_F32, .why = "edges of blocks"},
    {GAUSSIAN, .m = 257, .n = 127, .k = 4, .r = 1, .dtype = GRAM_F64, .why = "edges of blocks"},
    {GAUSSIAN, .m = 1100, .k = 3, .r = 3, .dtype = GRAM_F32, .same = true, .accumulate = true,
     .why = "y is x, three blocks of rows"},
    {LAPLACE, .m = 1, .n = 600, .k = 1, .r = 1, .x_batch = 1100, .dtype = GRAM_F32,
     .why = "long slices of y"},
    {GAUSSIAN, .m = 40, .n = 30, .k = 5, .r = 17, .dtype = GRAM_F32, .why = "17 columns"},
    {GAUSSIAN, .m = 40, .n = 30, .k = 12, .r = 65, .dtype = GRAM_F32, .why = "65 columns"},
    {GAUSSIAN, .m = 40, .k = 20, .r = 33, .dtype = GRAM_F64, .same = true, .why = "33 columns"},
    /* So many points and columns of v go by tensor cores. */
    {GAUSSIAN, .m = 140, .n = 300, .k = 5, .r = 4, .dtype = GRAM_F32, .why = "300 points"},
    {LAPLACE2, .m = 61, .n = 257, .k = 20, .r = 9, .dtype = GRAM_F32, .v_layout = COLUMN_MAJOR,
     .out_layout = EVERY_SECOND, .why = "257 points, strides"},
    {GAUSSIAN, .m = 270, .k = 3, .r = 17, .dtype = GRAM_F32, .same = true, .accumulate = true,
     .row_offset = 3, .why = "270 points, added to out"},
    {EUCLIDEAN(GRAM_MATERN52), .m = 130, .n = 260, .k = 17, .r = 33, .dtype = GRAM_F32,
     .x_batch = 2, .v_batch = 2, .per_item = true, .why = "260 points, L is a tensor"},
    {EUCLIDEAN(GRAM_MATERN32), .m = 20, .n = 260, .k = 40, .r = 5, .dtype = GRAM_F32, .nan = true,
     .v_layout = REVERSED, .why = "260 points, and a NaN"},
    {GAUSSIAN, .m = 20, .n = 384, .k = 5, .r = 8, .v_batch = 3, .dtype = GRAM_F16,
     .why = "384 points, a batch of v alone"},
    {LAPLACE, .m = 40, .n = 30, .k = 30, .r = 9, .dtype = GRAM_F32, .v_layout = COLUMN_MAJOR,
     .why = "9 columns in two passes"},
    {GAUSSIAN, .m = 40, .n = 30, .k = 43, .r = 2, .dtype = GRAM_F32, .why = "43 coordinates"},
    {GAUSSIAN, .m = 40, .n = 30, .k = 44, .r = 2, .dtype = GRAM_F32, .why = "44 coordinates"},
    {GAUSSIAN, .m = 140, .n = 90, .k = 200, .r = 2, .dtype = GRAM_F32, .why = "200 coordinates"},
    {.inner = GRAM_DIFFERENCE, .function = GRAM_IDENTITY, .p = 4, .outer = 0.25, .m = 40,
     .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "distances of p = 4"},
    {TERM(0.5), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "p = 1/2"},
    {TERM(0.7), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "p = 0.7"},
    {TERM(1.3), .m = 140, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "p = 1.3"},
    {TERM(1.5), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "p = 3/2"},
    {TERM(3), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "p = 3"},
    {TERM(7.7), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .nan = true,
     .why = "p = 7.7, and a NaN"},
    {TERM(7.7), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F64, .why = "p = 7.7"},
    {TERM((double)INFINITY), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32,
     .why = "p = infinity"},
    {EUCLIDEAN(GRAM_LAPLACE), .m = 40, .k = 5, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "a root of the sum"},
    {EUCLIDEAN(GRAM_MATERN32), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32,
     .x_batch = 2, .per_item = true, .why = "Matern 3/2, L is a tensor"},
    {EUCLIDEAN(GRAM_MATERN52), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .nan = true,
     .why = "Matern 5/2, and a NaN"},
    {EUCLIDEAN(GRAM_MATERN52), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32,
     .output = GRAM_BANDWIDTH_DERIVATIVE, .why = "Matern 5/2, bandwidth derivatives"},
    {EUCLIDEAN(GRAM_LAPLACE), .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32,
     .expression = true, .why = "an expression"},
    {EUCLIDEAN(GRAM_LAPLACE), .m = 40, .k = 5, .r = 2, .dtype = GRAM_F64, .same = true,
     .expression = true, .output = GRAM_WEIGHT, .why = "weights of an expression"},
    {GAUSSIAN, .m = 40, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .output = GRAM_WEIGHT,
     .accumulate = true, .why = "weights"},
    {.inner = GRAM_DIFFERENCE, .function = GRAM_RATIONAL_QUADRATIC, .p = 2, .outer = 1, .m = 40,
     .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "rational quadratic"},
    {.inner = GRAM_DOT, .function = GRAM_SIGMOID, .p = 2, .outer = 1, .m = 40, .n = 30, .k = 5,
     .r = 2, .dtype = GRAM_F32, .why = "sigmoid"},
    {COSINE, .m = 140, .n = 30, .k = 5, .r = 2, .dtype = GRAM_F32, .why = "cosine"},
    {COSINE, .m = 40, .k = 3, .r = 2, .dtype = GRAM_BF16, .same = true, .why = "cosine, bfloat16"},
    {GAUSSIAN, .m = 140, .n = 90, .k = 3, .r = 2, .dtype = GRAM_F64, .nan = true,
     .why = "NaN in one row only"},
    {LAPLACE, .m = 5, .n = 90, .k = 3, .r = 20, .dtype = GRAM_F32, .nan = true,
     .why = "NaN in one row only, many columns of v"},
    COLUMNS(1, GRAM_F32), COLUMNS(2, GRAM_F32), COLUMNS(3, GRAM_F32), COLUMNS(4, GRAM_F32),
    COLUMNS(5, GRAM_F32), COLUMNS(7, GRAM_F32), COLUMNS(8, GRAM_F32), COLUMNS(9, GRAM_F32),
    COLUMNS(12, GRAM_F32), COLUMNS(15, GRAM_F32), COLUMNS(16, GRAM_F32), COLUMNS(17, GRAM_F32),
    COLUMNS(31, GRAM_F32), COLUMNS(33, GRAM_F32), COLUMNS(64, GRAM_F32), COLUMNS(65, GRAM_F32),
    COLUMNS(1, GRAM_F64), COLUMNS(2, GRAM_F64), COLUMNS(3, GRAM_F64), COLUMNS(5, GRAM_F64),
    COLUMNS(8, GRAM_F64), COLUMNS(9, GRAM_F64), COLUMNS(13, GRAM_F64), COLUMNS(16, GRAM_F64),
    COLUMNS(17, GRAM_F64), COLUMNS(33, GRAM_F64), COLUMNS(65, GRAM_F64),
    {OF(GRAM_LAPLACE, 0.5), .m = 97, .n = 33, .k = 3, .r = 2, .dtype = GRAM_F32, .why = "p = 1/2"},
    {OF(GRAM_LAPLACE, 1.5), .m = 95, .k = 3, .r = 5, .dtype = GRAM_F64, .same = true,
     .why = "p = 3/2"},
    {OF(GRAM_LAPLACE, 3), .m = 193, .k = 3, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "p = 3"},
    {OF(GRAM_GAUSSIAN, 4), .m = 50, .n = 193, .k = 3, .r = 9, .dtype = GRAM_F64, .why = "p = 4"},
    {OF(GRAM_LAPLACE, INFINITY), .m = 97, .k = 3, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "p = infinity"},
    {OF(GRAM_LAPLACE, 0.7), .m = 96, .k = 3, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "p = 0.7"},
    {OF(GRAM_LAPLACE, 5.5), .m = 25, .n = 96, .k = 3, .r = 2, .dtype = GRAM_F64, .why = "p = 5.5"},
    {LAPLACE2, .m = 289, .k = 16, .r = 8, .dtype = GRAM_F32, .same = true, .why = "distances"},
    {LAPLACE2, .m = 385, .k = 5, .r = 3, .dtype = GRAM_F64, .same = true, .integers = true,
     .why = "distances of points that coincide"},
    {OF(GRAM_MATERN32, 2), .m = 100, .k = 5, .r = 8, .dtype = GRAM_F32, .same = true,
     .why = "Matern 3/2"},
    {OF(GRAM_MATERN52, 1), .m = 100, .n = 60, .k = 5, .r = 8, .dtype = GRAM_F64,
     .why = "Matern 5/2"},
    {OF(GRAM_EXPONENTIAL_POWER, 1), .m = 100, .k = 5, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "exponential power"},
    {OF(GRAM_RATIONAL_QUADRATIC, 2), .m = 100, .n = 60, .k = 5, .r = 8, .dtype = GRAM_F32,
     .why = "rational quadratic"},
    {.inner = GRAM_DOT, .function = GRAM_SIGMOID, .p = 2, .outer = 1, .m = 100, .k = 5, .r = 3,
     .dtype = GRAM_F32, .same = true, .why = "sigmoid"},
    {.inner = GRAM_DOT, .function = GRAM_GAUSSIAN, .p = 2, .outer = 1, .m = 100, .n = 97, .k = 5,
     .r = 3, .dtype = GRAM_F32, .why = "the exponential of products of either sign"},
    {.inner = GRAM_DOT, .function = GRAM_IDENTITY, .p = 2, .outer = 1, .m = 100, .n = 97, .k = 40,
     .r = 20, .dtype = GRAM_F64, .why = "products alone"},
    {COSINE, .m = 500, .k = 3, .r = 20, .dtype = GRAM_F32, .same = true, .why = "cosine"},
    {LAPLACE, .m = 200, .n = 150, .k = 5, .r = 3, .dtype = GRAM_F32, .written = "exp(-s / L)",
     .why = "an expression"},
    {GAUSSIAN, .m = 150, .k = 5, .r = 18, .dtype = GRAM_F64, .same = true,
     .written = "exp(-0.5 * s / pow(L, 2))", .why = "an expression, many columns"},
    {LAPLACE2, .m = 130, .n = 140, .k = 5, .r = 3, .dtype = GRAM_F32, .output = GRAM_WEIGHT,
     .why = "weights"},
    {OF(GRAM_MATERN52, 2), .m = 130, .k = 5, .r = 3, .dtype = GRAM_F32, .same = true,
     .output = GRAM_BANDWIDTH_DERIVATIVE, .why = "bandwidth derivatives"},
    {OF(GRAM_RATIONAL_QUADRATIC, 1), .m = 130, .k = 5, .r = 20, .dtype = GRAM_F64, .same = true,
     .output = GRAM_WEIGHT, .why = "weights, many columns"},
    {GAUSSIAN, .m = 300, .k = 3, .r = 8, .dtype = GRAM_F32, .same = true, .integers = true,
     .why = "points that coincide"},
    {GAUSSIAN, .m = 300, .k = 40, .r = 3, .dtype = GRAM_F32, .same = true, .offset = 1e4,
     .why = "far from the origin"},
    {LAPLACE2, .m = 120, .n = 300, .k = 33, .r = 3, .dtype = GRAM_F32, .offset = 1e6,
     .integers = true, .why = "far from the origin, points that coincide"},
    {LAPLACE, .m = 300, .k = 3, .r = 20, .dtype = GRAM_F64, .same = true, .offset = 1e6,
     .why = "far from the origin"},
    {GAUSSIAN, .m = 12, .n = 14, .k = 1100, .r = 3, .dtype = GRAM_F32, .why = "many coordinates"},
    {LAPLACE, .m = 30, .k = 2100, .r = 2, .dtype = GRAM_F64, .same = true,
     .why = "more coordinates than a panel holds"},
    {LAPLACE, .m = 9, .k = 3, .r = 20, .x_batch = 9, .v_batch = 9, .dtype = GRAM_F64, .same = true,
     .per_item = true, .why = "tiny items, each a task, many columns"},
    {GAUSSIAN, .m = 230, .n = 110, .k = 3, .r = 2, .x_batch = 9, .dtype = GRAM_F32,
     .per_item = true, .why = "items that are a task each"},
    {GAUSSIAN, .m = 1300, .k = 2, .r = 1, .x_batch = 2, .dtype = GRAM_F32, .same = true,
     .per_item = true, .accumulate = true, .why = "blocks, an even number of them, twice"},
    {LAPLACE, .m = 2449, .k = 1, .r = 3, .dtype = GRAM_F32, .same = true, .out_layout = EVERY_SECOND,
     .why = "blocks, an odd number of them, a row more than they hold"},
    {LAPLACE2, .m = 1, .n = 4000, .k = 2, .r = 1, .dtype = GRAM_F32, .why = "one row of K"},
    {LAPLACE2, .m = 4000, .n = 1, .k = 2, .r = 17, .dtype = GRAM_F32, .why = "one column of K"},
    /* Elements that serve their mirror images: blocks of 512 rows, or 256. */
    {GAUSSIAN, .m = 1536, .k = 3, .r = 1, .dtype = GRAM_F32, .same = true,
     .why = "y is x, blocks that are filled"},
    {LAPLACE, .m = 1025, .k = 3, .r = 5, .dtype = GRAM_F32, .x_batch = 2, .same = true,
     .per_item = true, .accumulate = true, .v_layout = COLUMN_MAJOR, .why = "y is x, a batch"},
    {LPQ, .m = 1100, .k = 2, .r = 3, .dtype = GRAM_F32, .same = true, .row_offset = 600,
     .out_layout = EVERY_SECOND, .why = "y is x, p = 1.3, the diagonal elsewhere"},
    {COSINE, .m = 600, .k = 4, .r = 11, .dtype = GRAM_F64, .same = true,
     .why = "y is x, 11 columns"},
    {GAUSSIAN, .m = 1100, .k = 3, .r = 1, .dtype = GRAM_F16, .same = true, .nan = true,
     .why = "y is x, and a NaN"},
    /* Tensor cores: tiles of 128 by 128, chunks of 16 columns, passes of 8 columns of v. */
    {LAPLACE2, .m = 1100, .k = 480, .r = 2, .dtype = GRAM_F32, .same = true,
     .why = "y is x, work for tensor cores"},
    {LAPLACE2, .m = 129, .n = 385, .k = 33, .r = 9, .dtype = GRAM_F32, .x_batch = 3, .y_batch = 3,
     .per_item = true, .why = "a batch, one more than whole tiles, chunks and passes"},
    {LAPLACE2, .m = 127, .n = 128, .k = 32, .r = 8, .dtype = GRAM_F16, .x_layout = COLUMN_MAJOR,
     .v_layout = REVERSED, .nan = true, .why = "one less, and a NaN"},
    {GAUSSIAN, .m = 640, .k = 24, .r = 1, .dtype = GRAM_F32, .same = true, .integers = true,
     .offset = 1e4, .why = "y is x, far from the origin, points that coincide"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    const struct row *r = &rows[row];

    snprintf(text, size, "%lld %lld %lld %lld function=%d dtype=%d: %s", (long long)r->m,
             (long long)r->n, (long long)r->k, (long long)r->r, (int)r->function, (int)r->dtype,
             r->why);
}

enum argument {
    X,
    Y,
    V,
    OUT,
    BANDWIDTH,
    ARGUMENTS
};

struct problem {
    const struct row *row;
    struct test_tensor t[ARGUMENTS];
    struct test_copy there[ARGUMENTS];
    bool used[ARGUMENTS];
    gram_kernel_options kernel;
    gram_parameter parameters[PAIR_PARAMETERS];
    struct reference_batch batch;
};

static const char *const names[] = {"x", "y", "v", "out", "bandwidth"};

static void create(struct harness *h, struct problem *q, enum argument which, gram_dtype dtype,
                   enum layout layout, const int64_t shape[3])
{
    int skip = shape[0] == 0;

    test_tensor_create(h, &q->t[which], dtype, layout, 3 - skip, shape + skip);
    test_fill_uniform(h, &q->t[which], -1, 1);
    if (which <= Y && q->row->integers)
        test_fill_integers(h, &q->t[which], 3);
    for (int64_t i = 0; which <= Y && q->row->offset != 0 && i < test_count(&q->t[which].t); i++)
        test_put(&q->t[which].t, i, test_at(&q->t[which].t, i) + q->row->offset);
    q->used[which] = true;
}

static void setup(struct harness *h, const struct row *row, struct problem *q)
{
    gram_dtype out = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    int64_t n = row->same ? row->m : row->n;

    *q = (struct problem){.row = row, .kernel = vjp_options(row->inner, row->function)};
    q->kernel.p = gram_number(row->p), q->kernel.outer_power = gram_number(row->outer);
    q->kernel.row_offset = row->row_offset, q->kernel.column_offset = row->column_offset;
    q->kernel.output = row->output;
    create(h, q, X, row->dtype, row->x_layout, (int64_t[]){row->x_batch, row->m, row->k});
    if (!row->same)
        create(h, q, Y, row->dtype, row->y_layout, (int64_t[]){row->y_batch, n, row->k});
    create(h, q, V, out, row->v_layout, (int64_t[]){row->v_batch, n, row->r});
    if (row->nan)
        test_set(&q->t[X].t, (int64_t[]){1, 0}, NAN);
    q->batch = reference_join(
        3, (const gram_tensor *[]){&q->t[X].t, row->same ? NULL : &q->t[Y].t, &q->t[V].t},
        (const int[]){2, 2, 2});
    create(h, q, OUT, out, row->out_layout,
           (int64_t[]){q->batch.ndim ? q->batch.shape[0] : 0, row->m, row->r});
    if (row->per_item) {
        create(h, q, BANDWIDTH, GRAM_F64, ROW_MAJOR, (int64_t[]){0, 1, q->batch.count});
        q->t[BANDWIDTH].t.ndim = 1;
        q->t[BANDWIDTH].t.shape[0] = q->batch.count, q->t[BANDWIDTH].t.stride[0] = 1;
        test_fill_uniform(h, &q->t[BANDWIDTH], 1, 3);
        q->kernel.bandwidth = gram_values(&q->t[BANDWIDTH].t);
    }
    for (int i = 0; i < ARGUMENTS; i++)
        if (q->used[i] && i != OUT)
            test_tensor_freeze(&q->t[i]);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_tensor *x = &q->there[X].t, *y = q->row->same ? NULL : &q->there[Y].t,
                      *v = &q->there[V].t;
    gram_kernel_options kernel = q->kernel;

    options.accumulate = q->row->accumulate;
    if (q->row->per_item)
        kernel.bandwidth = gram_values(&q->there[BANDWIDTH].t);
    if (q->row->expression) {
        kernel.function = GRAM_EXPRESSION;
        kernel.expression = "exp(-s / 2.3)";
    }
    if (q->row->written)
        pair_write_out(q->row->written, q->parameters, &kernel);
    return need ? gram_kernel_matmul_workspace(h->g, x, y, &kernel, v, &options, &q->there[OUT].t,
                                               need)
                : gram_kernel_matmul(h->g, x, y, &kernel, v, &options, &q->there[OUT].t);
}

static bool run(struct harness *h, struct problem *q)
{
    struct test_pair pairs[ARGUMENTS];

    for (int i = 0; i < ARGUMENTS; i++)
        pairs[i] = (struct test_pair){q->used[i] ? &q->t[i] : NULL, &q->there[i]};
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

/* Elements of K are wrong by (k + 300) eps of themselves and of what their argument's rounding
 * does, which is of order 1 for these data. */
static void compare(struct harness *h, const struct problem *q, const double *before)
{
    const struct row *row = q->row;
    const gram_tensor *y = row->same ? NULL : &q->t[Y].t, *out = &q->t[OUT].t;
    double n = (double)(row->same ? row->m : row->n);
    int64_t at = 0, elements = test_count(out);

    for (int64_t item = 0; item < q->batch.count; item++)
        for (int64_t i = 0; i < row->m; i++)
            for (int64_t c = 0; c < row->r; c++, at++) {
                double size[2], got = test_at(out, at), want, bound;
                if (!test_sampled(at, elements, (int64_t)n * (row->k + 10)))
                    continue;
                want = reference_kernel_matmul(&q->t[X].t, y, &q->kernel, &q->t[V].t, &q->batch,
                                               (int64_t[]){item, i, c}, size);
                want += row->accumulate ? before[at] : 0;
                bound = ((double)row->k + 300) * test_eps(out->dtype) * (size[0] + size[1]) +
                        (n + 8) * test_eps(out->dtype) * size[1] + test_eps(out->dtype);
                CHECK(h, isnan(want) ? isnan(got) : fabs(got - want) <= bound,
                      "out[%lld][%lld][%lld] is %.9g, expected %.9g +- %.2g", (long long)item,
                      (long long)i, (long long)c, got, want, bound);
            }
}

static void check(struct harness *h, int row)
{
    struct problem q;
    int64_t elements;
    double *before;

    setup(h, &rows[row], &q);
    elements = test_count(&q.t[OUT].t);
    before = calloc((size_t)elements + 1, sizeof *before);
    for (int64_t i = 0; before && i < elements; i++)
        before[i] = test_at(&q.t[OUT].t, i);
    if (CHECK(h, before != NULL, "no memory") && before && run(h, &q))
        compare(h, &q, before);
    free(before);
    for (int i = 0; i < ARGUMENTS; i++)
        if (q.used[i])
            test_tensor_destroy(h, &q.t[i], names[i]);
}

/* ---- A problem of any size ------------------------------------------------------------------ */

enum { /* of the check: a second or two in all */
    MOST_ROWS = 64,
    PAIR_TERMS = 60,        /* what a kernel's function costs beside its terms */
    MOST_TERMS = 1000000000 /* coordinates */
};

struct bench {
    gram_tensor x, y, v, out;
    bool same;
    gram_kernel_options kernel;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_kernel_matmul(g, &s->x, s->same ? NULL : &s->y, &s->kernel, &s->v, NULL, &s->out);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->v.data);
    free(s->out.data);
    free(s);
}

/* The kernel of a pair, by its formula. */
static double bench_kernel(const struct bench *s, const double *x, const double *y)
{
    const double p = s->kernel.p.value, q = s->kernel.exponent.value;
    const double length = s->kernel.bandwidth.value;
    double sum = 0, distance;

    for (int64_t k = 0; k < s->x.shape[1]; k++) {
        const double d = fabs(x[k] - y[k]);
        sum += p == 2 ? d * d : p == 1 ? d : pow(d, p);
    }
    distance = p == 2 ? sqrt(sum) : p == 1 ? sum : pow(sum, 1 / p);
    return exp(-pow(distance / length, q));
}

/* One column of so many rows, from f64 copies of the points. */
static double row_error(struct harness *h, const struct bench *s, const double *y, double *row)
{
    const int64_t n = s->v.shape[0], k = s->x.shape[1];
    const int64_t at[2] = {(int64_t)(test_uniform(h) * (double)s->out.shape[0]),
                           (int64_t)(test_uniform(h) * (double)s->out.shape[1])};
    double want = 0, sizes[2] = {0}, bound;

    for (int64_t i = 0; i < k; i++)
        row[i] = test_get(&s->x, (int64_t[]){at[0], i});
    for (int64_t j = 0; j < n; j++) {
        const double v = test_get(&s->v, (int64_t[]){j, at[1]}),
                     e = bench_kernel(s, row, y + j * k);
        want += e * v;
        sizes[0] += fabs(v), sizes[1] += fabs(e * v);
    }
    bound =
        (((double)k + 300) * (sizes[0] + sizes[1]) + (double)n * sizes[1]) * test_eps(s->x.dtype);
    return fabs(test_get(&s->out, at) - want) / (bound + 1e-300);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const gram_tensor *other = s->same ? &s->x : &s->y;
    const int64_t n = s->v.shape[0], k = s->x.shape[1];
    const int64_t terms = n * (k + PAIR_TERMS);
    double *y = dense_doubles(n * k + k), worst = 0;
    int64_t sample = terms > 0 ? MOST_TERMS / terms : 1;

    sample = sample < 1 ? 1 : sample > MOST_ROWS ? MOST_ROWS : sample;
    for (int64_t i = 0; i < n * k; i++)
        y[i] = test_get(other, (int64_t[]){i / k, i % k});
    for (int64_t i = 0; i < sample && test_count(&s->out) > 0; i++) {
        const double error = row_error(h, s, y, y + n * k);
        worst = error > worst || isnan(error) ? error : worst;
    }
    free(y);
    return isnan(worst) ? INFINITY : worst;
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2], r = args->sizes[3];
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->kernel = gram_lpq_laplace(case_number(args, "p", 1), case_number(args, "q", 1),
                                 case_number(args, "bandwidth", 1));
    s->same = case_number(args, "symmetric", 0) != 0;
    s->x = dense_random(h, m, k, args->dtype);
    s->y = dense_random(h, s->same ? 0 : n, k, args->dtype);
    s->v = dense_random(h, s->same ? m : n, r, args->dtype);
    s->out = dense_random(h, m, r, args->dtype);
    if (!s->x.data || !s->y.data || !s->v.data || !s->out.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->v, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)m * (double)(s->same ? m : n),
        .unit = "pairs",
        .bytes = (double)gram_dtype_size(args->dtype) * (double)(m + n) * (double)(k + r),
    };
    return true;
}

const struct case_op case_kernel_matmul = {
    .name = "kernel_matmul",
    .sizes = "M N K R",
    .params = "p=1 q=1 bandwidth=1 dtype=f32 symmetric=0",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
