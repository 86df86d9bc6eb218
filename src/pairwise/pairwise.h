/*
 * pairwise.h - what the fronts of gram_cdist and gram_kernel share: the checks of x, y and out
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIRWISE_H
#define GRAM_PAIRWISE_H
#include "core/backend.h"

struct gram_pair {
    const gram_tensor *x, *y, *out;
    bool no_out;          /* out is not an argument */
    bool derivative;      /* an expression's derivative is wanted */
    const gram_tensor *v; /* another matrix whose batch joins; or NULL */
};

/* y NULL: x itself.  Joins the batches of x, y and v; hyperparameters join after it. */
gram_status gram_pair_join(gram_context *g, const struct gram_pair *pair, struct gram_batch *batch);

/* Checks shapes, dtypes and overlap, and fills in op's views and op->symmetric. */
gram_status gram_pair_view(gram_context *g, const struct gram_pair *pair, struct gram_cdist_op *op);

/* kernel.c: checks all arguments of gram_kernel, or those but out, and describes the work.  op may
 * refer to expression. */
gram_status gram_kernel_describe(gram_context *g, const struct gram_pair *pair,
                                 const gram_kernel_options *options,
                                 struct gram_expression *expression, struct gram_cdist_op *op);
#endif
