/*
 * layer_side.cuh - elements of what goes into a layer and of its gradients
 *
 * Part of sample_*.cu.  An offset is that of a feature and that of a position together; a patch's
 * element also has a place in each dimension, which may lie beside the input.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer_params.h"

#include "stored.cuh"

static __device__ long long axes_at(const struct layer_axes &axes, int i)
{
    long long at = 0;

    if (axes.ndim == 0)
        return 0;
    for (int d = axes.ndim - 1; d > 0; d--) {
        const unsigned size = (unsigned)axes.shape[d];
        at += (int)((unsigned)i % size) * axes.stride[d];
        i = (int)((unsigned)i / size);
    }
    return at + i * axes.stride[0];
}

static __device__ REAL side_value(const struct layer_side &side, long long at)
{
    if (side.dtype == DEVICE_REAL)
        return ((const REAL *)side.data)[at];
    return load_half(side.dtype, side.data, at);
}

/* The row of an embedding's table that goes in at position s of a sample. */
static __device__ long long table_row(const struct layer_side &rows, long long sample, int s)
{
    const long long at = sample * rows.sample_stride + axes_at(rows.position, s);

    return rows.dtype == DEVICE_I32 ? ((const int *)rows.data)[at]
                                  : ((const long long *)rows.data)[at];
}

/* A feature's or a position's part of an element's place.  Its 24 bytes let the lanes of a warp
 * read parts one after the other in shared memory from different banks. */
struct part {
    long long at;
    int x[3];
    int there; /* kfac_factors.cu's: elements with this part are read */
};

/* Dimensions of i, the last fastest. */
static __device__ int unravel(int i, const int size[3], int x[3])
{
    for (int d = 2; d >= 0; d--) {
        x[d] = (int)((unsigned)i % (unsigned)size[d]);
        i = (int)((unsigned)i / (unsigned)size[d]);
    }
    return i;
}

static __device__ struct part input_feature(const struct layer_params &l, int group, int f)
{
    struct part p = {
        0, {0, 0, 0}
    };

    if (!l.patches) {
        p.at = axes_at(l.a.feature, group * l.in + f);
        return p;
    }
    f = unravel(f, l.kernel, p.x);
    p.at = axes_at(l.a.feature, group * l.channels + f);
    for (int d = 0; d < 3; d++) {
        p.x[d] *= l.dilation[d];
        p.at += p.x[d] * l.size_stride[d];
    }
    return p;
}

static __device__ struct part input_position(const struct layer_params &l, int s)
{
    struct part p = {
        0, {0, 0, 0}
    };

    if (!l.patches) {
        p.at = axes_at(l.a.position, s);
        return p;
    }
    (void)unravel(s, l.place, p.x);
    for (int d = 0; d < 3; d++) {
        p.x[d] = p.x[d] * l.stride[d] - l.padding[d];
        p.at += p.x[d] * l.size_stride[d];
    }
    return p;
}

static __device__ bool inside(const struct layer_params &l, const struct part &f,
                              const struct part &s)
{
    bool there = true;

    for (int d = 0; d < 3; d++)
        there &= (unsigned)(f.x[d] + s.x[d]) < (unsigned)l.size[d];
    return there;
}

static __device__ struct part feature_of(const struct layer_params &l, bool gradients, int group,
                                         int f)
{
    struct part p = {
        0, {0, 0, 0}
    };

    if (!gradients)
        return input_feature(l, group, f);
    p.at = axes_at(l.g.feature, group * l.out + f);
    return p;
}

static __device__ struct part position_of(const struct layer_params &l, bool gradients, int s)
{
    struct part p = {
        0, {0, 0, 0}
    };

    if (!gradients)
        return input_position(l, s);
    p.at = axes_at(l.g.position, s);
    return p;
}

static __device__ void put(const struct layer_output &out, long long sample, int row, int col,
                           bool add, double value)
{
    REAL *to = (REAL *)out.data + sample * out.sample_stride + axes_at(out.row, row) +
               axes_at(out.col, col);

    *to = (REAL)(add ? (double)*to + value : value);
}
