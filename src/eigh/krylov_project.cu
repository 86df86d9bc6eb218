/*
 * krylov_project.cu - products of a basis, tall, with a block of vectors
 *
 * krylov_project: V^T W, a block of threads a column of V: sums over n in an order that depends on
 * n alone.
 *
 * krylov_subtract: W - V h, a block of threads 32 rows at a time, of which each warp has a share of
 * V's columns.
 *
 * V is read once, whose rows are many and whose columns are few.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov_params.h"

#define COLUMNS KRYLOV_COLUMNS
#define WARPS   (KRYLOV_THREADS / 32)
#define HALF    (KRYLOV_LONG / 2)
#define CHUNK   64 /* rows of h in shared memory */

extern "C" __global__ void __launch_bounds__(KRYLOV_LONG)
    krylov_project(const __grid_constant__ struct krylov_project_params p)
{
    __shared__ REAL sums[COLUMNS][HALF];
    const REAL *v = (const REAL *)p.v + blockIdx.x * p.n, *w = (const REAL *)p.w;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    REAL sum[COLUMNS] = {};

#pragma unroll 4
    for (long long row = thread; row < p.n; row += KRYLOV_LONG) {
        const REAL one = v[row];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (c < p.columns)
                sum[c] += one * w[c * p.n + row];
    }
#pragma unroll
    for (int c = 0; c < COLUMNS && thread >= HALF; c++)
        sums[c][thread - HALF] = sum[c];
    __syncthreads();
#pragma unroll
    for (int c = 0; c < COLUMNS && thread < HALF; c++)
        sums[c][thread] += sum[c];
    __syncthreads();
    if (warp < p.columns) {
        REAL whole = 0;
        for (int i = lane; i < HALF; i += 32)
            whole += sums[warp][i];
        for (int far = 16; far > 0; far /= 2)
            whole += __shfl_xor_sync(0xffffffffu, whole, far);
        if (lane == 0)
            ((REAL *)p.h)[warp * p.dim + blockIdx.x] = whole;
    }
}

extern "C" __global__ void __launch_bounds__(KRYLOV_THREADS)
    krylov_subtract(const __grid_constant__ struct krylov_project_params p)
{
    __shared__ REAL h[CHUNK][COLUMNS], sums[WARPS][COLUMNS][32];
    const REAL *v = (const REAL *)p.v;
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const long long step = (long long)gridDim.x * 32;

    for (long long first = (long long)blockIdx.x * 32; first < p.n; first += step) {
        const long long row = first + lane < p.n ? first + lane : p.n - 1;
        REAL sum[COLUMNS] = {};
        for (long long base = 0; base < p.dim; base += CHUNK) {
            const int count = p.dim - base < CHUNK ? (int)(p.dim - base) : CHUNK;
            __syncthreads();
            for (int i = thread; i < CHUNK * COLUMNS; i += KRYLOV_THREADS) {
                const int j = i % CHUNK, c = i / CHUNK;
                h[j][c] = j < count && c < p.columns ? ((const REAL *)p.h)[c * p.dim + base + j]
                                                     : (REAL)0;
            }
            __syncthreads();
#pragma unroll 8
            for (int j = warp; j < count; j += WARPS) {
                const REAL one = v[(base + j) * p.n + row];
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
                    sum[c] += one * h[j][c];
            }
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            sums[warp][c][lane] = sum[c];
        __syncthreads();
        if (warp < p.columns && first + lane < p.n) { /* a column each */
            REAL whole = 0;
            for (int i = 0; i < WARPS; i++)
                whole += sums[i][warp][lane];
            ((REAL *)p.w)[warp * p.n + row] -= whole;
        }
    }
}
