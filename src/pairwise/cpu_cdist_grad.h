/*
 * cpu_cdist_grad.h - gradients of kernel expansions as a part of other operations
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_CDIST_GRAD_H
#define GRAM_CPU_CDIST_GRAD_H
#include "cpu/cpu.h"
#include "cpu_cdist_grad_pack.h"

/* Runs all items of op with scratch of cpu_cdist_grad_workspace(g, op) bytes, aligned to 64; with
 * add the gradients are added to what out holds. */
void cpu_cdist_grad_in(gram_context *g, const struct gram_cdist_grad_op *op, bool add,
                       void *scratch);

/* p = 2, one item, by matrix products (cpu_cdist_grad_square.c). */
void cpu_cdist_grad_square(gram_context *g, const struct gram_cdist_grad_op *op, int64_t item,
                           bool add, void *scratch);
size_t cpu_cdist_grad_square_bytes(const struct gram_cdist_grad_op *op);

/* p = infinity, one item (cpu_cdist_grad_largest.c). */
void cpu_cdist_grad_largest(gram_context *g, const struct gram_cdist_grad_op *op, int64_t index,
                            bool add, void *scratch);
size_t cpu_cdist_grad_largest_bytes(const gram_context *g, const struct gram_cdist_grad_op *op);
#endif
