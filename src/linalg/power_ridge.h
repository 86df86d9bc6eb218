/*
 * power_ridge.h - how large the ridge of an optimizer's factor has to be, on any device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_POWER_RIDGE_H
#define GRAM_POWER_RIDGE_H
#include "core/backend.h"

/*
 * The least ridge of a factor, which is a sum of squares with rounding errors, relative to the
 * largest eigenvalue: what rounding in a's dtype makes of an eigenvalue of 0, and what the methods
 * can still tell from 0 in the dtype that they work in.
 */
static inline double gram_power_least_ridge(const struct gram_matrix_power_op *op, gram_dtype work)
{
    bool eigh = op->method == GRAM_POWER_AUTO || op->method == GRAM_POWER_EIGH;

    if (op->a.dtype == GRAM_F32)
        return work == GRAM_F32 ? 0x1p-16 : 0x1p-20;
    return eigh ? (double)op->a.rows * 0x1p-50 : 0x1p-40;
}
#endif
