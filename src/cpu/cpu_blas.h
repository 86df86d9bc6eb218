/*
 * cpu_blas.h - what operations of the CPU do with BLAS beside one call: loops, products along a
 * dimension of a tensor
 *
 * Tensors and matrices are dense, row-major, of f32 or f64, and not empty; sizes are ones that
 * gram_blas_fits() takes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_BLAS_H
#define GRAM_CPU_BLAS_H
#include "core/threads.h"

/* Runs body, which calls BLAS, for every index in [0, count): side by side, each with one thread of
 * BLAS, or one after the other with all of them. */
void cpu_blas_for(gram_context *g, bool side_by_side, int64_t count, gram_loop_body *body,
                  void *arg);

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
