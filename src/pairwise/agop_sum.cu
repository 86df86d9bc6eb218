/*
 * agop_sum.cu - out = or += scale times the sum of the parts, both triangles alike
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "agop_params.h"

#include "agop_pair.cuh"
#include "batch.cuh"

static __device__ REAL sum_of(const struct agop_params *a, const REAL *part, long long all)
{
    double sum = 0;

    for (long long chunk = 0; chunk < a->chunks; chunk++, part += all)
        sum += (double)*part;
    return (REAL)(sum * a->scale);
}

static __device__ void put(const struct agop_params *a, REAL *to, REAL value)
{
    *to = a->add ? *to + value : value;
}

extern "C" __global__ void __launch_bounds__(256)
    agop_sum(const __grid_constant__ struct agop_params a)
{
    const long long size = a.side * a.side, step = (long long)gridDim.x * blockDim.x;
    const long long all = a.diagonal ? a.features : a.pairs * size;

    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < a.items * all;
         e += step) {
        const long long item = e / all, at = e - item * all;
        const REAL *part = (const REAL *)a.parts + item * a.chunks * all + at;
        REAL *out = (REAL *)a.out + batch_offset(a.shape, a.ndim, a.batch_stride, item);
        long long row, col;

        if (a.diagonal) {
            put(&a, out + at * a.col_stride, sum_of(&a, part, all));
            continue;
        }
        find_pair(at / size, &row, &col);
        row = row * AGOP_TILE + at % size / a.side;
        col = col * AGOP_TILE + at % a.side;
        if (row < a.features && col <= row) {
            const REAL value = sum_of(&a, part, all);
            put(&a, out + row * a.row_stride + col * a.col_stride, value);
            if (row != col)
                put(&a, out + col * a.row_stride + row * a.col_stride, value);
        }
    }
}
