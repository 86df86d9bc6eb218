/*
 * cpu_layer.h - parts of what goes into a layer and of its gradients, as matrices for BLAS
 *
 * A part is features by positions of one sample, of a convolution's input the patches.  In memory
 * it is "planes", a feature's positions one after the other, or rows, a position's features one
 * after the other; which one depends on where it comes from, so that both are read in order.  To
 * BLAS it is features by positions in either form.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_LAYER_H
#define GRAM_CPU_LAYER_H
#include "core/blas.h"
#include "layer.h"

struct cpu_layer_part {
    const struct gram_layer_op *layer;
    bool gradients; /* else what goes in */
    int64_t sample, group;
    int64_t feature, features;   /* of the group: the first, and how many */
    int64_t position, positions; /* the same of positions */
};

/* True if a part of this side is laid out in planes. */
bool cpu_layer_planes(const struct gram_layer_op *layer, bool gradients);

/* The part times factor goes to `to`, in the arithmetic's dtype, planes or rows ld apart. */
void cpu_layer_move(const struct cpu_layer_part *p, double factor, bool planes, void *to,
                    int64_t ld);

/* The part where it lies, if BLAS can take it so, else in scratch, which has room for it. */
struct gram_blas_matrix cpu_layer_load(const struct cpu_layer_part *p, void *scratch);

/* sums[f] = the sum of feature f over the part's positions. */
void cpu_layer_sums(const struct cpu_layer_part *p, double *sums);

/* The offset of element i of axes, whose indices are counted as one; and how many elements from it
 * on, at most limit, lie one cpu_axes_step apart. */
int64_t cpu_axes_at(const struct gram_axes *axes, int64_t i);
int64_t cpu_axes_run(const struct gram_axes *axes, int64_t i, int64_t limit);
static inline int64_t cpu_axes_step(const struct gram_axes *axes)
{
    return axes->ndim ? axes->stride[axes->ndim - 1] : 0;
}

/* rows by cols numbers at `from`, ld apart, go to an output's rows and columns from (row, col) on:
 * out = add * out + scale * from; add 0 reads nothing. */
struct cpu_layer_store {
    const struct gram_layer_output *out;
    gram_dtype dtype;
    int64_t sample, row, col, rows, cols;
    double scale, add;
};
void cpu_layer_store(const struct cpu_layer_store *s, const void *from, int64_t ld);

/* A position of a block: of the features of all samples' positions, one after the other, and so of
 * sums over samples. */
struct cpu_layer_block {
    const struct gram_layer_op *layer;
    bool gradients, ones; /* ones: a feature more, which is 1 */
    bool reduced; /* a sample is one position: the mean of what goes in, the gradients' sum */
    int64_t group;
    const double *factors; /* of the samples, 0: zeros; or NULL: 1 */
    double *sums;          /* reduced: twice a group's features for each thread */
};

/* Features of a block, and its positions altogether. */
static inline int64_t cpu_layer_block_features(const struct cpu_layer_block *b)
{
    return (b->gradients ? b->layer->out : b->layer->in) + b->ones;
}

static inline int64_t cpu_layer_block_positions(const struct cpu_layer_block *b)
{
    return b->layer->samples * (b->reduced ? 1 : b->layer->positions);
}

/* Positions [first, first + count) as a matrix in memory, made by the context's threads. */
struct gram_blas_matrix cpu_layer_block_load(gram_context *g, const struct cpu_layer_block *b,
                                             int64_t first, int64_t count, void *memory);

/* How many positions a block of `features` features has, at most `all`. */
int64_t cpu_layer_block_count(const struct gram_layer_op *layer, int64_t features, int64_t all);

/* The row of an embedding's table that goes in at a position of a sample. */
static inline int64_t cpu_layer_row_at(const struct gram_layer_op *l, int64_t sample,
                                       int64_t position)
{
    int64_t at = sample * l->a.sample_stride + cpu_axes_at(&l->a.position, position);

    return l->a.dtype == GRAM_I32 ? ((const int32_t *)(const void *)l->a.data)[at]
                                  : ((const int64_t *)(const void *)l->a.data)[at];
}

/* Refuses a row that is not in the table. */
gram_status cpu_layer_check_rows(gram_context *g, const struct gram_layer_op *l);
#endif
