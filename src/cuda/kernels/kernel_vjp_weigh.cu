/*
 * kernel_vjp_weigh.cu - what a block of a kernel's weights, or of its cosines, is worth
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_params.h"

extern "C" __global__ void __launch_bounds__(256)
    kernel_vjp_weigh(const __grid_constant__ struct vjp_weigh_params a)
{
    const bool first = blockIdx.x == 0 && threadIdx.x < 3;

    if (first)
        ((REAL *)a.constants)[threadIdx.x] =
            (REAL)(threadIdx.x == 0 ? 1 : threadIdx.x == 1 ? -1 : 0);
    for (long long i = blockIdx.x; i < a.rows; i += gridDim.x) {
        const REAL *grad = (const REAL *)a.grad.data + i * a.grad.row_stride;
        REAL *w = (REAL *)a.w.data + i * a.w.row_stride;
        const double x = a.x_squares ? sqrt(a.x_squares[i]) : 0;

        for (long long j = threadIdx.x; j < a.cols; j += blockDim.x) {
            const REAL g = grad[j * a.grad.col_stride];
            REAL *at = w + j * a.w.col_stride;
            if (a.x_squares) {
                const double scale = x * sqrt(a.y_squares[j]);
                *at = scale == 0 ? (REAL)0 : (REAL)((double)g / scale);
            } else
                *at *= g;
        }
    }
}
