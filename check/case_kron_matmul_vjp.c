/*
 * case_kron_matmul_vjp.c - the rows of gram_kron_matmul_vjp
 *
 * On the CPU a thread has as many rows at a time as 1 MiB holds on their way; an item has at most
 * 16 units of them, a round 64.  Fewer than 8 units, or sums of more than 256 KiB: all threads work
 * on a step, in slices of 65536 elements, or by BLAS where a factor has 64 rows and columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_vjp_problem.h"

/* clang-format off */
static const struct kron_vjp_row rows[] = {
    {.count = 1, .m = 1, .size = {{1, 1}}, .dtype = GRAM_F32, .why = "smallest"},
    {.count = 1, .m = 4, .size = {{3, 2}}, .dtype = GRAM_F64, .why = "a matrix product"},
    {.count = 2, .m = 5, .size = {{3, 4}, {2, 5}}, .dtype = GRAM_F64, .why = "two rectangles"},
    {.count = 3, .m = 7, .size = {{3, 4}, {5, 2}, {2, 3}}, .dtype = GRAM_F32, .alpha = -1.5,
     .why = "three, scaled"},
    {.count = 2, .m = 5, .size = {{3, 4}, {2, 5}}, .dtype = GRAM_F64, .side = GRAM_LEFT,
     .why = "from the left"},
    {.count = 3, .m = 6, .size = {{3, 4}, {2, 5}, {2, 2}}, .dtype = GRAM_F32, .side = GRAM_LEFT,
     .transpose_x = true, .transpose_factors = 2, .why = "from the left, transposed"},
    {.count = 3, .m = 6, .size = {{3, 4}, {2, 5}, {2, 2}}, .dtype = GRAM_F64, .transpose_x = true,
     .transpose_factors = UINT32_MAX, .why = "all transposed"},
    {.count = 2, .m = 5, .size = {{4, 4}, {3, 3}}, .dtype = GRAM_F64, .transpose_factors = 1,
     .x_layout = COLUMN_MAJOR, .grad_layout = PADDED, .layout = {EVERY_SECOND, REVERSED},
     .why = "strides that BLAS cannot take"},
    {.count = 2, .m = 5, .size = {{4, 3}, {3, 4}}, .dtype = GRAM_F32, .x_layout = REVERSED,
     .grad_layout = EVERY_SECOND, .layout = {PADDED, COLUMN_MAJOR}, .why = "strides, f32"},
    {.count = 2, .m = 3, .size = {{1, 6}, {5, 1}}, .dtype = GRAM_F64, .layout = {COLUMN_MAJOR},
     .why = "single rows and columns"},
    {.count = 3, .m = 4, .size = {{2, 2}, {3, 2}, {2, 3}}, .dtype = GRAM_F64,
     .left_out = KRON_VJP_X | 5, .why = "one factor's gradient alone"},
    {.count = 3, .m = 4, .size = {{2, 2}, {3, 2}, {2, 3}}, .dtype = GRAM_F64, .left_out = 7,
     .why = "the gradient of x alone"},
    {.count = 3, .m = 4, .size = {{2, 2}, {3, 2}, {2, 3}}, .dtype = GRAM_F64,
     .left_out = KRON_VJP_X | 6, .why = "that of the first factor alone"},
    {.count = 2, .m = 0, .size = {{3, 4}, {2, 5}}, .dtype = GRAM_F64, .why = "no rows: zeros"},
    {.count = 2, .m = 3, .size = {{3, 0}, {2, 5}}, .dtype = GRAM_F64, .why = "no columns: zeros"},
    {.count = 2, .m = 3, .size = {{3, 2}, {0, 5}}, .dtype = GRAM_F32, .why = "nothing in x: zeros"},
    {.count = 2, .m = 3, .size = {{3, 4}, {2, 3}}, .dtype = GRAM_F64, .x_batch = {3},
     .grad_batch = {3}, .why = "factors that are summed over the batch"},
    {.count = 2, .m = 3, .size = {{3, 4}, {2, 3}}, .dtype = GRAM_F64, .grad_batch = {3},
     .factor_batch = {{3}}, .why = "x and a factor that are summed over the batch"},
    {.count = 3, .m = 3, .size = {{2, 3}, {2, 3}, {2, 2}}, .dtype = GRAM_F32, .x_batch = {2, 1},
     .grad_batch = {2, 3}, .factor_batch = {{3}, {2, 1}}, .alpha = 2, .alpha_per_item = true,
     .side = GRAM_LEFT, .layout = {COLUMN_MAJOR, PADDED}, .why = "everything is broadcast"},
    {.count = 2, .m = 2, .size = {{2, 3}, {2, 2}}, .dtype = GRAM_F64, .x_batch = {70},
     .grad_batch = {70}, .factor_batch = {{70}}, .why = "more items than a round has"},
    {.count = 2, .m = 2, .size = {{2, 3}, {2, 2}}, .dtype = GRAM_F32, .grad_batch = {70},
     .factor_batch = {{70}}, .why = "the same for one x"},
    {.count = 5, .m = 9, .size = {{3, 3}, {3, 3}, {3, 3}, {3, 3}, {3, 3}}, .dtype = GRAM_F64,
     .why = "a long chain"},
    {.count = 16, .m = 2, .size = {{1, 2}, {2, 1}, {1, 1}, {1, 2}, {2, 1}, {1, 1}, {1, 1}, {2, 2},
                                   {1, 1}, {1, 1}, {1, 2}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
     .dtype = GRAM_F64, .why = "as many factors as there may be"},
    {.count = 2, .m = 2000, .size = {{12, 10}, {8, 16}}, .dtype = GRAM_F32,
     .why = "units of rows, each with its sums"},
    {.count = 2, .m = 1100, .size = {{9, 12}, {16, 8}}, .dtype = GRAM_F64, .side = GRAM_LEFT,
     .why = "the same from the left"},
    {.count = 2, .m = 150, .size = {{2, 300}, {70, 3}}, .dtype = GRAM_F32,
     .why = "few rows in slices"},
    {.count = 2, .m = 3, .size = {{70, 64}, {5, 7}}, .dtype = GRAM_F64,
     .why = "a factor for BLAS's threads, and a small one"},
    {.count = 1, .m = 3, .size = {{300, 250}}, .dtype = GRAM_F32, .x_batch = {3}, .grad_batch = {3},
     .why = "sums that are too large to have often"},
    {.count = 2, .m = 1, .size = {{64, 64}, {64, 64}}, .dtype = GRAM_F32,
     .why = "factors for tensor cores"},
    {.count = 2, .m = 3, .size = {{128, 120}, {8, 8}}, .dtype = GRAM_F32,
     .why = "the same, with a small one"},
    {.count = 2, .m = 2, .size = {{4, 4}, {128, 128}}, .dtype = GRAM_F64, .side = GRAM_LEFT,
     .why = "the same in f64"},
    {.count = 3, .m = 5, .size = {{16, 16}, {32, 8}, {4, 32}}, .dtype = GRAM_F64,
     .why = "factors of which each has a step of its own"},
    {.count = 3, .m = 4, .size = {{40, 40}, {2, 3}, {3, 2}}, .dtype = GRAM_F32, .left_out = 6,
     .why = "factors without a gradient that are applied together"},
    {.count = 3, .m = 9, .size = {{8, 8}, {8, 8}, {8, 8}}, .dtype = GRAM_F32,
     .why = "small squares in one launch"},
    {.count = 4, .m = 3, .size = {{8, 8}, {16, 16}, {8, 8}, {8, 8}}, .dtype = GRAM_F32,
     .alpha = 0.5, .grad_layout = PADDED, .layout = {COLUMN_MAJOR}, .why = "the same in two"},
    {.count = 3, .m = 3, .size = {{32, 32}, {8, 8}, {8, 8}}, .dtype = GRAM_F64,
     .side = GRAM_LEFT, .transpose_factors = 1, .why = "small squares in f64"},
    {.count = 1, .m = 70, .size = {{32, 32}}, .dtype = GRAM_F32, .x_batch = {2},
     .grad_batch = {2}, .why = "one small square, for all items"},
    {.count = 2, .m = 4, .size = {{3, 4}, {2, 3}}, .dtype = GRAM_F64, .nan = true,
     .why = "NaN stays in its row of the gradient of x"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    const struct kron_vjp_row *r = &rows[row];

    snprintf(text, size, "m=%lld %d factors %s %s: %s", (long long)r->m, r->count,
             r->dtype == GRAM_F32 ? "f32" : "f64", r->side == GRAM_LEFT ? "left" : "right", r->why);
}

static void check(struct harness *h, int row)
{
    kron_vjp_row_check(h, &rows[row]);
}

const struct case_op case_kron_matmul_vjp = {
    .name = "kron_matmul_vjp",
    .sizes = "M N P Q",
    .params = "dtype=f32 side=right",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = kron_vjp_prepare,
};
