/*
 * kron_matmul_vjp_kernels.h - what an instruction set offers for gradients of Kronecker factors
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_MATMUL_VJP_KERNELS_H
#define GRAM_KRON_MATMUL_VJP_KERNELS_H
#include "core/sizes.h"

/* out[j q + i] += alpha sum over s < depth of right[i right_step + s] left[s p + j], i < q, j < p;
 * p is at least the lanes of the kernel. */
struct gram_kron_gradient {
    int64_t depth, p, q, right_step;
    const void *left, *right;
    void *out;
    double alpha;
};
typedef void gram_kron_gradient_kernel(const struct gram_kron_gradient *t);

struct gram_kron_vjp_kernels {
    int lanes[2]; /* of the two kernels: the most, and half of it */
    gram_kron_gradient_kernel *gradient[2];
};
#endif
