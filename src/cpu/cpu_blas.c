/*
 * cpu_blas.c - loops over items whose work is BLAS's, and products of a tensor along one dimension
 *
 * BLAS is column-major: a matrix is its transpose there, and the slab b of a tensor is an `after`
 * by `n` matrix.  Where nothing is behind the dimension, all slabs together are one `n` by `before`
 * matrix.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu.h"

void cpu_blas_for(gram_context *g, bool side_by_side, int64_t count, gram_loop_body *body,
                  void *arg)
{
    if (side_by_side) {
        gram_blas_for(g, count, body, arg);
        return;
    }
    gram_blas_threads(g);
    for (int64_t i = 0; i < count; i++)
        body(arg, i, 0);
}

struct cpu_mode cpu_mode_of(const int64_t *shape, int order, int at)
{
    struct cpu_mode mode = {.before = 1, .n = shape[at], .after = 1};

    for (int i = 0; i < at; i++)
        mode.before *= shape[i];
    for (int i = at + 1; i < order; i++)
        mode.after *= shape[i];
    return mode;
}

void cpu_mode_product(gram_dtype dtype, const struct cpu_mode *mode, const void *from,
                      const void *q, bool transposed, void *to)
{
    int64_t n = mode->n, slab = n * mode->after * (int64_t)gram_dtype_size(dtype);
    struct gram_blas_matrix basis = {.data = q, .ld = n, .transposed = transposed};

    if (mode->after == 1) {
        struct gram_blas_matrix x = {.data = from, .ld = n};
        basis.transposed = !transposed;
        gram_blas_gemm(dtype, (int64_t[]){n, mode->before, n}, 1, basis, x, 0, to, n);
        return;
    }
    for (int64_t b = 0; b < mode->before; b++) {
        struct gram_blas_matrix x = {.data = (const char *)from + b * slab, .ld = mode->after};
        gram_blas_gemm(dtype, (int64_t[]){mode->after, n, n}, 1, x, basis, 0, (char *)to + b * slab,
                       mode->after);
    }
}
