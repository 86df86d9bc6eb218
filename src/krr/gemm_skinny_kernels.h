/*
 * gemm_skinny_kernels.h - a matrix times a few vectors: what each instruction set provides
 *
 * The vectors lie side by side in strips of GEMM_SKINNY_BYTES: 16 vectors of f32, or 8 of f64.  A
 * row of v, and of out, is one strip or two.  BLAS would spend more on packing the matrix than on a
 * product with so few vectors; here its rows pass by as they lie.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_GEMM_SKINNY_KERNELS_H
#define GRAM_GEMM_SKINNY_KERNELS_H
#include "gram/gram.h"
#include <stdbool.h>

enum {
    GEMM_SKINNY_BYTES = 64
};

/* out += a v, or transposed out += a^T v.  a is rows by cols, row-major, and its rows are lda
 * elements apart; v and out are aligned to 64 bytes and do not overlap. */
struct gemm_skinny_op {
    gram_dtype dtype;
    int64_t rows, cols, lda;
    int strips; /* 1 or 2 */
    bool transposed;
    const void *a, *v;
    void *out;
};

/* Does the work of an op in the calling thread. */
typedef void gemm_skinny_kernel(const struct gemm_skinny_op *op);
#endif
