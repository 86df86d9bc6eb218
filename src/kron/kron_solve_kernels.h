/*
 * kron_solve_kernels.h - one small factor of a Kronecker product is divided by, many systems at
 * once
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_SOLVE_KERNELS_H
#define GRAM_KRON_SOLVE_KERNELS_H
#include <stdbool.h>
#include <stdint.h>

enum {
    KRON_SOLVE_SMALL = 64 /* the largest n that is divided by without LAPACK */
};

/*
 * Two sweeps through each of some systems of n unknowns, matrix being n by n, row-major:
 *   y[j] = (b[j] - sum over k < j of matrix[j][k] y[k]) reciprocal[j]
 *   z[j] = (y[j] - sum over k > j of matrix[j][k] z[k]) reciprocal[j], or without that if unit
 * and then z[from[j]] is unknown j.  With P L U = F as LAPACK leaves it, by columns, and the
 * reciprocals of U's diagonal, that is F^T z = b; with L in both triangles it is L L^T z = b.
 */
struct gram_kron_sweeps {
    int64_t n;
    const void *matrix, *reciprocal;
    const int32_t *from;
    bool unit;
};

/* Solves systems first to last in place.  Unknown j of system q is
 *   data[(q / right * n + j) * right + q % right].
 * Neighbouring systems go side by side in the lanes of a vector, and what is in one does not touch
 * another. */
typedef void gram_kron_solve_kernel(const struct gram_kron_sweeps *s, int64_t right, int64_t first,
                                    int64_t last, void *data);
#endif
