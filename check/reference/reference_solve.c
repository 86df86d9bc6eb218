/*
 * reference_solve.c - linear systems by elimination as it is taught, and how wrong a solution is
 *
 * Matrices are plain row-major arrays of doubles.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

void reference_solve(int64_t n, int64_t r, double *a, double *b)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t p = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[p * n + k]))
                p = i;
        for (int64_t j = 0; j < n + r; j++) { /* exchange rows k and p of [a b] */
            double *row_k = j < n ? &a[k * n + j] : &b[k * r + j - n];
            double *row_p = j < n ? &a[p * n + j] : &b[p * r + j - n];
            double kept = *row_k;
            *row_k = *row_p;
            *row_p = kept;
        }
        for (int64_t i = 0; i < n; i++) { /* clear column k in all other rows */
            double factor = a[i * n + k] / a[k * n + k];
            for (int64_t j = 0; i != k && j < n + r; j++)
                *(j < n ? &a[i * n + j] : &b[i * r + j - n]) -=
                    factor * (j < n ? a[k * n + j] : b[k * r + j - n]);
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < r; j++)
            b[i * r + j] /= a[i * n + i];
}

/* Infinity norm: the largest sum of magnitudes of a row. */
static double norm(int64_t rows, int64_t cols, const double *a, int64_t stride)
{
    double most = 0;

    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < cols; j++)
            sum += fabs(a[i * stride + j]);
        most = sum > most || isnan(sum) ? sum : most;
    }
    return most;
}

double reference_solve_residual(int64_t rows, int64_t n, int64_t r, const double *a,
                                const double *x, const double *b)
{
    double worst = 0, norm_a = norm(rows, n, a, n);

    for (int64_t j = 0; j < r; j++) {
        double most = 0, scale = norm_a * norm(n, 1, x + j, r);
        for (int64_t i = 0; i < rows; i++) {
            double sum = -b[i * r + j];
            for (int64_t k = 0; k < n; k++)
                sum += a[i * n + k] * x[k * r + j];
            most = fabs(sum) > most || isnan(sum) ? fabs(sum) : most;
        }
        if (most > 0 && most / scale > worst)
            worst = most / scale;
        if (isnan(most) || isnan(scale))
            return INFINITY;
    }
    return worst;
}

double reference_product_residual(int64_t n, const double *l, const double *u, const double *a)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++) {
        double row = 0;
        for (int64_t j = 0; j < n; j++) {
            double sum = -a[i * n + j];
            for (int64_t k = 0; k < n; k++)
                sum += l[i * n + k] * u[k * n + j];
            row += fabs(sum);
        }
        most = row > most || isnan(row) ? row : most;
    }
    return isnan(most) ? INFINITY : most > 0 ? most / norm(n, n, a, n) : 0;
}
