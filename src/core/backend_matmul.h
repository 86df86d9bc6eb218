/*
 * backend_matmul.h - the part of backend.h that describes matrix products
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BACKEND_MATMUL_H
#define GRAM_BACKEND_MATMUL_H
#include "threads.h"
#include "view.h"

/* out = alpha a b + beta c */
struct gram_matmul_batched_op {
    struct gram_batch batch;
    struct gram_view a, b, out;
    struct gram_view c; /* where has_c: beta may be other than 0 */
    bool has_c, c_is_out;
    struct gram_hyper alpha, beta;
};

/* The same in pieces of no more than memory bytes; host_*: of the CPU's memory, on a device */
struct gram_matmul_chunked_op {
    struct gram_matmul_batched_op product;
    bool host_a, host_b, host_c, host_out;
    size_t memory;
    gram_loop *parallel; /* gram_parallel_for */
};

/* Whether there is nothing to compute. */
static inline bool gram_matmul_is_empty(const struct gram_matmul_batched_op *op)
{
    return op->batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

/* out^T = alpha b^T a^T + beta c^T */
static inline void gram_matmul_transpose(struct gram_matmul_batched_op *op)
{
    struct gram_view a = op->a;

    op->a = op->b;
    op->b = a;
    gram_view_transpose(&op->a);
    gram_view_transpose(&op->b);
    gram_view_transpose(&op->c);
    gram_view_transpose(&op->out);
}

/* l = beta l + weight x x^T, weight being alpha, or (1 - beta) alpha unless sum */
struct gram_syrk_ema_op {
    struct gram_batch batch;
    struct gram_view x, l; /* packed: l is a vector */
    struct gram_view info; /* where has_info */
    bool packed, sum, keep, has_info;
    struct gram_hyper beta, alpha;
};

/* (gradients^T gradients / rows + damping I) out = v */
struct gram_natural_gradient_op {
    struct gram_batch batch;
    struct gram_view gradients, v, out; /* v and out: vectors */
    struct gram_view info;              /* where has_info */
    bool has_info;
    struct gram_hyper damping;
};
#endif
