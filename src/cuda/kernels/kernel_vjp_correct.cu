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
    for (long long i = blockIdx.x; i < a.rows; i += gridDim.x) {
        const REAL *x = (const REAL *)a.x.data + i * a.x.row_stride;
        REAL *to = (REAL *)a.to.data + i * a.to.row_stride;
        const double square = a.squares[i];

        for (long long k = threadIdx.x; square != 0 && k < a.cols; k += blockDim.x)
            to[k * a.to.col_stride] -=
                (REAL)(a.sums[i] / square * (double)x[k * a.x.col_stride]);
    }
}
