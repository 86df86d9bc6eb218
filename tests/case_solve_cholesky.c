/*
 * case_solve_cholesky.c - the rows of gram_solve_cholesky
 *
 * Sizes up to 64 take the path of small items, 65 and more LAPACK's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_problem.h"

/* clang-format off */
static const struct solve_row rows[] = {
    {.n = 1, .r = 1, .dtype = GRAM_F32, .condition = 1, .why = "smallest"},
    {.n = 0, .r = 3, .dtype = GRAM_F32, .factor = FACTOR_IN_PLACE, .condition = 1,
     .why = "no rows"},
    {.n = 5, .r = 0, .dtype = GRAM_F64, .uplo = GRAM_UPPER, .factor = FACTOR_IN_PLACE,
     .condition = 10, .why = "no right-hand side: only the factor"},
    {.n = 90, .r = 0, .dtype = GRAM_F64, .factor = FACTOR_APART, .condition = 10,
     .why = "the same by LAPACK"},
    {.n = 7, .r = 3, .dtype = GRAM_F32, .condition = 10, .why = "small, row-major"},
    {.n = 7, .r = 3, .dtype = GRAM_F32, .uplo = GRAM_UPPER, .factor = FACTOR_IN_PLACE,
     .in_place = true, .condition = 10, .why = "a row-major upper triangle is LAPACK's lower"},
    {.n = 33, .r = 17, .dtype = GRAM_F64, .a_layout = COLUMN_MAJOR, .uplo = GRAM_UPPER,
     .factor = FACTOR_APART, .condition = 10, .why = "one more than a block of right-hand sides"},
    {.n = 64, .r = 1, .dtype = GRAM_F32, .a_layout = EVERY_SECOND, .b_layout = EVERY_SECOND,
     .factor = FACTOR_IN_PLACE, .in_place = true, .condition = 1e5,
     .why = "largest small one, no unit stride"},
    {.n = 64, .r = 300, .dtype = GRAM_F32, .factor = FACTOR_APART, .condition = 10,
     .why = "small n with many columns goes to LAPACK"},
    {.n = 65, .r = 2, .dtype = GRAM_F32, .condition = 10, .why = "smallest for LAPACK"},
    {.n = 150, .r = 5, .dtype = GRAM_F32, .b_layout = COLUMN_MAJOR, .factor = FACTOR_IN_PLACE,
     .in_place = true, .condition = 1e5, .why = "no copy at all"},
    {.n = 150, .r = 5, .dtype = GRAM_F64, .a_layout = COLUMN_MAJOR, .uplo = GRAM_UPPER,
     .factor = FACTOR_IN_PLACE, .in_place = true, .condition = 1e12,
     .why = "ill-conditioned, in place"},
    {.n = 150, .r = 5, .dtype = GRAM_F64, .a_layout = PADDED, .b_layout = PADDED,
     .uplo = GRAM_UPPER, .factor = FACTOR_APART, .condition = 1e12,
     .why = "leading dimensions above n"},
    {.n = 131, .r = 9, .dtype = GRAM_F32, .a_layout = EVERY_SECOND, .b_layout = EVERY_SECOND,
     .uplo = GRAM_UPPER, .factor = FACTOR_IN_PLACE, .in_place = true, .condition = 1e4,
     .why = "no unit stride: scratch, then back"},
    {.n = 131, .r = 9, .dtype = GRAM_F64, .a_layout = REVERSED, .b_layout = REVERSED,
     .factor = FACTOR_IN_PLACE, .condition = 1e4, .why = "negative strides"},
    {.n = 131, .r = 300, .dtype = GRAM_F64, .a_layout = MISALIGNED, .b_layout = MISALIGNED,
     .in_place = true, .condition = 10, .why = "more columns than one block"},
    {.n = 9, .r = 2, .a_batch = {5}, .b_batch = {5}, .dtype = GRAM_F32, .factor = FACTOR_IN_PLACE,
     .in_place = true, .condition = 10, .why = "a batch of small ones"},
    {.n = 9, .r = 2, .a_batch = {5}, .b_batch = {5}, .dtype = GRAM_F64, .a_layout = COLUMN_MAJOR,
     .b_layout = COLUMN_MAJOR, .uplo = GRAM_UPPER, .factor = FACTOR_APART, .condition = 10,
     .damage = BROKEN, .why = "one of a batch is not definite"},
    {.n = 20, .r = 18, .a_batch = {3}, .b_batch = {3}, .dtype = GRAM_F32, .a_layout = PADDED,
     .b_layout = PADDED, .condition = 10, .damage = HAS_NAN, .why = "NaN in one of a batch"},
    {.n = 80, .r = 3, .a_batch = {3}, .b_batch = {3}, .dtype = GRAM_F32, .condition = 10,
     .damage = HAS_NAN, .why = "the same by LAPACK"},
    {.n = 200, .r = 3, .a_batch = {2}, .b_batch = {2}, .dtype = GRAM_F64, .a_layout = COLUMN_MAJOR,
     .b_layout = COLUMN_MAJOR, .uplo = GRAM_UPPER, .factor = FACTOR_APART, .condition = 10,
     .damage = HAS_NAN, .why = "across LAPACK's blocks"},
    {.n = 200, .r = 3, .a_batch = {2}, .b_batch = {2}, .dtype = GRAM_F64, .factor = FACTOR_IN_PLACE,
     .in_place = true, .condition = 10, .damage = BROKEN, .why = "not definite, in place"},
    {.n = 12, .r = 2, .b_batch = {4}, .dtype = GRAM_F32, .factor = FACTOR_IN_PLACE,
     .in_place = true, .condition = 10,
     .why = "one matrix for a batch of b: factorised once, in place"},
    {.n = 90, .r = 2, .a_batch = {1}, .b_batch = {4}, .dtype = GRAM_F32, .factor = FACTOR_IN_PLACE,
     .in_place = true, .condition = 10, .why = "the same by LAPACK"},
    {.n = 12, .r = 2, .a_batch = {4}, .dtype = GRAM_F32, .factor = FACTOR_APART, .condition = 10,
     .damage = BROKEN, .why = "one b for a batch of matrices"},
    {.n = 70, .r = 2, .a_batch = {2, 1}, .b_batch = {0, 3}, .dtype = GRAM_F64, .uplo = GRAM_UPPER,
     .factor = FACTOR_IN_PLACE, .condition = 10, .damage = BROKEN, .why = "both broadcast"},
    {.n = 10, .r = 4, .a_batch = {2, 1}, .b_batch = {2, 3}, .dtype = GRAM_F64, .a_layout = PADDED,
     .b_layout = PADDED, .uplo = GRAM_UPPER, .factor = FACTOR_IN_PLACE, .in_place = true,
     .condition = 10, .damage = BROKEN, .why = "both broadcast, small"},
    {.n = 300, .r = 2, .dtype = GRAM_F32, .condition = 1e5, .why = "ill-conditioned f32"},
};
/* clang-format on */

static void label(int row, char *text, size_t size)
{
    solve_row_label(&rows[row], text, size);
}

static void check(struct harness *h, int row)
{
    solve_row_check(h, &rows[row], false);
}

static bool prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    return solve_prepare(h, args, out, false);
}

const struct case_op case_solve_cholesky = {
    .name = "solve_cholesky",
    .sizes = "N R",
    .params = "dtype=f32 layout=row rhs=row uplo=lower",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = prepare,
};
