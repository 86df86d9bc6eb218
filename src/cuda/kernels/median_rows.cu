/*
 * median_rows.cu - copies the rows that the host has drawn
 *
 * Parameters (-D): REAL, which is not used: elements of 2, 4 and 8 bytes are told apart as it runs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "median_params.h"

template <class element>
static __device__ void copy(const struct median_rows_params *a, long long from, long long to)
{
    ((element *)a->to)[to] = ((const element *)a->x)[from];
}

extern "C" __global__ void __launch_bounds__(256)
    median_rows(const __grid_constant__ struct median_rows_params a)
{
    const long long step = (long long)gridDim.x * blockDim.x;

    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < a.count * a.cols;
         at += step) {
        const long long i = at / a.cols, k = at - i * a.cols;
        const long long from = a.row[i] * a.row_stride + k * a.col_stride;
        if (a.element == 2)
            copy<unsigned short>(&a, from, at);
        else if (a.element == 4)
            copy<unsigned>(&a, from, at);
        else
            copy<unsigned long long>(&a, from, at);
    }
}
