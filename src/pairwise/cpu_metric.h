/*
 * cpu_metric.h - what cpu_cdist asks of a metric
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_METRIC_H
#define GRAM_CPU_METRIC_H
#include "cpu/cpu_kernels.h"

/* What the weights of an item come to. */
struct cpu_metric {
    const double *factors; /* of columns, before a p-norm */
    void *weights;         /* of the terms, in the dtype of the arithmetic */
    double total;          /* of the weights */
    struct gram_metric_finish finish;
};

/* count packed rows of a panel: panel[k * width + r]. */
struct cpu_metric_rows {
    void *panel;
    int64_t count, depth, width;
};

/* Columns that a panel has. */
int64_t cpu_metric_columns(const struct gram_cdist_op *op);
/* True if a tile has two sums. */
bool cpu_metric_has_second(const struct gram_cdist_op *op);
/* The memory of an item, and what it comes to there. */
size_t cpu_metric_bytes(const struct gram_cdist_op *op);
void cpu_metric_item(const struct gram_cdist_op *op, gram_dtype dtype, int64_t item, void *memory,
                     struct cpu_metric *out);
/* The step of a metric, given the one that p has. */
enum gram_step cpu_metric_step(const struct gram_cdist_op *op, enum gram_step of_p);
/* The tile of packed bits. */
gram_cdist_tile *cpu_metric_bits_tile(const struct gram_cdist_op *op,
                                      const struct gram_cpu_kernels *kernels);
/* Changes packed rows as the metric wants them. */
void cpu_metric_change(const struct gram_cdist_op *op, const struct cpu_metric *m, gram_dtype dtype,
                       const struct cpu_metric_rows *rows);
#endif
