/*
 * kernel_vjp_correct.cu - what the norms of a cosine take away from its gradient
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_params.h"

extern "C" __global__ void __launch_bounds__(256)
    kernel_vjp_correct(const __grid_constant__ struct vjp_correct_params a)
{
    const long long step = (long long)gridDim.x * blockDim.x;

    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < a.rows * a.cols;
         at += step) {
        const long long i = at / a.cols, k = at - i * a.cols;
        const REAL x = ((const REAL *)a.x.data)[i * a.x.row_stride + k * a.x.col_stride];
        REAL *to = (REAL *)a.to.data + i * a.to.row_stride + k * a.to.col_stride;
        if (a.squares[i] != 0)
            *to -= (REAL)(a.sums[i] / a.squares[i] * (double)x);
    }
}
