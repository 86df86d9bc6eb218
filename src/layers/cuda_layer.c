/*
 * cuda_layer.c - a layer as device code sees it: struct gram_layer_op to struct layer_params
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_layer.h"
#include "cuda/device_view.h"

static struct layer_axes axes_of(const struct gram_axes *axes)
{
    struct layer_axes a = {.ndim = axes->ndim};

    for (int d = 0; d < axes->ndim; d++) {
        a.stride[d] = axes->stride[d];
        a.shape[d] = (int)axes->shape[d];
    }
    return a;
}

/* The arithmetic's dtype is that of f32 and f64 sides, so that kernels have one code for both. */
static struct layer_side side_of(const struct gram_layer_side *side)
{
    const bool rows = side->dtype == GRAM_I32 || side->dtype == GRAM_I64; /* of a table */

    return (struct layer_side){.data = side->data,
                               .dtype = rows ? (int)side->dtype : cuda_stored_as(side->dtype),
                               .sample_stride = side->sample_stride,
                               .feature = axes_of(&side->feature),
                               .position = axes_of(&side->position)};
}

static int64_t last_stride(const struct gram_axes *axes)
{
    int64_t stride = axes->ndim ? axes->stride[axes->ndim - 1] : INT64_MAX;

    return stride < 0 ? -stride : stride;
}

/* True if positions lie closer together than features. */
static bool in_planes(const struct gram_layer_side *side)
{
    return last_stride(&side->position) < last_stride(&side->feature);
}

struct layer_output cuda_layer_output(const struct gram_layer_output *out)
{
    return (struct layer_output){.data = out->wanted ? out->data : NULL,
                                 .sample_stride = out->sample_stride,
                                 .row = axes_of(&out->row),
                                 .col = axes_of(&out->col)};
}

/* Sizes fit in 32 bits, as cuda_layer_check has found, and kernels count with them. */
struct layer_params cuda_layer_params(const struct gram_layer_op *l)
{
    struct layer_params p = {
        .samples = (int)l->samples,
        .positions = (int)l->positions,
        .groups = (int)l->groups,
        .in = (int)l->in,
        .out = (int)l->out,
        .channels = (int)l->channels,
        .patches = l->patches,
        .planes = in_planes(&l->g),
        .a_planes = l->patches ? l->size_stride[2] <= 1 : in_planes(&l->a),
        .padding_row = l->padding_row < l->in ? l->padding_row : -1,
        .a = side_of(&l->a),
        .g = side_of(&l->g),
    };

    for (int d = 0; d < 3; d++) {
        p.size[d] = l->patches ? (int)l->size[d] : 1;
        p.kernel[d] = (int)l->kernel[d], p.place[d] = (int)l->place[d];
        p.stride[d] = (int)l->stride[d], p.padding[d] = (int)l->padding[d];
        p.dilation[d] = (int)l->dilation[d];
        p.size_stride[d] = l->size_stride[d];
    }
    return p;
}

/* Refuses layers whose sizes do not fit in the 32 bits with which kernels count. */
gram_status cuda_layer_check(gram_context *g, const struct gram_layer_op *l, int64_t samples)
{
    const double features = (double)gram_most(l->in, l->out) * (double)l->groups;
    bool fits = l->samples <= samples && l->positions <= INT32_MAX / 2 && l->groups <= INT32_MAX &&
                features <= INT32_MAX;

    fits = fits && (double)l->samples * (double)l->positions <= (double)(INT64_MAX / 256);
    for (int d = 0; l->patches && d < 3; d++)
        fits = fits && (double)l->size[d] + 2 * (double)l->padding[d] <= INT32_MAX / 2;
    if (!fits)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a layer of %lld by %lld features, %lld groups, %lld samples and %lld "
                         "positions is too large for the device: they are counted in 32 bits",
                         (long long)l->in, (long long)l->out, (long long)l->groups,
                         (long long)l->samples, (long long)l->positions);
    return GRAM_OK;
}
