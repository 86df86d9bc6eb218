/*
 * krr_combine.cu - a kernel matrix times coefficients, in double
 *
 *   out[j ld + i] = sum_k x[i][k] alpha[j][k]
 *
 * A block sums ROWS_TILE rows and as many outputs at a time, each thread every 256th term.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_params.h"

#define THREADS ROWS_THREADS
#define TILE    ROWS_TILE

/* Rows and outputs of a tile that there are. */
static __device__ int within(long long first, long long count)
{
    return count - first < TILE ? (int)(count - first) : TILE;
}

/* Adds up what the threads of the block have summed. */
static __device__ double total(double mine, double *shared)
{
    double sum;

    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    sum = shared[0];
    __syncthreads();
    return sum;
}

/* A tile of TILE rows, fewer at the end, and OUTPUTS outputs: each word of x is read once for them.
 * The loop is unrolled so that a thread has its words of x on the way at once: memory is what
 * limits it. */
template <int OUTPUTS>
static __device__ void combine(const struct rows_params &a, long long row, long long output,
                               double *shared)
{
    const REAL *x = (const REAL *)a.x + row * a.width;
    const REAL *alpha = (const REAL *)a.alpha + output * a.width;
    double *out = (double *)a.out;
    const int rows = within(row, a.rows);
    double sum[TILE][OUTPUTS] = {};

#pragma unroll 4
    for (long long k = threadIdx.x; k < a.width; k += THREADS) {
        double left[TILE], right[OUTPUTS];
#pragma unroll
        for (int i = 0; i < TILE; i++)
            left[i] = i < rows ? (double)x[i * a.width + k] : 0;
#pragma unroll
        for (int j = 0; j < OUTPUTS; j++)
            right[j] = (double)alpha[j * a.width + k];
#pragma unroll
        for (int i = 0; i < TILE; i++)
#pragma unroll
            for (int j = 0; j < OUTPUTS; j++)
                sum[i][j] += left[i] * right[j];
    }
#pragma unroll
    for (int i = 0; i < TILE; i++)
#pragma unroll
        for (int j = 0; j < OUTPUTS; j++)
            if (i < rows) {
                double all = total(sum[i][j], shared);
                if (threadIdx.x == 0)
                    out[(output + j) * a.ld + row + i] = all;
            }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rows_combine(const __grid_constant__ struct rows_params a)
{
    __shared__ double shared[THREADS];

    for (long long row = blockIdx.x * (long long)TILE; row < a.rows;
         row += gridDim.x * (long long)TILE) {
        long long output = 0;

        for (; output + TILE <= a.outputs; output += TILE)
            combine<TILE>(a, row, output, shared);
        for (; output < a.outputs; output++)
            combine<1>(a, row, output, shared);
    }
}
