/*
 * cpu_kernel_matmul.h - the other way of a product with a kernel matrix on the CPU
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KERNEL_MATMUL_H
#define GRAM_CPU_KERNEL_MATMUL_H
#include "core/backend.h"

/* cpu_kernel_matmul_blocks.c: any kernel, a block at a time by gram_cdist and BLAS, all threads
 * together. */
gram_status cpu_kernel_matmul_blocks(gram_context *g, const struct gram_kernel_matmul_op *op);
#endif
