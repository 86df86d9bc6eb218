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
    const long long step = (long long)gridDim.x * blockDim.x;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;

    if (first < 3)
        ((REAL *)a.constants)[first] = (REAL)(first == 0 ? 1 : first == 1 ? -1 : 0);
    for (long long at = first; at < a.rows * a.cols; at += step) {
        const long long i = at / a.cols, j = at - i * a.cols;
        const REAL grad =
            ((const REAL *)a.grad.data)[i * a.grad.row_stride + j * a.grad.col_stride];
        REAL *w = (REAL *)a.w.data + i * a.w.row_stride + j * a.w.col_stride;
        if (a.x_squares) {
            const double scale = sqrt(a.x_squares[i]) * sqrt(a.y_squares[j]);
            *w = scale == 0 ? (REAL)0 : (REAL)((double)grad / scale);
        } else
            *w *= grad;
    }
}
