/*
 * kron_trace.cu - the trace of a Kronecker product: the product of the factors' traces
 *
 * A block has an item; sums and products are in double, of integers modulo 2^64.
 *
 * Parameters (-D), set by cuda_kron.c:
 *   REAL    of factors and out: float, double, unsigned or whole64
 *   SUM     double or whole64
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_params.h"

typedef unsigned long long whole64;

extern "C" __global__ void __launch_bounds__(KRON_EXPAND_THREADS)
    kron_trace(const __grid_constant__ struct kron_expand_params a)
{
    __shared__ SUM sums[KRON_EXPAND_THREADS];

    for (long long item = blockIdx.x; item < a.items; item += gridDim.x) {
        SUM product = 1;
        for (int k = 0; k < a.count; k++) {
            const struct device_view &f = a.factor[k];
            const REAL *from =
                (const REAL *)f.data + batch_offset(a.shape, a.ndim, f.batch_stride, item);
            SUM sum = 0;
            for (long long i = threadIdx.x; i < a.factor_rows[k]; i += KRON_EXPAND_THREADS)
                sum += (SUM)from[i * (f.row_stride + f.col_stride)];
            sums[threadIdx.x] = sum;
            __syncthreads();
            for (int half = KRON_EXPAND_THREADS / 2; half > 0; half /= 2) {
                if (threadIdx.x < half)
                    sums[threadIdx.x] += sums[threadIdx.x + half];
                __syncthreads();
            }
            product *= sums[0];
            __syncthreads();
        }
        if (threadIdx.x == 0)
            *((REAL *)a.out.data + batch_offset(a.shape, a.ndim, a.out.batch_stride, item)) =
                (REAL)product;
    }
}
