/*
 * cpu_kron_matmul_vjp.h - a strided matrix is copied or added to another one
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRON_MATMUL_VJP_H
#define GRAM_CPU_KRON_MATMUL_VJP_H
#include "core/backend.h"

/* A strided matrix moved, or added, to another one; strides in elements, of rows and columns. */
struct kron_vjp_move {
    void *to;
    const void *from;
    int64_t to_stride[2], from_stride[2];
    int64_t rows, cols;
    bool add;
};
void cpu_kron_matmul_vjp_move(gram_dtype dtype, const struct kron_vjp_move *m);
#endif
