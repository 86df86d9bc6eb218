/*
 * case_eigh.c - the table of gram_eigh: shapes, layouts, ranges, drivers
 *
 * What every driver does with every kind of matrix is in test_eigh_zoo.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_problem.h"
#include <math.h>

/* clang-format off */
static const struct eigh_row rows[] = {
    {.n = 1, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .why = "a number"},
    {.n = 2, .batch = {5}, .dtype = GRAM_F64, .kind = ZOO_RANDOM, .why = "one rotation"},
    {.n = 3, .batch = {37}, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .why = "closed form, lanes left over"},
    {.n = 3, .batch = {37}, .dtype = GRAM_F64, .kind = ZOO_RANDOM, .uplo = GRAM_UPPER, .why = "the same in f64, upper"},
    {.n = 3, .batch = {9}, .dtype = GRAM_F64, .kind = ZOO_CLUSTERED, .why = "two equal values of three"},
    {.n = 0, .batch = {3}, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .why = "nothing"},
    {.n = 0, .batch = {2}, .dtype = GRAM_F64, .select = GRAM_EIGH_VALUE, .lower = -1, .upper = 1, .kind = ZOO_ZERO, .why = "no values in a range"},
    {.n = 7, .batch = {2, 11}, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .why = "Jacobi, two batch dimensions"},
    {.n = 16, .batch = {33}, .dtype = GRAM_F64, .a_layout = COLUMN_MAJOR, .layout = COLUMN_MAJOR, .uplo = GRAM_UPPER, .kind = ZOO_RANDOM, .why = "columns"},
    {.n = 13, .batch = {17}, .dtype = GRAM_F32, .a_layout = PADDED, .layout = PADDED, .kind = ZOO_EVEN, .why = "padded"},
    {.n = 12, .batch = {3}, .dtype = GRAM_F64, .a_layout = REVERSED, .layout = EVERY_SECOND, .kind = ZOO_RANDOM, .why = "strides of any sign"},
    {.n = 31, .batch = {7}, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .in_place = true, .why = "in place, odd"},
    {.n = 32, .batch = {18}, .dtype = GRAM_F32, .a_layout = EVERY_SECOND, .kind = ZOO_GEOMETRIC, .in_place = true, .why = "in place without a unit stride"},
    {.n = 10, .batch = {5}, .dtype = GRAM_F64, .kind = ZOO_RANDOM, .values_only = true, .why = "values alone"},
    {.n = 10, .batch = {5}, .dtype = GRAM_F32, .select = GRAM_EIGH_INDEX, .first = 2, .count = 3, .layout = PADDED, .kind = ZOO_RANDOM, .why = "pairs 2 to 4"},
    {.n = 10, .batch = {20}, .dtype = GRAM_F64, .select = GRAM_EIGH_VALUE, .lower = -0.52, .upper = 0.7, .count = 10, .kind = ZOO_EVEN, .why = "by value, room for all"},
    {.n = 10, .batch = {20}, .dtype = GRAM_F32, .select = GRAM_EIGH_VALUE, .lower = -0.52, .upper = 0.7, .count = 2, .kind = ZOO_EVEN, .why = "by value, not enough room"},
    {.n = 10, .batch = {2}, .dtype = GRAM_F32, .select = GRAM_EIGH_VALUE, .lower = -INFINITY, .upper = 0.05, .count = 9, .kind = ZOO_EVEN, .why = "by value, no lower limit"},
    {.n = 9, .batch = {3}, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 0, .kind = ZOO_RANDOM, .why = "no pairs"},
    {.n = 3, .batch = {20}, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .damage = EIGH_HAS_NAN, .why = "NaN beside sound items, closed form"},
    {.n = 11, .batch = {20}, .dtype = GRAM_F64, .kind = ZOO_RANDOM, .damage = EIGH_HAS_INFINITY, .why = "infinity beside sound items"},
    {.n = 11, .batch = {2}, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .in_place = true, .damage = EIGH_HAS_NAN, .why = "NaN, in place"},
    {.n = 40, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .damage = EIGH_HAS_NAN, .why = "NaN for LAPACK"},
    {.n = 40, .batch = {3}, .dtype = GRAM_F64, .select = GRAM_EIGH_VALUE, .lower = 0, .upper = 1, .count = 9, .driver = GRAM_EIGH_DRIVER_BISECTION, .kind = ZOO_RANDOM, .damage = EIGH_HAS_INFINITY, .why = "infinity for bisection"},
    {.n = 65, .dtype = GRAM_F32, .kind = ZOO_RANDOM, .why = "LAPACK in the memory of the vectors, by rows"},
    {.n = 65, .batch = {3}, .dtype = GRAM_F64, .a_layout = COLUMN_MAJOR, .layout = COLUMN_MAJOR, .uplo = GRAM_UPPER, .kind = ZOO_RANDOM, .why = "the same by columns, one per thread"},
    {.n = 50, .dtype = GRAM_F64, .uplo = GRAM_UPPER, .kind = ZOO_RANDOM, .in_place = true, .why = "LAPACK in place, upper by rows"},
    {.n = 50, .batch = {2}, .dtype = GRAM_F32, .a_layout = COLUMN_MAJOR, .uplo = GRAM_UPPER, .kind = ZOO_RANDOM, .in_place = true, .why = "LAPACK in place, upper by columns"},
    {.n = 50, .dtype = GRAM_F32, .a_layout = PADDED, .kind = ZOO_RANDOM, .in_place = true, .why = "LAPACK in place, padded"},
    {.n = 50, .dtype = GRAM_F32, .a_layout = REVERSED, .kind = ZOO_RANDOM, .in_place = true, .why = "LAPACK in place through a copy"},
    {.n = 65, .dtype = GRAM_F32, .layout = EVERY_SECOND, .kind = ZOO_EVEN, .why = "LAPACK, vectors without unit stride"},
    {.n = 64, .dtype = GRAM_F64, .kind = ZOO_RANDOM, .values_only = true, .why = "LAPACK, values alone"},
    {.n = 64, .dtype = GRAM_F64, .select = GRAM_EIGH_SMALLEST, .count = 1, .kind = ZOO_RANDOM, .values_only = true, .driver = GRAM_EIGH_DRIVER_BISECTION, .why = "one value by bisection"},
    {.n = 100, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 7, .kind = ZOO_RANDOM, .why = "the largest by bisection"},
    {.n = 100, .batch = {2, 2}, .dtype = GRAM_F64, .select = GRAM_EIGH_INDEX, .first = 40, .count = 20, .layout = COLUMN_MAJOR, .kind = ZOO_GEOMETRIC, .why = "a cluster by bisection"},
    {.n = 100, .dtype = GRAM_F64, .select = GRAM_EIGH_INDEX, .first = 40, .count = 50, .kind = ZOO_RANDOM, .why = "half of the pairs, by divide and conquer"},
    {.n = 60, .batch = {2}, .dtype = GRAM_F32, .select = GRAM_EIGH_VALUE, .lower = -0.333, .upper = 0.52, .count = 60, .kind = ZOO_EVEN, .why = "by value, divide and conquer"},
    {.n = 60, .batch = {2}, .dtype = GRAM_F32, .select = GRAM_EIGH_VALUE, .lower = -0.333, .upper = 0.52, .count = 60, .driver = GRAM_EIGH_DRIVER_BISECTION, .kind = ZOO_EVEN, .why = "the same by bisection"},
    {.n = 60, .dtype = GRAM_F64, .select = GRAM_EIGH_VALUE, .lower = -INFINITY, .upper = INFINITY, .count = 5, .driver = GRAM_EIGH_DRIVER_BISECTION, .kind = ZOO_EVEN, .exponent = 900, .why = "without limits, not enough room, scaled"},
    {.n = 60, .dtype = GRAM_F64, .select = GRAM_EIGH_VALUE, .lower = -0.333, .upper = 0.52, .count = 8, .driver = GRAM_EIGH_DRIVER_BISECTION, .kind = ZOO_DIAGONAL_EVEN, .why = "blocks of one, not enough room"},
    {.n = 45, .dtype = GRAM_F64, .select = GRAM_EIGH_VALUE, .lower = 2, .upper = 3, .count = 4, .driver = GRAM_EIGH_DRIVER_BISECTION, .kind = ZOO_EVEN, .why = "none in the range"},
    {.n = 40, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 0, .kind = ZOO_RANDOM, .why = "no pairs, LAPACK"},
    {.n = 100, .dtype = GRAM_F64, .select = GRAM_EIGH_LARGEST, .count = 7, .kind = ZOO_RANDOM, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, a basis of all dimensions"},
    {.n = 300, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 5, .kind = ZOO_RANDOM, .driver = GRAM_EIGH_DRIVER_KRYLOV, .layout = EVERY_SECOND, .why = "Krylov, blocks on and off the diagonal"},
    {.n = 300, .batch = {2}, .dtype = GRAM_F64, .select = GRAM_EIGH_SMALLEST, .count = 5, .kind = ZOO_RANDOM, .uplo = GRAM_UPPER, .a_layout = PADDED, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, upper, padded"},
    {.n = 300, .dtype = GRAM_F64, .select = GRAM_EIGH_SMALLEST, .count = 3, .kind = ZOO_RBF, .a_layout = COLUMN_MAJOR, .layout = COLUMN_MAJOR, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, by columns"},
    {.n = 270, .dtype = GRAM_F32, .select = GRAM_EIGH_INDEX, .first = 268, .count = 2, .kind = ZOO_POSITIVE_EVEN, .a_layout = EVERY_SECOND, .uplo = GRAM_UPPER, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, no unit stride"},
    {.n = 40, .dtype = GRAM_F64, .kind = ZOO_RANDOM, .in_place = true, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, all pairs in place"},
    {.n = 200, .dtype = GRAM_F64, .select = GRAM_EIGH_LARGEST, .count = 4, .kind = ZOO_GRAM, .values_only = true, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, values alone"},
    {.n = 200, .batch = {3}, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 4, .kind = ZOO_GEOMETRIC, .damage = EIGH_HAS_NAN, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, NaN in an item"},
    {.n = 200, .dtype = GRAM_F64, .select = GRAM_EIGH_LARGEST, .count = 4, .kind = ZOO_RANDOM, .damage = EIGH_HAS_INFINITY, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, infinity"},
    {.n = 60, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 0, .kind = ZOO_RANDOM, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov, no pairs"},
    {.n = 200, .dtype = GRAM_F32, .select = GRAM_EIGH_LARGEST, .count = 3, .kind = ZOO_RANDOM, .exponent = 124, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov near overflow"},
    {.n = 200, .dtype = GRAM_F64, .select = GRAM_EIGH_SMALLEST, .count = 3, .kind = ZOO_RANDOM, .exponent = -900, .driver = GRAM_EIGH_DRIVER_KRYLOV, .why = "Krylov near underflow"},
    {.n = 20, .batch = {3}, .dtype = GRAM_F32, .driver = GRAM_EIGH_DRIVER_DIVIDE, .kind = ZOO_RANDOM, .exponent = 125, .why = "near overflow"},
    {.n = 20, .batch = {3}, .dtype = GRAM_F32, .kind = ZOO_EVEN, .exponent = -120, .why = "near underflow"},
    {.n = 3, .batch = {3}, .dtype = GRAM_F64, .kind = ZOO_EVEN, .exponent = 1022, .why = "near overflow, closed form"},
    {.n = 3, .batch = {3}, .dtype = GRAM_F64, .kind = ZOO_EVEN, .exponent = -1000, .why = "near underflow, closed form"},
};
/* clang-format on */

static void label(int index, char *text, size_t size)
{
    const struct eigh_row *row = &rows[index];

    snprintf(text, size, "n=%lld %s %s: %s", (long long)row->n,
             row->dtype == GRAM_F32 ? "f32" : "f64", zoo_names[row->kind], row->why);
}

static void check(struct harness *h, int row)
{
    eigh_row_check(h, &rows[row]);
}

const struct case_op case_eigh = {
    .name = "eigh",
    .sizes = "B N",
    .params = "dtype=f32 k=N driver=auto vectors=1 kind=random",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = eigh_prepare,
};
