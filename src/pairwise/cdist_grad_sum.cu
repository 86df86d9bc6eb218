/*
 * cdist_grad_sum.cu - adds up what the parts of the centres gave: out = or += their sum
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "grad_params.h"

extern "C" __global__ void __launch_bounds__(256)
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
