/*
 * kernel_vjp_sums.cu - sums of products of two rows, a block a row
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_params.h"

#define THREADS 256
#include "block_sum.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_vjp_sums(const __grid_constant__ struct vjp_sums_params a)
{
    __shared__ double sums[THREADS];
    const int thread = (int)threadIdx.x;

    for (long long i = blockIdx.x; i < a.rows; i += gridDim.x) {
        const REAL *u = (const REAL *)a.u.data + i * a.u.row_stride;
        const REAL *v = (const REAL *)a.v.data + i * a.v.row_stride;
        double sum = 0;

        for (long long j = thread; j < a.cols; j += THREADS)
            sum += (a.u.data ? (double)u[j * a.u.col_stride] : 1) * (double)v[j * a.v.col_stride];
        block_sum(sums, thread, sum);
        if (thread == 0)
            a.sums[i] = a.add ? a.sums[i] + sums[0] : sums[0];
        __syncthreads(); /* the sums are no longer read */
    }
}
