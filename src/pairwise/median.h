/*
 * median.h - the distances whose median is wanted, for every backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MEDIAN_H
#define GRAM_MEDIAN_H
#include "core/backend.h"

/* Whether the distances are those of a sample, which is copied: rows of x without gaps. */
static inline bool gram_median_sampled(const struct gram_median_op *op)
{
    return op->rows < op->x.rows;
}

/* The distances of the rows of one item, as an operation of their own; left to the caller: where x
 * and out are, and p. */
static inline struct gram_cdist_op gram_median_distances(const struct gram_median_op *op)
{
    struct gram_cdist_op distances = {.batch.count = 1,
                                      .x = op->x,
                                      .symmetric = true,
                                      .inner = GRAM_DIFFERENCE,
                                      .root = op->root,
                                      .outer_power.value = 1,
                                      .function = GRAM_IDENTITY,
                                      .output = GRAM_VALUE};

    distances.out = gram_view_dense(NULL, op->out.dtype, op->rows, op->rows);
    distances.x.rows = op->rows;
    if (gram_median_sampled(op))
        distances.x.row_stride = op->x.cols, distances.x.col_stride = 1;
    distances.y = distances.x;
    return distances;
}
#endif
