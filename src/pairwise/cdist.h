/*
 * cdist.h - what every backend asks of a gram_cdist_op
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CDIST_H
#define GRAM_CDIST_H
#include "core/backend.h"

/* Whether every hyperparameter and parameter is a number, the same for all items. */
static inline bool gram_cdist_of_numbers(const struct gram_cdist_op *op)
{
    for (int i = 0; i < GRAM_HYPERS; i++)
        if (op->hyper[i].tensor.data)
            return false;
    for (int i = 0; i < op->parameters; i++)
        if (op->parameter[i].tensor.data)
            return false;
    return true;
}

/* Whether half of out is mirrored; regularization off the main diagonal is not. */
static inline bool gram_cdist_mirrors(const struct gram_cdist_op *op)
{
    bool regularized = op->regularization.tensor.data || op->regularization.value != 0;

    return op->symmetric && !(regularized && op->row_offset != op->column_offset);
}

/* The items of a round (gram_round_at) that begins with this one, as an operation of their own; out
 * is not set. */
static inline struct gram_cdist_op gram_cdist_round(const struct gram_cdist_op *op,
                                                    const struct gram_batch *round, int64_t item)
{
    struct gram_cdist_op one = *op;

    one.batch = *round;
    one.x = gram_view_alone(&op->x, &op->batch, item);
    one.y = gram_view_alone(&op->y, &op->batch, item);
    for (int i = 0; i < GRAM_HYPERS; i++)
        one.hyper[i] = gram_hyper_alone(&op->hyper[i], &op->batch, item);
    for (int i = 0; i < op->parameters; i++)
        one.parameter[i] = gram_hyper_alone(&op->parameter[i], &op->batch, item);
    return one;
}

/* One item as an operation of its own; out is not set. */
static inline struct gram_cdist_op gram_cdist_alone(const struct gram_cdist_op *op, int64_t item)
{
    return gram_cdist_round(op, &(struct gram_batch){.count = 1}, item);
}
#endif
