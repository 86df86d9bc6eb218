/*
 * case_matrix_power.c - the rows of gram_matrix_power
 *
 * Results are compared with Jacobi's method in long double on the matrix as the tensor holds it,
 * within the bounds that gram.h promises; the error estimate with the same formula in long double.
 * The triangle that must not be read holds NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"
#include "matrix_power_problem.h"
#include "reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct power_row rows[] = {
    {.n = 1, .dtype = GRAM_F32, .condition = 1, .why = "smallest"},
    {.n = 0, .batch = 2, .dtype = GRAM_F64, .condition = 1, .why = "no rows"},
    {.n = 1, .dtype = GRAM_F64, .spectrum = ZERO, .ridge = 1e-6, .numerator = -1, .denominator = 2,
     .condition = 1, .why = "0 and a ridge"},
    {.n = 20, .dtype = GRAM_F32, .spectrum = ZERO, .ridge = 1e-6, .condition = 1,
     .why = "a zero matrix is its ridge"},
    {.n = 20, .dtype = GRAM_F32, .spectrum = ZERO, .ridge = 1e-6, .condition = 1,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "the same by Newton"},
    {.n = 20, .dtype = GRAM_F32, .spectrum = ZERO, .numerator = 1, .denominator = 2, .condition = 1,
     .why = "the root of zero"},
    {.n = 9, .dtype = GRAM_F64, .spectrum = ZERO, .numerator = 1, .denominator = 2, .condition = 1,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "the root of zero by an iteration"},
    {.n = 20, .dtype = GRAM_F32, .spectrum = ZERO, .condition = 1,
     .outcome = GRAM_POWER_NOT_DEFINITE, .why = "zero has no inverse root"},
    {.n = 20, .dtype = GRAM_F32, .spectrum = ZERO, .condition = 1, .ridge = 0.1, .relative = true,
     .method = GRAM_POWER_MINIMAX, .outcome = GRAM_POWER_NOT_DEFINITE,
     .why = "nor with a ridge relative to 0"},
    {.n = 33, .dtype = GRAM_F32, .spectrum = IDENTITY, .condition = 1, .why = "identity"},
    {.n = 33, .dtype = GRAM_F64, .spectrum = IDENTITY, .condition = 1,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "identity by Newton"},
    {.n = 33, .dtype = GRAM_F64, .spectrum = IDENTITY, .condition = 1, .bound = 1.5,
     .method = GRAM_POWER_MINIMAX, .why = "identity by polynomials"},
    {.n = 31, .dtype = GRAM_F64, .spectrum = DIAGONAL, .condition = 1e6, .why = "diagonal"},
    {.n = 31, .dtype = GRAM_F32, .spectrum = DIAGONAL, .condition = 1e3,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "diagonal by square roots"},
    {.n = 40, .dtype = GRAM_F64, .spectrum = CLUSTERED, .condition = 1e10,
     .why = "two clusters far apart"},
    {.n = 40, .dtype = GRAM_F64, .spectrum = CLUSTERED, .condition = 1e10,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "the same by Newton"},
    {.n = 65, .dtype = GRAM_F32, .condition = 1e6, .why = "f32, ill-conditioned: done in double"},
    {.n = 65, .dtype = GRAM_F64, .condition = 1e12, .uplo = GRAM_UPPER,
     .why = "f64, as ill-conditioned as promised"},
    {.n = 65, .dtype = GRAM_F32, .condition = 1e4, .method = GRAM_POWER_COUPLED_NEWTON,
     .why = "Newton in f32"},
    {.n = 64, .dtype = GRAM_F64, .condition = 1e12, .method = GRAM_POWER_COUPLED_NEWTON,
     .why = "Newton in f64"},
    {.n = 65, .dtype = GRAM_F32, .condition = 1e4, .method = GRAM_POWER_NEWTON_SCHULZ,
     .why = "two square roots in f32"},
    {.n = 64, .dtype = GRAM_F64, .condition = 1e10, .method = GRAM_POWER_NEWTON_SCHULZ,
     .uplo = GRAM_UPPER, .why = "two square roots in f64"},
    {.n = 65, .dtype = GRAM_F32, .condition = 1e4, .bound = 1e4, .method = GRAM_POWER_MINIMAX,
     .why = "polynomials in f32"},
    {.n = 64, .dtype = GRAM_F64, .condition = 1e10, .bound = 1e10, .method = GRAM_POWER_MINIMAX,
     .why = "polynomials in f64"},
    {.n = 48, .dtype = GRAM_F32, .spectrum = RANK, .ridge = 1e-6, .relative = true, .condition = 1,
     .why = "a third of the rank and a relative ridge"},
    {.n = 48, .dtype = GRAM_F64, .spectrum = RANK, .ridge = 1e-6, .relative = true, .condition = 1,
     .method = GRAM_POWER_MINIMAX, .why = "the same, the condition known from the ridge"},
    {.n = 48, .dtype = GRAM_F32, .spectrum = RANK, .ridge = 1e-3, .condition = 1,
     .method = GRAM_POWER_MINIMAX, .why = "the condition known from an absolute ridge"},
    {.n = 48, .dtype = GRAM_F64, .spectrum = RANK, .condition = 1,
     .outcome = GRAM_POWER_NOT_DEFINITE, .why = "singular"},
    {.n = 48, .dtype = GRAM_F64, .spectrum = RANK, .condition = 1, .numerator = 1, .denominator = 2,
     .why = "a singular matrix has a root"},
    {.n = 30, .dtype = GRAM_F64, .spectrum = INDEFINITE, .condition = 10,
     .outcome = GRAM_POWER_NOT_DEFINITE, .why = "an eigenvalue below 0"},
    {.n = 30, .dtype = GRAM_F64, .spectrum = INDEFINITE, .condition = 10,
     .method = GRAM_POWER_COUPLED_NEWTON, .outcome = GRAM_POWER_NOT_CONVERGED,
     .why = "the same by Newton"},
    {.n = 30, .dtype = GRAM_F32, .spectrum = INDEFINITE, .condition = 10,
     .method = GRAM_POWER_NEWTON_SCHULZ, .outcome = GRAM_POWER_NOT_CONVERGED,
     .why = "the same by square roots"},
    {.n = 30, .dtype = GRAM_F64, .condition = 1e8, .method = GRAM_POWER_COUPLED_NEWTON,
     .iterations = 3, .outcome = GRAM_POWER_NOT_CONVERGED, .why = "too few steps"},
    {.n = 25, .batch = 5, .dtype = GRAM_F32, .condition = 100, .nan = true,
     .outcome = GRAM_POWER_NOT_FINITE, .why = "NaN in one of a batch"},
    {.n = 25, .batch = 5, .dtype = GRAM_F64, .condition = 100, .nan = true, .keep = true,
     .method = GRAM_POWER_COUPLED_NEWTON, .outcome = GRAM_POWER_NOT_FINITE,
     .why = "the same, its previous content kept"},
    {.n = 25, .batch = 3, .dtype = GRAM_F32, .condition = 100, .nan = true, .keep = true,
     .in_place = true, .outcome = GRAM_POWER_NOT_FINITE, .why = "the same in place"},
    {.n = 30, .batch = 2, .dtype = GRAM_F32, .condition = 1e4, .tolerance = 1e-12,
     .method = GRAM_POWER_COUPLED_NEWTON, .outcome = GRAM_POWER_INEXACT,
     .why = "an estimate above the tolerance is told"},
    {.n = 30, .dtype = GRAM_F32, .condition = 1e4, .tolerance = 1e-12, .keep = true,
     .method = GRAM_POWER_COUPLED_NEWTON, .outcome = GRAM_POWER_INEXACT,
     .why = "and keeps what there was"},
    {.n = 30, .dtype = GRAM_F32, .condition = 1e4, .tolerance = 0.1, .keep = true,
     .why = "a result that is accepted"},
    {.n = 37, .batch = 7, .dtype = GRAM_F32, .layout = COLUMN_MAJOR, .condition = 1e3,
     .in_place = true, .ridge = 0.01, .relative = true, .ridges = true,
     .why = "a batch in place, one ridge an item"},
    {.n = 37, .dtype = GRAM_F64, .ridges = true, .ridge = 0.5, .condition = 1e3,
     .why = "one matrix, a batch of ridges"},
    {.n = 37, .dtype = GRAM_F64, .layout = EVERY_SECOND, .condition = 1e3, .uplo = GRAM_UPPER,
     .in_place = true, .why = "no unit stride"},
    {.n = 37, .batch = 2, .dtype = GRAM_F32, .layout = REVERSED, .condition = 1e3,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "negative strides"},
    {.n = 37, .batch = 2, .dtype = GRAM_F64, .layout = PADDED, .condition = 1e3,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "a leading dimension above n"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = -1, .denominator = 2,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "one square root"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = 1, .denominator = 2,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "the root itself"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = 3, .denominator = 8,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "three of an eighth root"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = 1, .denominator = 2,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "a positive power by Newton"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = -1, .denominator = 3,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "an odd root"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = -2, .denominator = 3,
     .method = GRAM_POWER_MINIMAX, .bound = 1e4, .why = "a power of an odd root"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = -1, .denominator = 1,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "the inverse"},
    {.n = 24, .dtype = GRAM_F64, .condition = 100, .numerator = 6, .denominator = 2,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "a whole power, 6/2"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = -5, .denominator = 7,
     .why = "any power by eigenvalues"},
    {.n = 24, .dtype = GRAM_F64, .condition = 100, .numerator = -3, .denominator = 2,
     .why = "a power below -1"},
    {.n = 24, .dtype = GRAM_F64, .condition = 1e4, .numerator = -1, .denominator = 16,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "a high root"},
    {.n = 24, .dtype = GRAM_F32, .condition = 100, .scale = 1e-37f,
     .method = GRAM_POWER_COUPLED_NEWTON, .why = "small numbers"},
    {.n = 24, .dtype = GRAM_F32, .condition = 100, .scale = 1e37f,
     .method = GRAM_POWER_NEWTON_SCHULZ, .why = "large numbers"},
    {.n = 24, .dtype = GRAM_F64, .condition = 100, .scale = 1e300, .why = "larger ones"},
    {.n = 24, .dtype = GRAM_F64, .condition = 100, .scale = 1e-300, .ridge = 1e-3, .relative = true,
     .why = "smaller ones"},
    {.n = 300, .dtype = GRAM_F64, .spectrum = IDENTITY, .condition = 1, .scale = 3, .bound = 2,
     .method = GRAM_POWER_MINIMAX, .why = "more than a panel of a product"},
};
/* clang-format on */

static void label(int index, char *text, size_t size)
{
    power_row_label(&rows[index], text, size);
}

static void check(struct harness *h, int index)
{
    power_row_check(h, &rows[index]);
}

const struct case_op case_matrix_power = {
    .name = "matrix_power",
    .sizes = "N B",
    .params = "dtype=f32 power=-1/4 method=auto condition=1e6 ridge=0",
    .rows = LENGTH(rows),
    .label = label,
    .check = check,
    .prepare = power_prepare,
};
