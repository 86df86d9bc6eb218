/*
 * cdist_grad_largest.cu - gradients with p = infinity: the largest difference decides
 *
 *   out[o, n, m] = sum_k c[o, k] a[k, m] sgn(t[n]) [|t[n]| = max |t|], t = d[:, m] - b[:, k]
 *
 * cdist_grad_largest: max |t| of every centre and point, NaN where one of t is.
 * cdist_grad_where: the sums of one feature and point, in double, in the order of the centres.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "batch.cuh"
#include "grad_params.h"

#define THREADS 256

/* The first element of an item. */
static __device__ const REAL *item_of(const struct grad_params &a, const struct grad_side &side,
                                      long long item)
{
    return (const REAL *)side.data +
           batch_offset(a.batch_shape, a.batch_ndim, side.batch_stride, item);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cdist_grad_largest(const __grid_constant__ struct grad_params a)
{
    const long long all = a.items * a.centres * a.points, step = (long long)gridDim.x * THREADS;

    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x; at < all; at += step) {
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

extern "C" __global__ void __launch_bounds__(THREADS)
    cdist_grad_where(const __grid_constant__ struct grad_params a)
{
    const long long all = a.items * a.outputs * a.features * a.points;
    const long long step = (long long)gridDim.x * THREADS;

    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x; at < all; at += step) {
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
