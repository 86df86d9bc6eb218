/*
 * pairwise.h - what the fronts of gram_cdist and gram_kernel share: the checks of x, y and out
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIRWISE_H
#define GRAM_PAIRWISE_H
#include "backend.h"

struct gram_pair {
    const gram_tensor *x, *y, *out; /* y may be NULL: x itself */
};

/* Joins the batches of x and y; hyperparameters join after it. */
gram_status gram_pair_join(gram_context *g, const struct gram_pair *pair, struct gram_batch *batch);

/* Checks shapes, dtypes and overlap, and fills in op's views and op->symmetric.  out NULL: the
 * views of x and y only. */
gram_status gram_pair_view(gram_context *g, const struct gram_pair *pair, struct gram_cdist_op *op);
#endif
