/*
 * case_agop.c - the rows of gram_agop
 *
 * Tiles of out have 512 rows and columns; a block of gradients has 16 MiB, 64 points at least.  On
 * CUDA tiles have 64, and a block of gradients has 64 MiB.
 *
 * SPDX-License-Identifier: MIT
 */
#include "grad_problem.h"

/* clang-format off */
static const struct grad_row rows[] = {
    {.agop = true, .k = 1, .m = 1, .n = 1, .o = 1, .dtype = GRAM_F32, .p = 1, .why = "smallest"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1, .why = "one output"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 1, .dtype = GRAM_F64, .p = 2, .why = "products"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 3, .dtype = GRAM_F32, .p = 1.3,
     .layout = {ROW_MAJOR, COLUMN_MAJOR, ROW_MAJOR, COLUMN_MAJOR}, .out_layout = EVERY_SECOND,
     .why = "outputs are summed"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 3, .dtype = GRAM_F64, .p = 1.3, .diagonal = true,
     .out_layout = EVERY_SECOND, .why = "the diagonal"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 2, .dtype = GRAM_F32, .p = 1, .diagonal = true,
     .accumulate = true, .points = 90, .why = "the diagonal of a part of the points"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 2, .dtype = GRAM_F64, .p = 1, .accumulate = true,
     .points = 90, .out_layout = COLUMN_MAJOR, .why = "a part of the points"},
    {.agop = true, .k = 20, .m = 0, .n = 7, .o = 2, .dtype = GRAM_F32, .p = 1,
     .why = "no points give zeros"},
    {.agop = true, .k = 20, .m = 0, .n = 7, .o = 2, .dtype = GRAM_F32, .p = 1, .diagonal = true,
     .why = "no points give zeros"},
    {.agop = true, .k = 20, .m = 0, .n = 7, .o = 2, .dtype = GRAM_F64, .p = 1, .accumulate = true,
     .points = 5, .why = "no points add nothing"},
    {.agop = true, .k = 0, .m = 6, .n = 7, .o = 2, .dtype = GRAM_F64, .p = 2,
     .why = "no centres give zeros"},
    {.agop = true, .k = 4, .m = 6, .n = 7, .o = 0, .dtype = GRAM_F64, .p = 1,
     .why = "no outputs give zeros"},
    {.agop = true, .k = 4, .m = 6, .n = 0, .o = 2, .dtype = GRAM_F64, .p = 1,
     .why = "no features"},
    {.agop = true, .k = 2, .m = 5, .n = 520, .o = 1, .dtype = GRAM_F32, .p = 1,
     .why = "more features than a tile has"},
    {.agop = true, .k = 2, .m = 70, .n = 2080, .o = 130, .dtype = GRAM_F32, .p = 1,
     .diagonal = true, .why = "two blocks of points"},
    {.agop = true, .k = 20, .m = 30, .n = 7, .o = 1, .dtype = GRAM_F32, .p = 1,
     .data = GRAD_INTEGERS, .why = "ties"},
    {.agop = true, .k = 9, .m = 30, .n = 7, .o = 1, .dtype = GRAM_F64, .p = 1, .data = GRAD_NAN,
     .why = "NaN in its rows and columns only"},
    {.agop = true, .k = 9, .m = 12, .n = 4, .o = 2, .dtype = GRAM_F32, .p = 1.5, .per_item = true,
     .batch = {{2, 1}, {3}, {0}, {1}}, .why = "a batch, another p for every item"},
    {.agop = true, .k = 9, .m = 12, .n = 4, .o = 2, .dtype = GRAM_F64, .p = 1, .diagonal = true,
     .batch = {{3}, {0}, {3}, {1}}, .why = "a batch of diagonals"},
    {.agop = true, .k = 2, .m = 3, .n = 2, .o = 1, .dtype = GRAM_F32, .p = 1, .accumulate = true,
     .batch = {{30, 1}, {5}, {1, 1}, {30, 5}}, .out_layout = PADDED, .why = "many tiny items"},
    {.agop = true, .k = 2, .m = 3, .n = 2, .o = 2, .dtype = GRAM_F64, .p = 2, .diagonal = true,
     .batch = {{150}, {150}, {0}, {150}}, .out_layout = EVERY_SECOND,
     .why = "many tiny diagonals"},
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
    return grad_prepare(h, args, true, out);
}

const struct case_op case_agop = {
    .name = "agop",
    .sizes = "K M N O",
    .params = "p=1 dtype=f32 diagonal=0",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
