/*
 * cpu_kernel_reduce_vjp.h - what a soft reduction makes of a block of the cotangent of a product
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KERNEL_REDUCE_VJP_H
#define GRAM_CPU_KERNEL_REDUCE_VJP_H
#include "core/backend.h"

struct vjp_block;

/* One item's work, beside that of cpu_kernel_vjp.c, whose scratch it uses. */
struct soft_vjp {
    gram_context *g;
    const struct gram_kernel_vjp_op *op;
    struct gram_cdist_op kernel; /* of the item, its values */
    struct gram_view grad, v, to_v, log_weights, to_log_weights, averages;
    const double *logarithms; /* of the item's rows */
    bool sides;               /* these are still to be found: */
    double *columns;          /* scratch: the sums of the columns, for the log-weights */
    double diagonal;          /* for the regularization */
    /* Scratch of the block, without gaps: for its elements, and where grad v^T is. */
    char *elements, *cotangent;
    void *inner;
    size_t inner_bytes;
};

void cpu_soft_begin(struct soft_vjp *soft, const struct gram_kernel_vjp_op *op,
                    const struct gram_cdist_op *kernel, int64_t item);
/* Grows bytes to what a block of this size takes of the inner scratch. */
gram_status cpu_soft_measure(const struct soft_vjp *soft, const struct vjp_block *b, size_t *bytes);
/* The block's cotangent becomes that of the kernel; and the first time that the blocks are gone
 * through, adds what is beside it. */
gram_status cpu_soft_block(struct soft_vjp *soft, const struct vjp_block *b);
/* All blocks were gone through: stores the gradient of the log-weights. */
void cpu_soft_end(struct soft_vjp *soft);
#endif
