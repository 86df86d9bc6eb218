/*
 * strip.h - a block of a matrix times a few vectors, in loops of the caller's on the CPU
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_STRIP_H
#define GRAM_STRIP_H
#include "core/backend.h"

/*
 * By one thread: out += a v, or transposed out += a^T v; a is rows by cols, row-major,
 * rows lda elements apart.  A row of v and out is strips (1 or 2) times GRAM_STRIP_BYTES, v and out
 * are aligned to 64 bytes and apart.
 */
enum {
    GRAM_STRIP_BYTES = 64 /* 16 vectors of f32, 8 of f64 */
};
struct gram_strip_op {
    gram_dtype dtype;
    int64_t rows, cols, lda;
    int strips;
    bool transposed;
    const void *a, *v;
    void *out;
};
#endif
