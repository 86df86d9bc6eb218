/*
 * cpu_mode.h - a tensor seen from one of its dimensions: products along it
 *
 * Tensors and matrices are dense, row-major, of f32 or f64, and not empty.  BLAS does the work on
 * as many threads as it was told to take; sizes are ones that gram_blas_fits() takes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_MODE_H
#define GRAM_CPU_MODE_H
#include "gram/gram.h"
#include <stdbool.h>

/* The dimension of n elements with `before` elements in front of it and `after` behind it. */
struct cpu_mode {
    int64_t before, n, after;
};

/* The mode of dimension `at` of a shape of `order` dimensions. */
struct cpu_mode cpu_mode_of(const int64_t *shape, int order, int at);

/* to[b][j][a] = sum_i q[j][i] from[b][i][a], or of q[i][j] where transposed; q is n by n.  to does
 * not overlap from. */
void cpu_mode_product(gram_dtype dtype, const struct cpu_mode *mode, const void *from,
                      const void *q, bool transposed, void *to);
#endif
