/*
 * kernel_vjp_sums.cu - sums of products of two rows
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_rows.cuh"

extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_sums(const __grid_constant__ struct vjp_sums_params a)
{
    const long long all = vjp_all(a.of), first = vjp_first(a.of), step = vjp_step(a.of);
    const int lane = vjp_lane(a.of);

    /* All threads of a block go round as often, for vjp_sum. */
    for (long long at = first; at - (int)threadIdx.x / a.of.lanes < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *u = a.u.data && at < all ? vjp_row(a.of, a.u, item, i) : nullptr;
        const REAL *v = at < all ? vjp_row(a.of, a.v, item, i) : nullptr;
        double sum = 0;

        for (long long j = lane; v && j < a.of.cols; j += a.of.lanes)
            sum += (u ? (double)u[j * a.u.col_stride] : 1) * (double)v[j * a.v.col_stride];
        sum = vjp_sum(a.of, sum);
        if (lane == 0 && at < all) {
            double *to = a.sums + item * a.step + i;
            *to = a.add ? *to + sum : sum;
        }
    }
}
