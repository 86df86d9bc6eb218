/*
 * kernel_vjp_number.cu - adds up the sums of each item
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_rows.cuh"

extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_number(const __grid_constant__ struct vjp_number_params a)
{
    const long long all = vjp_all(a.of), first = vjp_first(a.of), step = vjp_step(a.of);
    const int lane = vjp_lane(a.of);

    for (long long item = first; item - (int)threadIdx.x / a.of.lanes < all; item += step) {
        double sum = 0;

        for (long long i = lane; item < all && i < a.of.cols; i += a.of.lanes)
            sum += a.sums[item * a.step + i];
        sum = vjp_sum(a.of, sum);
        if (lane == 0 && item < all)
            *vjp_row(a.of, a.out, item, 0) = (REAL)sum;
    }
}
