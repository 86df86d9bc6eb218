/*
 * agop_sum.cu - out = or += scale times the sum of the parts, both triangles alike
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "agop_params.h"

#include "agop_pair.cuh"

static __device__ REAL sum_of(const struct agop_params *a, long long at, long long all)
{
    const REAL *part = (const REAL *)a->parts + at;
    double sum = 0;

    for (long long chunk = 0; chunk < a->chunks; chunk++, part += all)
        sum += (double)*part;
    return (REAL)(sum * a->scale);
}

static __device__ void put(const struct agop_params *a, long long at, REAL value)
{
    REAL *to = (REAL *)a->out + at;

    *to = a->add ? *to + value : value;
}

extern "C" __global__ void __launch_bounds__(256)
    agop_sum(const __grid_constant__ struct agop_params a)
{
    const long long size = AGOP_TILE * AGOP_TILE, step = (long long)gridDim.x * blockDim.x;
    const long long all = a.diagonal ? a.features : a.pairs * size;

    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < all; at += step) {
        long long row, col;
        if (a.diagonal) {
            put(&a, at * a.col_stride, sum_of(&a, at, all));
            continue;
        }
        find_pair(at / size, &row, &col);
        row = row * AGOP_TILE + at % size / AGOP_TILE;
        col = col * AGOP_TILE + at % AGOP_TILE;
        if (row < a.features && col <= row) {
            const REAL value = sum_of(&a, at, all);
            put(&a, row * a.row_stride + col * a.col_stride, value);
            if (row != col)
                put(&a, col * a.row_stride + row * a.col_stride, value);
        }
    }
}
