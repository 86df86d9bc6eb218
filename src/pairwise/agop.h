/*
 * agop.h - the gradients whose products are summed, for every backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_AGOP_H
#define GRAM_AGOP_H
#include "core/backend.h"

/* The gradients of points [first, first + count) of the items of a round (gram_round_at) that
 * begins with this one, as an operation of their own; left to the caller: out. */
static inline struct gram_cdist_grad_op gram_agop_gradients(const struct gram_agop_op *op,
                                                            const struct gram_batch *round,
                                                            int64_t item, int64_t first,
                                                            int64_t count)
{
    struct gram_cdist_grad_op grad = {
        .batch = *round,
        .a = gram_view_alone(&op->a, &op->batch, item),
        .b = gram_view_alone(&op->b, &op->batch, item),
        .c = gram_view_alone(&op->c, &op->batch, item),
        .d = gram_view_alone(&op->d, &op->batch, item),
        .p = gram_hyper_alone(&op->p, &op->batch, item),
    };
    const int64_t size = (int64_t)gram_dtype_size(op->a.dtype);

    grad.a.cols = grad.d.cols = count;
    if (grad.a.data)
        grad.a.data += first * grad.a.col_stride * size;
    if (grad.d.data)
        grad.d.data += first * grad.d.col_stride * size;
    return grad;
}
#endif
