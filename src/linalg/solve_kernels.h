/*
 * solve_kernels.h - the arithmetic of small systems, and strided copies, of one dtype
 *
 * A small matrix s is n by n, column-major, 64-byte aligned, its columns gram_solve_ld(n) apart,
 * the rows beyond n zero.  Right-hand sides x are columns the same distance apart.  Factorisations
 * return LAPACK's info, with NaN on the diagonal taken as a failure.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_KERNELS_H
#define GRAM_SOLVE_KERNELS_H
#include "core/view.h"

enum {
    SOLVE_SMALL = 64, /* largest n that is solved without LAPACK, items in parallel */
    SOLVE_BLOCK = 16, /* rows that are worked on at once: a cache line of floats */
};

static inline int64_t gram_solve_ld(int64_t n)
{
    return (n + SOLVE_BLOCK - 1) / SOLVE_BLOCK * SOLVE_BLOCK;
}

enum solve_part {
    SOLVE_ALL,
    SOLVE_LOWER,
    SOLVE_UPPER
};

/* A strided copy of a matrix or of one triangle, diagonal included; strides of rows, of columns. */
struct solve_copy {
    void *to;
    const void *from;
    int64_t to_stride[2], from_stride[2];
    int64_t rows, cols;
    enum solve_part part;
};

struct gram_solve_kernels {
    void (*copy)(const struct solve_copy *c, int64_t first_column, int64_t last_column);
    void (*fill_nan)(const struct gram_view *shape, void *data);
    int64_t (*bad_diagonal)(int64_t n, const void *s, int64_t ld, bool positive);
    int64_t (*cholesky)(int64_t n, void *s);
    void (*cholesky_solve)(int64_t n, const void *s, void *x, int64_t columns);
    int64_t (*lu)(int64_t n, void *s, int32_t *pivots);
    void (*lu_solve)(int64_t n, const void *s, const int32_t *pivots, void *x, int64_t columns);
    void (*lu_solve_transposed)(int64_t n, const void *s, const int32_t *pivots, void *x,
                                int64_t columns);
};
#endif
