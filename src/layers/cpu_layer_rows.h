/*
 * cpu_layer_rows.h - what goes into an embedding: rows of its table
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_LAYER_ROWS_H
#define GRAM_CPU_LAYER_ROWS_H
#include "cpu_layer.h"

static inline int64_t cpu_layer_row_at(const struct gram_layer_op *l, int64_t sample,
                                       int64_t position)
{
    int64_t at = sample * l->a.sample_stride + cpu_axes_at(&l->a.position, position);

    return l->a.dtype == GRAM_I32 ? ((const int32_t *)(const void *)l->a.data)[at]
                                  : ((const int64_t *)(const void *)l->a.data)[at];
}

/* Refuses a row that is not in the table. */
gram_status cpu_layer_rows_check(gram_context *g, const struct gram_layer_op *l);

/* op's factor A, in scratch of this size. */
size_t cpu_layer_rows_bytes(const struct gram_layer_op *l);
void cpu_layer_rows_moments(const struct gram_kfac_factors_op *op, void *scratch);
#endif
