/*
 * cdist_grad_range.cu - for p = 2: how far the numbers of a, b and c go, and sums of rows of b
 *
 * A row is a point of a, a feature of b or an output of c.  A block looks at GRAD_RANGE_CENTRES
 * centres of GRAD_RANGE_ROWS rows of one of them; the parts of the sums are added up in the order
 * of the centres by who reads them, so that it does not matter in which order blocks run.  NaN is
 * not in the range.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "batch.cuh"
#include "grad_params.h"

#define LANES 8 /* threads that share a row */
#define ROWS  GRAD_RANGE_ROWS

/* Rows of a, b or c. */
struct range_side {
    const struct grad_side *side;
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
