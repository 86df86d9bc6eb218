/*
 * cuda_kernel_reduce_vjp.h - what a soft reduction makes of a block of the cotangent of a product,
 * on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KERNEL_REDUCE_VJP_H
#define GRAM_CUDA_KERNEL_REDUCE_VJP_H
#include "core/backend.h"

struct vjp_block;

/* Scratch of cuda_kernel_vjp.c. */
struct soft_scratch {
    char *elements, *cotangent; /* of a block of each item, without gaps */
    char *constants, *inner;
    size_t inner_bytes;
    int64_t step; /* doubles from one item to the next */
    double *sums; /* of the first item: cuda_soft_doubles */
};

/* The work of a round of items, beside that of cuda_kernel_vjp.c.  Views are of its first item. */
struct soft_vjp {
    gram_context *g;
    const struct gram_kernel_vjp_op *op;
    struct gram_cdist_op kernel;
    struct gram_view grad, v, to_v, log_weights, to_log_weights, averages, regularization;
    const double *logarithms;
    bool sides;             /* these are still to be found */
    struct soft_scratch at; /* the caller's, before the first block */
};

/* Doubles of an item: a sum for each column, and one of the diagonal. */
int64_t cuda_soft_doubles(const struct gram_kernel_vjp_op *op);
void cuda_soft_begin(struct soft_vjp *soft, gram_context *g, const struct gram_kernel_vjp_op *op,
                     const struct gram_cdist_op *kernel, int64_t first);
/* Grows bytes to what a block of this size takes of the inner scratch. */
gram_status cuda_soft_measure(const struct soft_vjp *soft, const struct vjp_block *b,
                              size_t *bytes);
/* The block's cotangent becomes that of the kernel; and the first time that the blocks are gone
 * through, adds what is beside it. */
gram_status cuda_soft_block(struct soft_vjp *soft, const struct vjp_block *b);
/* All blocks were gone through: stores the gradients of log-weights and of the regularization. */
gram_status cuda_soft_end(struct soft_vjp *soft);
#endif
