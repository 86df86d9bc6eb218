/*
 * layer.h - a layer of a network, described: what gram_sample_grad and gram_kfac_factors ask of a
 * device, and how their fronts come to it
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_LAYER_H
#define GRAM_LAYER_H
#include "core/backend.h"

/* Dimensions of a tensor that are counted through as one, the last fastest: where one follows the
 * next without a gap they are joined, so that one or none is usual. */
struct gram_axes {
    int ndim;
    int64_t shape[GRAM_MAX_DIMS], stride[GRAM_MAX_DIMS];
};

/* One side of a layer: what goes in, or the gradients of what comes out. */
struct gram_layer_side {
    const char *data;
    gram_dtype dtype;
    int64_t sample_stride;
    struct gram_axes feature, position;
};

/* An output of samples (or groups) by rows by columns; data NULL: not wanted, or empty. */
struct gram_layer_output {
    char *data;
    bool wanted;
    int64_t sample_stride;
    struct gram_axes row, col;
};

/* A layer as layer.c describes it. */
struct gram_layer_op {
    gram_layer_kind kind;
    bool bias;
    int64_t samples, positions, groups;
    int64_t in, out;  /* of one group: features of a (of its patches) and of g; rows of a table */
    gram_dtype dtype; /* of the arithmetic and the outputs */
    struct gram_layer_side a, g;
    /* Where a feature of a is not one of its patches' features: positions of a and of g, and the
     * convolution's kernel.  There are always three dimensions: those that the layer lacks are of
     * size 1 and in front. */
    bool patches;
    int64_t channels; /* of a, in a group */
    int spatial;
    int64_t size[3], size_stride[3], place[3], kernel[3], stride[3], padding[3], dilation[3];
    int64_t padding_row;
    int normalized; /* dimensions of a's features */
    double epsilon;
};

struct gram_sample_grad_op {
    struct gram_layer_op layer;
    struct gram_layer_output weight, bias, norms, sum_weight, sum_bias;
    struct gram_layer_output coefficients; /* only read; wanted: they are given */
    double scale, clip;
    bool accumulate;
    gram_sample_method method;
};

/* Whether norms come from Gram matrices over positions: the cheaper way, or the one asked for. */
static inline bool gram_sample_grad_is_ghost(const struct gram_sample_grad_op *op)
{
    double s = (double)op->layer.positions;

    if (op->weight.wanted || op->method == GRAM_SAMPLE_BLOCKS)
        return false;
    return op->method == GRAM_SAMPLE_GHOST ||
           2 * s * s <= (double)op->layer.in * (double)op->layer.out;
}

struct gram_kfac_factors_op {
    struct gram_layer_op layer;
    struct gram_layer_output a, b; /* a group each */
    gram_kfac_setting setting;
    double scale, keep;
};

/* Checks the layer against what goes in and the gradients of what comes out, and describes it.
 * Either tensor may be NULL where may_lack says so; its side is left empty then. */
gram_status gram_layer_describe(gram_context *g, const gram_layer *given,
                                const gram_tensor *activations, const gram_tensor *gradients,
                                bool may_lack, struct gram_layer_op *op);

/* Views an output of exactly this shape; its first dimension is that of samples where leading is 1,
 * then `rows` dimensions of rows; the others are columns.  NULL: not wanted. */
gram_status gram_layer_output_of(gram_context *g, const char *name, const gram_tensor *t,
                                 const struct gram_layer_op *op, const struct gram_batch *shape,
                                 const int leading_rows[2], struct gram_layer_output *out);

/* Refuses an output that overlaps one of the layer's tensors, either of which may be NULL. */
gram_status gram_layer_apart(gram_context *g, const char *name, const gram_tensor *t,
                             const gram_tensor *activations, const gram_tensor *gradients);
#endif
