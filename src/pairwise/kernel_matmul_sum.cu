/*
 * kernel_matmul_sum.cu - fused products with kernel matrices: the slices added up, and stored
 *
 * out[i][c] = sum over the slices of sums[slice][c][i], + r v[i - diagonal][c], + what out holds.
 * The slices are added in their order, in f64.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kernel_matmul_params.h"

#define THREADS 256

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_matmul_sum(const __grid_constant__ struct kernel_sum_params a)
{
    const long long rows = a.round.rows, elements = a.columns * rows;
    const long long all = (long long)gridDim.x * THREADS;

    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
         at < elements * a.round.items; at += all) {
        const long long local = at / elements, item = a.round.first_item + local;
        const long long c = at % elements / rows, row = at % rows;
        const long long i = a.round.first_row + row, j = i - a.diagonal;
        const REAL *from = (const REAL *)a.sums + local * a.slices * elements + c * rows + row;
        REAL *out = (REAL *)a.out.data + i * a.out.row_stride + c * a.out.col_stride +
                    batch_offset(a.batch_shape, a.batch_ndim, a.out.batch_stride, item);
        const double r = number_at(a.batch_shape, a.batch_ndim, a.regularization, item);
        double sum = 0;
#pragma unroll 8
        for (long long slice = 0; slice < a.slices; slice++)
            sum += (double)from[slice * elements];
        if (r != 0 && j >= 0 && j < a.points)
            sum += r * (double)((const REAL *)
                                    a.v.data)[j * a.v.row_stride + c * a.v.col_stride +
                                              batch_offset(a.batch_shape, a.batch_ndim,
                                                           a.v.batch_stride, item)];
        *out = (REAL)(a.accumulate ? (double)*out + sum : sum);
    }
}
