/*
 * eigh_kernels.h - the arithmetic of small symmetric eigenproblems of one dtype, and what large
 * ones need beside LAPACK
 *
 * Small matrices are worked on together, one in each lane of a vector: number x of a packed array
 * of lane l lies at x * lanes + l.  a is a lower triangle, element (i, j <= i) its number
 * i (i + 1) / 2 + j; v holds n vectors of n, w their n values.  All are aligned to 64 bytes.
 *
 * A matrix is scaled by 2^-exponent, which brings its largest element to [1/2, 1), or as near to
 * it as the dtype's powers of two allow: products can then neither overflow nor vanish.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_KERNELS_H
#define GRAM_EIGH_KERNELS_H
#include "core/view.h"

enum {
    EIGH_SMALL = 32,  /* largest n that is taken in lanes */
    EIGH_LANES = 16,  /* the most lanes of any vector */
    EIGH_SWEEPS = 40, /* Jacobi takes 4 to 9; more than this is a failure */
};

struct gram_eigh_load {
    int64_t n;
    const void *item[EIGH_LANES]; /* NULL: a matrix of zeros */
    int64_t stride[2];            /* of the lower triangle: from row to row, column to column */
    void *a;
    int exponent[EIGH_LANES]; /* out */
};

struct gram_eigh_kernels {
    int lanes;
    /* Returns the lanes (bit l) with NaN or infinity, which become zeros. */
    uint32_t (*load)(struct gram_eigh_load *l);
    /* Values to w, vectors to v (NULL: not wanted), in no order; a is destroyed.  Returns the lanes
     * that did not converge. */
    uint32_t (*jacobi)(int64_t n, void *a, void *v, void *w);
    uint32_t (*closed_form)(int64_t n, void *a, void *v, void *w); /* n <= 3 */
    /* The n values in each lane ascending; of lane l, order[l * EIGH_SMALL + i] is where the i-th
     * stood. */
    void (*sort_lanes)(int64_t n, void *w, int32_t *order);
    /* The order in which the n values w ascend. */
    void (*sort)(int64_t n, const void *w, int32_t *order);
    /* Multiplies n values, stride apart, by 2^exponent. */
    void (*raise)(int64_t n, void *w, int64_t stride, int exponent);
    /* How many of ascending values are <= limit. */
    int64_t (*count)(int64_t n, const void *w, double limit);
    /* Scales the triangle of a column-major matrix; false if it holds NaN or infinity. */
    bool (*scale)(int64_t n, void *a, int64_t ld, gram_uplo uplo, int *exponent);
    void (*transpose)(int64_t n, void *a, int64_t ld);
};

/* ---- Products of symmetric matrices ---------------------------------------------------------- */

enum {
    SYMMETRIC_ROW_BYTES = 64 /* of a row of x and y: 16 columns of f32, 8 of f64 */
};

/*
 * A block a, rows by cols, off the diagonal of a symmetric matrix, read once for both of its
 * places: y_i[r] += sum_c a[r][c] x_j[c] and y_j[c] += sum_r a[r][c] x_i[r].  Rows of x and y have
 * 64 bytes and are aligned to them; those of a are lda elements apart.
 */
struct gram_symmetric_block {
    int64_t rows, cols, lda;
    const void *a, *x_i, *x_j;
    void *y_i, *y_j;
};

typedef void gram_symmetric_kernel(const struct gram_symmetric_block *b);
#endif
