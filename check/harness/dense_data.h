/*
 * dense_data.h - row-major matrices that problems are made of and checked with
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_DENSE_DATA_H
#define GRAM_DENSE_DATA_H
#include "harness.h"

/* Zeros, to be freed by the caller; without memory for them the program ends with a message. */
double *dense_doubles(int64_t count);

/* a = (I - 2 v v^T / v^T v) a, n by n, v drawn at random: keeps singular values.  The same from
 * the right too if both_sides, which keeps eigenvalues.  v is room for n. */
void dense_reflect(struct harness *h, int64_t n, double *a, bool both_sides, double *v);

/* Uniform in [-0.5, 0.5), in memory that begins at a multiple of 64 bytes and that the caller
 * frees; data is NULL without memory. */
gram_tensor dense_random(struct harness *h, int64_t rows, int64_t cols, gram_dtype dtype);
#endif
