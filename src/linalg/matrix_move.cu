/*
 * matrix_move.cu - to = alpha from + beta c for matrices of any strides, item by item
 *
 * Where alpha is 0 nothing of from is read, where beta is 0 nothing of c.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matmul_params.h"

#include "device_view.cuh"

#define THREADS MOVE_THREADS

typedef struct move_params params;

static __device__ REAL *start(const params &a, const struct move_side &s, long long item)
{
    return (REAL *)s.side.data +
           (s.dense ? item * s.dense
                    : batch_offset(a.shape, a.ndim, s.side.batch_stride, a.begin + item));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_move(const __grid_constant__ params a)
{
    const bool by_rows = llabs(a.to.side.col_stride) <= llabs(a.to.side.row_stride);
    const long long fast = by_rows ? a.cols : a.rows, size = a.rows * a.cols;
    const long long blocks = (size + THREADS - 1) / THREADS;

    for (long long block = blockIdx.x; block < blocks * a.count; block += gridDim.x) {
        const long long item = block / blocks;
        const long long e = (block - item * blocks) * THREADS + threadIdx.x;
        if (e >= size)
            continue;
        const long long i = by_rows ? e / fast : e % fast, j = by_rows ? e % fast : e / fast;
        const REAL alpha = (REAL)number_at(a.shape, a.ndim, a.alpha, a.begin + item);
        const REAL beta = (REAL)number_at(a.shape, a.ndim, a.beta, a.begin + item);
        REAL value = 0;
        if (a.from.side.data && alpha != 0)
            value = alpha * start(a, a.from, item)[i * a.from.side.row_stride +
                                                   j * a.from.side.col_stride];
        if (a.c.side.data && beta != 0)
            value += beta * start(a, a.c, item)[i * a.c.side.row_stride + j * a.c.side.col_stride];
        start(a, a.to, item)[i * a.to.side.row_stride + j * a.to.side.col_stride] = value;
    }
}
