/*
 * symmetric_kernels.h - products of symmetric matrices: what each instruction set provides
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SYMMETRIC_KERNELS_H
#define GRAM_SYMMETRIC_KERNELS_H
#include <stdint.h>

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
