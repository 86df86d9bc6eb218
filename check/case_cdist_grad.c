/*
 * case_cdist_grad.c - the rows of gram_cdist_grad
 *
 * The register tile is 4 features by 32 points (f32, AVX-512), blocks have 64 features, 256 points
 * and 256 centres, or 128 with more than 12 outputs.  On CUDA tiles have up to 128 of each, and a
 * part of the centres 256 at least.
 *
 * SPDX-License-Identifier: MIT
 */
#include "grad_problem.h"
#include <math.h>

/* b and d are rows of features, seen as columns. */
#define AS_ROWS                                      \
  {                                                  \
    ROW_MAJOR, COLUMN_MAJOR, ROW_MAJOR, COLUMN_MAJOR \
  }

/* clang-format off */
static const struct grad_row rows[] = {
    {.k = 1, .m = 1, .n = 1, .o = 1, .dtype = GRAM_F32, .p = 1, .why = "smallest"},
    {.k = 1, .m = 1, .n = 1, .o = 2, .dtype = GRAM_F64, .p = 1.3, .why = "smallest, two outputs"},
    {.k = 0, .m = 5, .n = 3, .o = 2, .dtype = GRAM_F32, .p = 1, .why = "an empty sum is zero"},
    {.k = 0, .m = 5, .n = 3, .o = 1, .dtype = GRAM_F64, .p = 2, .why = "an empty product is zero"},
    {.k = 9, .m = 0, .n = 3, .o = 2, .dtype = GRAM_F32, .p = 1, .why = "no points"},
    {.k = 9, .m = 4, .n = 0, .o = 2, .dtype = GRAM_F32, .p = 2, .why = "no features"},
    {.k = 9, .m = 4, .n = 3, .o = 0, .dtype = GRAM_F64, .p = 1.3, .why = "no outputs"},
    {.k = 257, .m = 33, .n = 5, .o = 1, .dtype = GRAM_F32, .p = 1, .layout = AS_ROWS,
     .why = "one more than a block, a tile"},
    {.k = 257, .m = 33, .n = 5, .o = 1, .dtype = GRAM_F64, .p = 1, .layout = AS_ROWS,
     .why = "one more than a block, a tile"},
    {.k = 1100, .m = 68, .n = 68, .o = 1, .dtype = GRAM_F32, .p = 1, .layout = AS_ROWS,
     .why = "several blocks of centres, on CUDA several parts"},
    {.k = 1100, .m = 36, .n = 20, .o = 11, .dtype = GRAM_F32, .p = 1.3, .layout = AS_ROWS,
     .why = "several blocks of centres, on CUDA several parts"},
    {.k = 1100, .m = 66, .n = 5, .o = 2, .dtype = GRAM_F64, .p = 3, .out_layout = EVERY_SECOND,
     .why = "several blocks of centres, on CUDA several parts"},
    {.k = 300, .m = 47, .n = 66, .o = 1, .dtype = GRAM_F32, .p = 1.3, .layout = AS_ROWS,
     .why = "a fractional power"},
    {.k = 300, .m = 47, .n = 66, .o = 1, .dtype = GRAM_F64, .p = 1.3, .layout = AS_ROWS,
     .why = "a fractional power"},
    {.k = 40, .m = 35, .n = 6, .o = 1, .dtype = GRAM_F32, .p = 0.7, .why = "p below 1"},
    {.k = 40, .m = 35, .n = 6, .o = 1, .dtype = GRAM_F64, .p = 0.7, .why = "p below 1"},
    {.k = 40, .m = 35, .n = 6, .o = 3, .dtype = GRAM_F32, .p = 1.5, .why = "a square root"},
    {.k = 40, .m = 35, .n = 6, .o = 1, .dtype = GRAM_F64, .p = 1.5, .why = "a square root"},
    {.k = 40, .m = 35, .n = 6, .o = 1, .dtype = GRAM_F32, .p = 3, .why = "a square"},
    {.k = 40, .m = 35, .n = 6, .o = 5, .dtype = GRAM_F64, .p = 3, .why = "a square"},
    {.k = 40, .m = 35, .n = 6, .o = 1, .dtype = GRAM_F32, .p = 4, .why = "a cube"},
    {.k = 40, .m = 35, .n = 6, .o = 2, .dtype = GRAM_F64, .p = 4, .why = "a cube"},
    {.k = 40, .m = 35, .n = 6, .o = 2, .dtype = GRAM_F32, .p = 6.3, .why = "a large power"},
    {.k = 40, .m = 35, .n = 6, .o = 1, .dtype = GRAM_F64, .p = 6.3, .why = "a large power"},
    {.k = 600, .m = 70, .n = 9, .o = 1, .dtype = GRAM_F32, .p = 2, .layout = AS_ROWS,
     .why = "products in two blocks"},
    {.k = 600, .m = 70, .n = 9, .o = 70, .dtype = GRAM_F64, .p = 2, .layout = AS_ROWS,
     .why = "products with two blocks of outputs"},
    {.k = 1100, .m = 132, .n = 132, .o = 1, .dtype = GRAM_F32, .p = 2, .layout = AS_ROWS,
     .why = "products in several blocks"},
    {.k = 70, .m = 132, .n = 36, .o = 6, .dtype = GRAM_F32, .p = 2, .layout = AS_ROWS,
     .why = "products with several outputs"},
    {.k = 50, .m = 30, .n = 600, .o = 1, .dtype = GRAM_F32, .p = 2,
     .why = "products with two blocks of features"},
    {.k = 30, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1, .data = GRAD_INTEGERS,
     .why = "ties contribute 0"},
    {.k = 30, .m = 40, .n = 7, .o = 3, .dtype = GRAM_F64, .p = 0.7, .data = GRAD_INTEGERS,
     .why = "ties contribute 0 for p below 1 too"},
    {.k = 30, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1.3, .data = GRAD_INTEGERS,
     .why = "ties contribute 0"},
    {.k = 30, .m = 40, .n = 7, .o = 14, .dtype = GRAM_F32, .p = 0.4, .data = GRAD_INTEGERS,
     .why = "ties contribute 0, many outputs"},
    {.k = 60, .m = 41, .n = 7, .o = 1, .dtype = GRAM_F32, .p = (double)INFINITY, .layout = AS_ROWS,
     .why = "the largest difference"},
    {.k = 60, .m = 41, .n = 7, .o = 3, .dtype = GRAM_F64, .p = (double)INFINITY,
     .layout = {EVERY_SECOND, REVERSED, PADDED, MISALIGNED}, .out_layout = EVERY_SECOND,
     .why = "the largest difference, no unit stride"},
    {.k = 30, .m = 40, .n = 7, .o = 2, .dtype = GRAM_F32, .p = (double)INFINITY, .data = GRAD_INTEGERS,
     .why = "each of several largest differences counts, and none of 0"},
    {.k = 30, .m = 40, .n = 5, .o = 1, .dtype = GRAM_F64, .p = (double)INFINITY, .data = GRAD_TINY,
     .why = "the largest of denormal differences"},
    {.k = 20, .m = 40, .n = 7, .o = 2, .dtype = GRAM_F32, .p = (double)INFINITY, .data = GRAD_NAN,
     .why = "NaN of any feature"},
    {.k = 20, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F64, .p = (double)INFINITY, .data = GRAD_INFINITE,
     .why = "infinity is the largest"},
    {.k = 0, .m = 5, .n = 3, .o = 2, .dtype = GRAM_F32, .p = (double)INFINITY,
     .why = "no centres, no largest difference"},
    {.k = 12, .m = 9, .n = 5, .o = 3, .dtype = GRAM_F64, .p = (double)INFINITY,
     .batch = {{4}, {4}, {1}, {4}}, .why = "the largest difference in a batch"},
    {.k = 90, .m = 40, .n = 7, .o = 2, .dtype = GRAM_F32, .p = 2, .data = GRAD_OFFSET,
     .why = "features far from 0"},
    {.k = 90, .m = 40, .n = 7, .o = 2, .dtype = GRAM_F32, .p = 1, .data = GRAD_TINY,
     .why = "signs of denormal differences"},
    {.k = 90, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1, .data = GRAD_TINY,
     .why = "signs of denormal differences"},
    {.k = 20, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1, .data = GRAD_NAN, .why = "NaN"},
    {.k = 20, .m = 40, .n = 7, .o = 2, .dtype = GRAM_F64, .p = 1, .data = GRAD_NAN, .why = "NaN"},
    {.k = 20, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F64, .p = 1.3, .data = GRAD_NAN,
     .why = "NaN"},
    {.k = 20, .m = 40, .n = 7, .o = 2, .dtype = GRAM_F32, .p = 2, .data = GRAD_NAN, .why = "NaN"},
    {.k = 20, .m = 40, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1, .data = GRAD_INFINITE,
     .why = "infinity has a sign"},
    {.k = 20, .m = 40, .n = 7, .o = 3, .dtype = GRAM_F64, .p = 0.6, .data = GRAD_INFINITE,
     .why = "an infinite difference counts nothing for p below 1"},
    {.k = 33, .m = 50, .n = 9, .o = 4, .dtype = GRAM_F32, .p = 1, .layout = AS_ROWS,
     .why = "few outputs"},
    {.k = 3, .m = 50, .n = 9, .o = 12, .dtype = GRAM_F32, .p = 1.3, .layout = AS_ROWS,
     .why = "fewer centres than weights are made ahead"},
    {.k = 33, .m = 50, .n = 9, .o = 11, .dtype = GRAM_F64, .p = 1.3, .layout = AS_ROWS,
     .why = "an odd number of outputs"},
    {.k = 140, .m = 20, .n = 5, .o = 13, .dtype = GRAM_F32, .p = 1, .layout = AS_ROWS,
     .why = "more outputs than a tile has"},
    {.k = 300, .m = 35, .n = 70, .o = 3, .dtype = GRAM_F32, .p = 1, .layout = AS_ROWS,
     .why = "signs in two tiles of features and of points"},
    {.k = 270, .m = 10, .n = 70, .o = 20, .dtype = GRAM_F32, .p = 1,
     .why = "signs in two tiles of features, points and outputs"},
    {.k = 70, .m = 40, .n = 9, .o = 5, .dtype = GRAM_F32, .p = 1, .data = GRAD_INTEGERS,
     .why = "ties contribute 0, several outputs"},
    {.k = 600, .m = 130, .n = 20, .o = 2, .dtype = GRAM_F32, .p = 2,
     .layout = {COLUMN_MAJOR, ROW_MAJOR, COLUMN_MAJOR, ROW_MAJOR}, .out_layout = PADDED,
     .why = "products of columns"},
    {.k = 20, .m = 33, .n = 3, .o = 79, .dtype = GRAM_F32, .p = 1.3, .layout = AS_ROWS,
     .why = "more outputs than a task has"},
    {.k = 40, .m = 37, .n = 6, .o = 3, .dtype = GRAM_F32, .p = 1,
     .layout = {EVERY_SECOND, REVERSED, PADDED, MISALIGNED}, .out_layout = EVERY_SECOND,
     .why = "no unit stride"},
    {.k = 40, .m = 37, .n = 6, .o = 1, .dtype = GRAM_F64, .p = 2,
     .layout = {REVERSED, EVERY_SECOND, COLUMN_MAJOR, PADDED}, .out_layout = REVERSED,
     .why = "a matrix that BLAS cannot read"},
    {.k = 40, .m = 37, .n = 6, .o = 2, .dtype = GRAM_F32, .p = 2, .layout = {COLUMN_MAJOR},
     .out_layout = COLUMN_MAJOR, .why = "a by columns"},
    {.k = 40, .m = 37, .n = 6, .o = 1, .dtype = GRAM_F32, .p = 1.3,
     .layout = {COLUMN_MAJOR, ROW_MAJOR, COLUMN_MAJOR, ROW_MAJOR}, .out_layout = PADDED,
     .why = "a by columns"},
    {.k = 40, .m = 37, .n = 6, .o = 1, .dtype = GRAM_F32, .p = 1,
     .layout = {ROWS_REPEATED, ROWS_REPEATED, ROWS_REPEATED, ROWS_REPEATED},
     .why = "strides of 0"},
    {.k = 40, .m = 37, .n = 6, .o = 2, .dtype = GRAM_F64, .p = 2,
     .layout = {ROWS_REPEATED, ROWS_REPEATED, ROWS_REPEATED, ROWS_REPEATED},
     .why = "strides of 0"},
    {.k = 12, .m = 9, .n = 5, .o = 3, .dtype = GRAM_F32, .p = 1, .batch = {{4}, {4}, {4}, {4}},
     .why = "a batch"},
    {.k = 12, .m = 9, .n = 5, .o = 3, .dtype = GRAM_F64, .p = 1.5, .batch = {{4}, {0}, {1}, {4}},
     .per_item = true, .why = "p = 3/2, 2, 5/2 and 3 in one batch, some inputs broadcast"},
    {.k = 12, .m = 9, .n = 5, .o = 1, .dtype = GRAM_F32, .p = 1, .per_item = true,
     .batch = {{2, 1}, {1, 3}, {0}, {3}}, .why = "both dimensions of a batch broadcast"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    grad_row_label(&rows[row], text, size);
}

static void check(struct harness *h, int row)
{
    grad_row_check(h, &rows[row]);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    return grad_prepare(h, args, false, out);
}

const struct case_op case_cdist_grad = {
    .name = "cdist_grad",
    .sizes = "K M N O",
    .params = "p=1 dtype=f32",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
