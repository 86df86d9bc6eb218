/*
 * cdist_grad_passes.cu - what comes before and after the tiles of gradients, and p = infinity
 *
 *   cdist_grad_range      p = 2: how far the numbers of a, b and c go, and sums of the rows of b
 *   cdist_grad_sum        out = or += the sum of what the parts of the centres gave
 *   cdist_grad_largest    p = infinity: max |t| of every centre and point, NaN where one of t is
 *   cdist_grad_where      p = infinity: the gradients themselves,
 *       out[o, n, m] = sum_k c[o, k] a[k, m] sgn(t[n]) [|t[n]| = max |t|], t = d[:, m] - b[:, k]
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "grad_params.h"

#define PASS_THREADS 256 /* of a block; cdist_grad_range has LANES times ROWS, as many */

/* ---- Ranges --------------------------------------------------------------------------------- */

/* A row is a point of a, a feature of b or an output of c.  A block looks at GRAD_RANGE_CENTRES
 * centres of GRAD_RANGE_ROWS rows of one of them; the parts of the sums are added up in the order
 * of the centres by who reads them, so that it does not matter in which order blocks run.  NaN is
 * not in the range. */
#define LANES 8 /* threads that share a row */
#define ROWS  GRAD_RANGE_ROWS

/* Rows of a, b or c. */
struct range_side {
    const struct device_view *side;
    long long rows, stride, centre_stride, first; /* first: its number among all rows */
};

/* The side of a group of rows, which becomes one of the side's. */
static __device__ struct range_side side_of(const struct grad_params *a, long long *group)
{
    const struct range_side sides[3] = {
        {&a->a,   a->points, a->a.col_stride, a->a.row_stride,                       0},
        {&a->b, a->features, a->b.row_stride, a->b.col_stride,               a->points},
        {&a->c,  a->outputs, a->c.row_stride, a->c.col_stride, a->points + a->features},
    };

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const long long groups = (sides[i].rows + ROWS - 1) / ROWS;
        if (*group < groups)
            return sides[i];
        *group -= groups;
    }
    return sides[2];
}

static __device__ void merge(struct grad_range *to, const struct grad_range *other)
{
    to->sum += other->sum;
    to->least = fminf(to->least, other->least);
    to->most = fmaxf(to->most, other->most);
}

static __device__ struct grad_range range_of(const REAL *from, long long stride, int first,
                                             int last)
{
    const float infinity = __int_as_float(0x7f800000);
    struct grad_range range = {0, infinity, -infinity};

#pragma unroll 8
    for (int k = first; k < last; k += LANES) {
        const REAL x = from[k * stride];
        const struct grad_range one = {(double)x, (float)x, (float)x};
        merge(&range, &one);
    }
    return range;
}

extern "C" __global__ void __launch_bounds__(LANES *ROWS)
    cdist_grad_range(const __grid_constant__ struct grad_params a)
{
    __shared__ struct grad_range ranges[LANES][ROWS];
    const long long parts = (a.centres + GRAD_RANGE_CENTRES - 1) / GRAD_RANGE_CENTRES;
    const long long groups = (a.points + ROWS - 1) / ROWS + (a.features + ROWS - 1) / ROWS +
                             (a.outputs + ROWS - 1) / ROWS;
    const int thread = (int)threadIdx.x;

    for (long long at = blockIdx.x; at < groups * parts * a.items; at += gridDim.x) {
        const long long part = at / groups % parts, item = at / groups / parts;
        const long long first = part * GRAD_RANGE_CENTRES, left = a.centres - first;
        long long group = at % groups;
        const struct range_side side = side_of(&a, &group);
        const bool near = llabs(side.centre_stride) < llabs(side.stride);
        const int lane = near ? thread % LANES : thread / ROWS,
                  row = near ? thread / LANES : thread % ROWS;
        const long long n = group * ROWS + row;
        const REAL *from =
            (const REAL *)side.side->data + n * side.stride +
            batch_offset(a.batch_shape, a.batch_ndim, side.side->batch_stride, item) +
            first * side.centre_stride;

        if (n < side.rows)
            ranges[lane][row] =
                range_of(from, side.centre_stride, lane,
                         left < GRAD_RANGE_CENTRES ? (int)left : GRAD_RANGE_CENTRES);
        __syncthreads();
        if (lane == 0 && n < side.rows) {
            struct grad_range range = ranges[0][row];
            for (int l = 1; l < LANES; l++)
                merge(&range, &ranges[l][row]);
            a.ranges[(part * a.items + item) * (a.points + a.features + a.outputs) + side.first +
                     n] = range;
        }
        __syncthreads();
    }
}

/* ---- The sum of the parts ------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    cdist_grad_sum(const __grid_constant__ struct grad_sum_params a)
{
    const long long plane = a.features * a.points, all = a.items * a.outputs * plane;
    const long long step = (long long)gridDim.x * blockDim.x;

    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < all; at += step) {
        const long long m = at % a.points, n = at / a.points % a.features;
        const long long o = at / plane % a.outputs;
        const REAL *part = (const REAL *)a.parts + at;
        REAL *out =
            (REAL *)a.out.data + o * a.plane_stride + n * a.out.row_stride + m * a.out.col_stride;
        long long item = at / plane / a.outputs;
        REAL sum = 0;

        for (int i = (int)a.batch_ndim - 1; i >= 0; i--) {
            out += item % a.batch_shape[i] * a.out.batch_stride[i];
            item /= a.batch_shape[i];
        }
        for (long long split = 0; split < a.splits; split++, part += all)
            sum += *part;
        *out = a.add ? *out + sum : sum;
    }
}

/* ---- p = infinity: the largest difference decides ------------------------------------------- */

/* The first element of an item. */
static __device__ const REAL *item_of(const struct grad_params &a, const struct device_view &side,
                                      long long item)
{
    return (const REAL *)side.data +
           batch_offset(a.batch_shape, a.batch_ndim, side.batch_stride, item);
}

extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    cdist_grad_largest(const __grid_constant__ struct grad_params a)
{
    const long long all = a.items * a.centres * a.points;
    const long long step = (long long)gridDim.x * PASS_THREADS;

    for (long long at = (long long)blockIdx.x * PASS_THREADS + threadIdx.x; at < all; at += step) {
        const long long m = at % a.points, k = at / a.points % a.centres;
        const long long item = at / a.points / a.centres;
        const REAL *b = item_of(a, a.b, item) + k * a.b.col_stride;
        const REAL *d = item_of(a, a.d, item) + m * a.d.col_stride;
        REAL most = 0;

        for (long long n = 0; n < a.features; n++) {
            const REAL size = fabs(d[n * a.d.row_stride] - b[n * a.b.row_stride]);
            most = size > most || size != size ? size : most;
        }
        ((REAL *)a.largest)[at] = most;
    }
}

/* The sums of one feature and point, in double, in the order of the centres. */
extern "C" __global__ void __launch_bounds__(PASS_THREADS)
    cdist_grad_where(const __grid_constant__ struct grad_params a)
{
    const long long all = a.items * a.outputs * a.features * a.points;
    const long long step = (long long)gridDim.x * PASS_THREADS;

    for (long long at = (long long)blockIdx.x * PASS_THREADS + threadIdx.x; at < all; at += step) {
        const long long m = at % a.points, n = at / a.points % a.features;
        const long long o = at / a.points / a.features % a.outputs;
        const long long item = at / a.points / a.features / a.outputs;
        const REAL *weight = item_of(a, a.a, item) + m * a.a.col_stride;
        const REAL *b = item_of(a, a.b, item) + n * a.b.row_stride;
        const REAL *c = item_of(a, a.c, item) + o * a.c.row_stride;
        const REAL d = item_of(a, a.d, item)[n * a.d.row_stride + m * a.d.col_stride];
        const REAL *most = (const REAL *)a.largest + item * a.centres * a.points + m;
        REAL *out = (REAL *)item_of(a, a.out, item) + o * a.plane_stride + n * a.out.row_stride +
                    m * a.out.col_stride;
        double sum = 0;

        for (long long k = 0; k < a.centres; k++, most += a.points) {
            const REAL t = d - b[k * a.b.col_stride];
            const double sign = (double)(t > 0) - (double)(t < 0);
            if (*most != *most || (sign != 0 && fabs(t) == *most))
                sum += (double)c[k * a.c.col_stride] * (double)weight[k * a.a.row_stride] *
                       (*most != *most ? (double)*most : sign);
        }
        *out = (REAL)(a.add ? (double)*out + sum : sum);
    }
}
