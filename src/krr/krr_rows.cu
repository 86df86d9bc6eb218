/*
 * krr_rows.cu - what kernel ridge regression does to rows beside the operations of gram.h
 *
 *   rows_map       out = x W with W full or diagonal, sums in double
 *   rows_gather    out[i] = x[index[i]]
 *   rows_diagonal  out[i][i] += w[i]
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_params.h"

#define THREADS ROWS_THREADS

/* The elements that this thread computes: first, and from one to the next. */
#define FIRST (blockIdx.x * (long long)THREADS + threadIdx.x)
#define STEP  (gridDim.x * (long long)THREADS)

extern "C" __global__ void __launch_bounds__(THREADS)
    rows_map(const __grid_constant__ struct rows_params a)
{
    const REAL *x = (const REAL *)a.x;
    REAL *out = (REAL *)a.out;

    for (long long e = FIRST; e < a.rows * a.width; e += STEP) {
        long long row = e / a.width, j = e % a.width;
        double sum = 0;
        if (a.full)
            for (long long k = 0; k < a.width; k++)
                sum += (double)x[row * a.width + k] * a.w[k * a.width + j];
        else
            sum = (double)x[e] * a.w[j];
        out[e] = (REAL)sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rows_gather(const __grid_constant__ struct rows_params a)
{
    const REAL *x = (const REAL *)a.x;
    REAL *out = (REAL *)a.out;

    for (long long e = FIRST; e < a.rows * a.width; e += STEP)
        out[e] = x[a.index[e / a.width] * a.width + e % a.width];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rows_diagonal(const __grid_constant__ struct rows_params a)
{
    REAL *out = (REAL *)a.out;

    for (long long i = FIRST; i < a.rows; i += STEP)
        out[i * (a.rows + 1)] = (REAL)((double)out[i * (a.rows + 1)] + a.w[i]);
}
