/*
 * kernel_vjp_correct.cu - what the norms of a cosine take away from its gradient
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_rows.cuh"

extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_correct(const __grid_constant__ struct vjp_correct_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *x = vjp_row(a.of, a.x, item, i);
        REAL *to = vjp_row(a.of, a.to, item, i);
        const double square = a.squares[item * a.step + i], sum = a.sums[item * a.step + i];

        for (long long k = vjp_lane(a.of); square != 0 && k < a.of.cols; k += a.of.lanes)
            to[k * a.to.col_stride] -= (REAL)(sum / square * (double)x[k * a.x.col_stride]);
    }
}
