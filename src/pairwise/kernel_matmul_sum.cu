/*
 * kernel_matmul_sum.cu - fused products with kernel matrices: the slices added up, and stored
 *
 * out[i][c] = sum over the slices of sums[slice][c][i], + r v[i - diagonal][c], + what out holds.
 * The slices are added in their order, in f64, after what mirror images give: see
 * kernel_matmul_params.h.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kernel_matmul_params.h"

#define THREADS 256

/* The first slice that the row has; what earlier rounds and the blocks before its own give it is
 * added to *sum. */
static __device__ long long add_mirrors(const struct kernel_sum_params *a, long long local,
                                        long long c, long long i, double *sum)
{
    const long long block = i / a->block, first = a->round.first_row / a->block;
    const long long blocks = (a->round.rows + a->block - 1) / a->block;
    const long long end = block - first < blocks ? block - first : blocks;
    const REAL *from = (const REAL *)a->mirrors + (local * blocks * a->columns + c) * a->points + i;

    if ((block + 1) * a->block > a->points)
        return 0;
    if (first > 0)
        *sum += a->kept[c * a->points + i];
#pragma unroll 8
    for (long long b = 0; b < end; b++)
        *sum += (double)from[b * a->columns * a->points];
    return block * a->block / a->slice_points;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_matmul_sum(const __grid_constant__ struct kernel_sum_params a)
{
    const long long rows = a.round.rows, elements = a.columns * rows;
    const long long reached = a.columns * a.reach, all = (long long)gridDim.x * THREADS;

    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x;
         at < reached * a.round.items; at += all) {
        const long long local = at / reached, item = a.round.first_item + local;
        const long long c = at % reached / a.reach, row = at % a.reach;
        const long long i = a.round.first_row + row, j = i - a.diagonal;
        const REAL *from = (const REAL *)a.sums + local * a.slices * elements + c * rows + row;
        REAL *out = (REAL *)a.out.data + i * a.out.row_stride + c * a.out.col_stride +
                    batch_offset(a.batch_shape, a.batch_ndim, a.out.batch_stride, item);
        const double r = number_at(a.batch_shape, a.batch_ndim, a.regularization, item);
        double sum = 0;
        const long long begin = a.mirrors ? add_mirrors(&a, local, c, i, &sum) : 0;

        if (row >= rows && !a.spills) {
            a.kept[c * a.points + i] = sum;
            continue;
        }
#pragma unroll 8
        for (long long slice = row < rows ? begin : a.slices; slice < a.slices; slice++)
            sum += (double)from[slice * elements];
        if (r != 0 && row < rows && j >= 0 && j < a.points)
            sum += r * (double)((const REAL *)
                                    a.v.data)[j * a.v.row_stride + c * a.v.col_stride +
                                              batch_offset(a.batch_shape, a.batch_ndim,
                                                           a.v.batch_stride, item)];
        *out = (REAL)(a.accumulate ? (double)*out + sum : sum);
    }
}
