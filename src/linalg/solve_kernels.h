/*
 * solve_kernels.h - the arithmetic of small systems of one dtype
 *
 * A small matrix s is n by n, column-major, 64-byte aligned, its columns gram_solve_ld(n) apart,
 * the rows beyond n zero.  Right-hand sides x are columns the same distance apart.  Factorisations
 * return LAPACK's info, with NaN on the diagonal taken as a failure.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_KERNELS_H
#define GRAM_SOLVE_KERNELS_H
#include <stdbool.h>
#include <stdint.h>

enum {
    SOLVE_SMALL = 64, /* largest n that is solved without LAPACK, items in parallel */
    SOLVE_BLOCK = 16, /* rows that are worked on at once: a cache line of floats */
};

static inline int64_t gram_solve_ld(int64_t n)
{
    return (n + SOLVE_BLOCK - 1) / SOLVE_BLOCK * SOLVE_BLOCK;
}

struct gram_solve_kernels {
    int64_t (*bad_diagonal)(int64_t n, const void *s, int64_t ld, bool positive);
    int64_t (*cholesky)(int64_t n, void *s);
    void (*cholesky_solve)(int64_t n, const void *s, void *x, int64_t columns);
    int64_t (*lu)(int64_t n, void *s, int32_t *pivots);
    void (*lu_solve)(int64_t n, const void *s, const int32_t *pivots, void *x, int64_t columns);
    void (*lu_solve_transposed)(int64_t n, const void *s, const int32_t *pivots, void *x,
                                int64_t columns);
};
#endif
