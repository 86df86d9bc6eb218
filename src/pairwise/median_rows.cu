/*
 * median_rows.cu - copies the rows that the host has drawn
 *
 * Parameters (-D): REAL.  It is not used: elements of 2, 4 and 8 bytes are told apart as it runs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "median_params.h"

#include "batch.cuh"

template <class element>
static __device__ void copy(const struct median_rows_params &a, long long item, long long from,
                            long long to)
{
    ((element *)(a.to + item * a.item_bytes))[to] =
        ((const element *)a.x)[batch_offset(a.batch.shape, a.batch.ndim, a.batch_stride, item) +
                               from];
}

extern "C" __global__ void __launch_bounds__(256)
    median_rows(const __grid_constant__ struct median_rows_params a)
{
    const long long step = (long long)gridDim.x * blockDim.x, size = a.count * a.cols;

    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < a.batch.items * size;
         e += step) {
        const long long item = e / size, at = e - item * size;
        const long long i = at / a.cols, k = at - i * a.cols;
        const long long from = a.row[i] * a.row_stride + k * a.col_stride;
        if (a.element == 2)
            copy<unsigned short>(a, item, from, at);
        else if (a.element == 4)
            copy<unsigned>(a, item, from, at);
        else
            copy<unsigned long long>(a, item, from, at);
    }
}
