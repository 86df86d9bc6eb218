/*
 * case_cdist.c - the rows of gram_cdist
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise_problem.h"
#include <math.h>

/* clang-format off */
static const struct pair_row rows[] = {
    {.m = 1, .n = 1, .k = 1, .dtype = GRAM_F32, .p = 2, .why = "smallest"},
    {.m = 13, .n = 37, .k = 5, .dtype = GRAM_F32, .p = 1, .why = "ragged on every edge"},
    {.m = 13, .n = 37, .k = 5, .dtype = GRAM_F64, .p = 1, .why = "ragged on every edge"},
    {.m = 24, .n = 64, .k = 16, .dtype = GRAM_F32, .p = 2, .why = "whole tiles on AVX-512"},
    {.m = 7, .n = 9, .k = 0, .dtype = GRAM_F32, .p = 2, .why = "an empty sum is zero"},
    {.m = 7, .n = 9, .k = 0, .dtype = GRAM_F64, .p = 1.3, .why = "an empty sum is zero"},
    {.m = 0, .n = 9, .k = 3, .dtype = GRAM_F32, .p = 2, .why = "no rows of x"},
    {.m = 9, .n = 0, .k = 3, .dtype = GRAM_F64, .p = 2, .why = "no rows of y"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 0, .data = DATA_INTEGERS,
     .why = "differing coordinates"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 0, .data = DATA_INTEGERS,
     .why = "differing coordinates"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 0.5, .why = "square roots"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 0.5, .why = "square roots"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 1.5, .why = "d sqrt(d)"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 1.5, .no_root = true, .why = "d sqrt(d)"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 3, .why = "cubes"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 3, .why = "cubes"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 4, .no_root = true, .why = "4th powers"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 4, .why = "4th powers"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = INFINITY, .why = "largest difference"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = INFINITY, .why = "largest difference"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 1.3, .why = "any power"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 1.3, .why = "any power"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 0.25, .why = "a strong root"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 7.7, .why = "a wide power"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 1.7, .no_root = true, .data = DATA_INTEGERS,
     .why = "ties and any power"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 1.3, .no_root = true, .data = DATA_TINY,
     .why = "denormal differences and sums"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 0.7, .no_root = true, .data = DATA_TINY,
     .why = "denormal differences"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F64, .p = 1.3, .data = DATA_WIDE, .why = "30 decades"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 1.3, .data = DATA_WIDE, .why = "30 decades"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .p = 0, .data = DATA_SPECIAL,
     .why = "NaN differs from everything, infinity not from itself"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .p = 1, .data = DATA_SPECIAL, .why = "NaN rows"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F64, .p = 2, .data = DATA_SPECIAL, .why = "NaN rows"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .p = 1.3, .data = DATA_SPECIAL, .why = "NaN rows"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F64, .p = 1.3, .data = DATA_SPECIAL, .why = "NaN rows"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F64, .p = 0.5, .data = DATA_SPECIAL, .why = "NaN rows"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F32, .p = INFINITY, .data = DATA_SPECIAL,
     .why = "a NaN stays the largest"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F64, .p = INFINITY, .data = DATA_SPECIAL,
     .why = "a NaN stays the largest"},
    {.m = 129, .n = 65, .k = 33, .dtype = GRAM_F32, .p = 2, .x_layout = PADDED, .y_layout = PADDED,
     .out_layout = PADDED, .why = "row strides above the width"},
    {.m = 40, .n = 50, .k = 21, .dtype = GRAM_F32, .p = 1, .x_layout = COLUMN_MAJOR,
     .y_layout = COLUMN_MAJOR, .out_layout = COLUMN_MAJOR, .why = "unit stride the other way"},
    {.m = 140, .n = 150, .k = 21, .dtype = GRAM_F64, .p = 1, .x_layout = COLUMN_MAJOR,
     .out_layout = COLUMN_MAJOR, .why = "turned round"},
    {.m = 33, .n = 35, .k = 7, .dtype = GRAM_F32, .p = 1, .x_layout = EVERY_SECOND,
     .y_layout = EVERY_SECOND, .out_layout = EVERY_SECOND, .why = "no unit stride"},
    {.m = 33, .n = 35, .k = 7, .dtype = GRAM_F64, .p = 1, .x_layout = REVERSED,
     .y_layout = REVERSED, .out_layout = REVERSED, .why = "negative strides"},
    {.m = 33, .n = 35, .k = 7, .dtype = GRAM_F32, .p = 2, .x_layout = ROWS_REPEATED,
     .out_layout = MISALIGNED, .why = "one row seen many times"},
    {.m = 1, .n = 300, .k = 40, .dtype = GRAM_F32, .p = 1, .why = "one row against many"},
    {.m = 300, .n = 1, .k = 40, .dtype = GRAM_F32, .p = 1, .why = "many rows against one"},
    {.m = 5, .n = 4, .k = 5000, .dtype = GRAM_F32, .p = 1, .why = "three rounds over k"},
    {.m = 5, .n = 40, .k = 3000, .dtype = GRAM_F64, .p = INFINITY, .out_layout = EVERY_SECOND,
     .why = "partial maxima in a strided out"},
    {.m = 5, .n = 7, .k = 1541, .dtype = GRAM_F32, .p = 1.3, .x_layout = COLUMN_MAJOR,
     .out_layout = COLUMN_MAJOR, .why = "long sums, which a device makes in pieces"},
    {.m = 9, .n = 8, .k = 2100, .x_batch = {2, 1}, .y_batch = {1, 3}, .dtype = GRAM_F64, .p = 2,
     .out_layout = PADDED, .why = "long sums of a batch"},
    {.m = 3, .n = 40, .k = 4000, .dtype = GRAM_F16, .p = 1, .why = "long sums of f16"},
    {.m = 5, .n = 7, .k = 2000, .dtype = GRAM_F32, .p = 0, .data = DATA_SPECIAL,
     .why = "long sums with NaN rows"},
    {.m = 45, .k = 2100, .dtype = GRAM_F32, .p = 1, .same = true, .why = "x = y in rounds over k"},
    {.m = 530, .n = 3, .k = 2048, .dtype = GRAM_F32, .p = 1, .why = "two rounds over one side"},
    {.m = 70, .n = 530, .k = 2048, .dtype = GRAM_F32, .p = INFINITY, .out_layout = COLUMN_MAJOR,
     .why = "two rounds over one side"},
    {.m = 530, .k = 600, .dtype = GRAM_F64, .p = INFINITY, .same = true, .out_layout = PADDED,
     .why = "x = y in several blocks"},
    {.m = 131, .k = 20, .dtype = GRAM_F32, .p = 1, .same = true, .why = "x = y"},
    {.m = 131, .k = 20, .dtype = GRAM_F64, .p = 1.3, .same = true, .out_layout = COLUMN_MAJOR,
     .why = "x = y by columns"},
    {.m = 131, .k = 20, .dtype = GRAM_F32, .p = 2, .same = true, .out_layout = EVERY_SECOND,
     .why = "x = y, no unit stride"},
    {.m = 21, .k = 9, .dtype = GRAM_F32, .p = 2, .same = true, .data = DATA_SPECIAL,
     .why = "x = y with NaN and infinity"},
    {.m = 1201, .n = 1801, .k = 1, .dtype = GRAM_F32, .p = 1, .out_layout = PADDED,
     .why = "an out that is streamed, rows that do not begin with a cache line"},
    {.m = 1100, .k = 1, .dtype = GRAM_F64, .p = 1, .same = true, .why = "x = y, streamed"},
    {.m = 50, .n = 60, .k = 32, .dtype = GRAM_F16, .p = 2, .why = "f16"},
    {.m = 50, .n = 60, .k = 32, .dtype = GRAM_BF16, .p = 1, .x_layout = COLUMN_MAJOR, .why = "bf16"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F16, .p = 1, .data = DATA_SPECIAL, .why = "f16 NaN"},
    {.m = 20, .n = 21, .k = 9, .dtype = GRAM_F16, .p = 1, .data = DATA_TINY, .why = "f16 zeros"},
    {.m = 50, .n = 60, .k = 300, .dtype = GRAM_F32, .p = 2, .data = DATA_CLUSTERED,
     .why = "near points"},
    {.m = 50, .n = 60, .k = 300, .dtype = GRAM_F64, .p = 2, .data = DATA_CLUSTERED,
     .why = "near points"},
    {.m = 50, .n = 60, .k = 300, .dtype = GRAM_F32, .p = 2, .data = DATA_OFFSET, .why = "mean 1e4"},
    {.m = 50, .n = 60, .k = 300, .dtype = GRAM_F64, .p = 2, .data = DATA_OFFSET, .why = "mean 1e4"},
    {.m = 50, .n = 60, .k = 300, .dtype = GRAM_F32, .p = 2, .data = DATA_DUPLICATED,
     .why = "points that coincide"},
    {.m = 50, .n = 60, .k = 300, .dtype = GRAM_F64, .p = 2, .no_root = true,
     .data = DATA_DUPLICATED, .why = "points that coincide"},
    {.m = 110, .k = 300, .dtype = GRAM_F32, .p = 2, .same = true, .data = DATA_CLUSTERED,
     .why = "near points, x = y"},
    {.m = 11, .n = 12, .k = 6, .x_batch = {3}, .y_batch = {3}, .dtype = GRAM_F32, .p = 1,
     .why = "a batch"},
    {.m = 11, .n = 12, .k = 6, .x_batch = {3}, .dtype = GRAM_F64, .p = 2, .why = "y for all items"},
    {.m = 11, .n = 12, .k = 6, .x_batch = {2, 1}, .y_batch = {1, 3}, .dtype = GRAM_F32, .p = 1,
     .x_layout = PADDED, .out_layout = PADDED, .why = "both broadcast"},
    {.m = 11, .n = 12, .k = 6, .x_batch = {300}, .y_batch = {300}, .dtype = GRAM_F32, .p = 1,
     .why = "more items than a round takes"},
    {.m = 11, .n = 12, .k = 6, .x_batch = {8}, .y_batch = {8}, .dtype = GRAM_F64, .p = 0.5,
     .per_item = true, .why = "another p for every item, special ones among them"},
    {.m = 11, .k = 6, .x_batch = {6}, .dtype = GRAM_F32, .p = 0, .per_item = true, .same = true,
     .no_root = true, .why = "another p for every item, x = y"},
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
    return pair_prepare(h, args, NULL, NULL, out);
}

const struct case_op case_cdist = {
    .name = "cdist",
    .sizes = "M N K",
    .params = "p=2 dtype=f32 symmetric=0 no_root=0 layout=row",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
