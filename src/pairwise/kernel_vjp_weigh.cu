/*
 * kernel_vjp_weigh.cu - what a block of a kernel's weights, or of its cosines, is worth
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_rows.cuh"

extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_weigh(const __grid_constant__ struct vjp_weigh_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);
    const bool first = blockIdx.x == 0 && threadIdx.x < 3;

    if (first)
        ((REAL *)a.constants)[threadIdx.x] =
            (REAL)(threadIdx.x == 0 ? 1 : threadIdx.x == 1 ? -1 : 0);
    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *grad = vjp_row(a.of, a.grad, item, i);
        REAL *w = vjp_row(a.of, a.w, item, i);
        const double x = a.x_squares ? sqrt(a.x_squares[item * a.step + i]) : 0;

        for (long long j = vjp_lane(a.of); j < a.of.cols; j += a.of.lanes) {
            const REAL g = grad[j * a.grad.col_stride];
            REAL *to = w + j * a.w.col_stride;
            if (a.x_squares) {
                const double scale = x * sqrt(a.y_squares[item * a.step + j]);
                *to = scale == 0 ? (REAL)0 : (REAL)((double)g / scale);
            } else
                *to *= g;
        }
    }
}
