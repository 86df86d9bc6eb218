/*
 * natural_gradient.cu - the passes of gram_natural_gradient beside products and solves
 *
 * natural_shift: damping to the diagonals of Gram matrices.
 * natural_finish: out = (v - J^T s / rows) / damping.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_params.h"

#include "device_view.cuh"

#define THREADS NATURAL_THREADS

typedef struct natural_params params;

extern "C" __global__ void __launch_bounds__(THREADS)
    natural_shift(const __grid_constant__ params a)
{
    const long long all = a.count * a.blocks;

    for (long long block = blockIdx.x; block < all; block += gridDim.x) {
        const long long item = block / a.blocks;
        const long long i = block % a.blocks * THREADS + threadIdx.x;
        if (i >= a.n)
            continue;
        ((REAL *)a.gram)[item * a.n * a.n + i * (a.n + 1)] +=
            (REAL)number_at(a.shape, a.ndim, a.damping, item);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    natural_finish(const __grid_constant__ params a)
{
    const long long all = a.count * a.blocks;

    for (long long block = blockIdx.x; block < all; block += gridDim.x) {
        const long long item = block / a.blocks;
        const long long i = block % a.blocks * THREADS + threadIdx.x;
        if (i == 0 && a.info.data)
            ((int *)a.info.data)[batch_offset(a.shape, a.ndim, a.info.batch_stride, item)] = 0;
        if (i >= a.n)
            continue;
        const REAL damping = (REAL)number_at(a.shape, a.ndim, a.damping, item);
        const REAL turned = a.turned ? ((const REAL *)a.turned)[item * a.n + i] : (REAL)0;
        const REAL v =
            ((const REAL *)a.v
                 .data)[batch_offset(a.shape, a.ndim, a.v.batch_stride, item) + i * a.v.col_stride];
        ((REAL *)a.out.data)[batch_offset(a.shape, a.ndim, a.out.batch_stride, item) +
                             i * a.out.col_stride] = (v - turned / (REAL)a.rows) / damping;
    }
}
