/*
 * sample_side.cuh - elements of what goes into a layer and of its gradients
 *
 * Part of sample_*.cu.  An offset is that of a feature and that of a position together; a patch's
 * element also has a place in each dimension, which may lie beside the input.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_params.h"

#include "ptx.cuh"

#define THREADS SAMPLE_THREADS

#include "block_sum.cuh"

typedef struct sample_params params;

static __device__ long long axes_at(const struct sample_axes &axes, int i)
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

static __device__ REAL side_value(const struct sample_side &side, long long at)
{
    switch (side.type) {
    case SAMPLE_F16:
        return (REAL)ptx_float_of_half(((const unsigned short *)side.data)[at]);
    case SAMPLE_BF16:
        return (REAL)ptx_float_of_bfloat(((const unsigned short *)side.data)[at]);
    default:
        return ((const REAL *)side.data)[at];
    }
}

/* A feature's or a position's part of an element's place. */
struct part {
    long long at;
    int x[3];
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

static __device__ struct part input_feature(const params &a, int group, int f)
{
    struct part p = {
        0, {0, 0, 0}
    };

    if (!a.patches) {
        p.at = axes_at(a.a.feature, group * a.in + f);
        return p;
    }
    f = unravel(f, a.kernel, p.x);
    p.at = axes_at(a.a.feature, group * a.channels + f);
    for (int d = 0; d < 3; d++) {
        p.x[d] *= a.dilation[d];
        p.at += p.x[d] * a.size_stride[d];
    }
    return p;
}

static __device__ struct part input_position(const params &a, int s)
{
    struct part p = {
        0, {0, 0, 0}
    };

    if (!a.patches) {
        p.at = axes_at(a.a.position, s);
        return p;
    }
    (void)unravel(s, a.place, p.x);
    for (int d = 0; d < 3; d++) {
        p.x[d] = p.x[d] * a.stride[d] - a.padding[d];
        p.at += p.x[d] * a.size_stride[d];
    }
    return p;
}

static __device__ bool inside(const params &a, const struct part &f, const struct part &s)
{
    bool there = true;

    for (int d = 0; d < 3; d++)
        there &= (unsigned)(f.x[d] + s.x[d]) < (unsigned)a.size[d];
    return there;
}

static __device__ void put(const struct sample_output &out, long long sample, int row, int col,
                           bool add, double value)
{
    REAL *to = (REAL *)out.data + sample * out.sample_stride + axes_at(out.row, row) +
               axes_at(out.col, col);

    *to = (REAL)(add ? (double)*to + value : value);
}
