/*
 * matmul_batched.h - what the calls for matrix products share: checks, and pieces of a product
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATMUL_BATCHED_H
#define GRAM_MATMUL_BATCHED_H
#include "core/backend.h"

/* Describes out = alpha op(a) op(b) + beta c; afterwards nothing can be wrong with it. */
gram_status gram_matmul_describe(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                 const gram_matmul_options *given, const gram_tensor *out,
                                 struct gram_matmul_batched_op *op);

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Where a piece begins: row i and column j of an item of out, term l of its sums. */
struct gram_matmul_place {
    int64_t item, i, j, l;
};

/* The piece of at most m by n elements of out and k terms that begins there.  Behind the first
 * term it is added to what the pieces before gave. */
static inline struct gram_matmul_batched_op
gram_matmul_piece(const struct gram_matmul_batched_op *w, const struct gram_matmul_place *at,
                  int64_t m, int64_t n, int64_t k)
{
    struct gram_matmul_batched_op op = *w;
    int64_t size = (int64_t)gram_dtype_size(w->out.dtype);

    op.batch = (struct gram_batch){.count = 1};
    op.a = gram_view_alone(&w->a, &w->batch, at->item);
    op.b = gram_view_alone(&w->b, &w->batch, at->item);
    op.out = gram_view_alone(&w->out, &w->batch, at->item);
    op.a.rows = op.out.rows = gram_least(m, w->out.rows - at->i);
    op.b.cols = op.out.cols = gram_least(n, w->out.cols - at->j);
    op.a.cols = op.b.rows = gram_least(k, w->a.cols - at->l);
    if (op.a.cols > 0) {
        op.a.data += (at->i * w->a.row_stride + at->l * w->a.col_stride) * size;
        op.b.data += (at->l * w->b.row_stride + at->j * w->b.col_stride) * size;
    }
    op.out.data += (at->i * w->out.row_stride + at->j * w->out.col_stride) * size;
    op.alpha = gram_hyper_alone(&w->alpha, &w->batch, at->item);
    op.beta = gram_hyper_alone(&w->beta, &w->batch, at->item);
    if (w->has_c) {
        op.c = gram_view_alone(&w->c, &w->batch, at->item);
        op.c.data += (at->i * w->c.row_stride + at->j * w->c.col_stride) * size;
        op.c.rows = op.out.rows, op.c.cols = op.out.cols;
    }
    if (at->l > 0) {
        op.has_c = op.c_is_out = true;
        op.c = op.out;
        op.beta = (struct gram_hyper){.value = 1};
    }
    return op;
}
#endif
