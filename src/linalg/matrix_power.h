/*
 * matrix_power.h - what gram_matrix_power and its callers know of the methods
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATRIX_POWER_H
#define GRAM_MATRIX_POWER_H
#include "core/backend.h"

/* True where the method is the eigendecomposition, on a CPU and on devices without a better one. */
static inline bool gram_matrix_power_by_eigh(const struct gram_matrix_power_op *op)
{
    return op->method == GRAM_POWER_AUTO || op->method == GRAM_POWER_EIGH;
}

/* What a CPU computes in. */
static inline gram_dtype gram_matrix_power_cpu_dtype(const struct gram_matrix_power_op *op)
{
    return gram_matrix_power_by_eigh(op) || op->precision == GRAM_POWER_PRECISION_F64 ? GRAM_F64
                                                                                      : op->a.dtype;
}

/*
 * The least ridge of a factor, which is a sum of squares with rounding errors, relative to the
 * largest eigenvalue: what rounding in a's dtype makes of an eigenvalue of 0, and what the methods
 * can still tell from 0 in the dtype that they work in.
 */
static inline double gram_power_least_ridge(const struct gram_matrix_power_op *op, gram_dtype work)
{
    if (op->a.dtype == GRAM_F32)
        return work == GRAM_F32 ? 0x1p-16 : 0x1p-20;
    return gram_matrix_power_by_eigh(op) ? (double)op->a.rows * 0x1p-50 : 0x1p-40;
}
#endif
