/*
 * kernel_vjp_number.cu - adds up sums, by one block
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_params.h"

#define THREADS 256
#include "block_sum.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_vjp_number(const __grid_constant__ struct vjp_number_params a)
{
    __shared__ double sums[THREADS];
    const int thread = (int)threadIdx.x;
    double sum = 0;

    for (long long i = thread; i < a.count; i += THREADS)
        sum += a.sums[i];
    block_sum(sums, thread, sum);
    if (thread == 0)
        *(REAL *)a.out = (REAL)sums[0];
}
