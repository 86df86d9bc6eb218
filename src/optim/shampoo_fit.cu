/*
 * shampoo_fit.cu - does a root that was taken earlier still fit its factor? (options.skip)
 *
 * shampoo_largest: about the largest eigenvalue of a factor, from below, by power iteration.
 * shampoo_shift: shifted = factor + ridge I.
 * shampoo_fits: is what products have made of it near I?
 *
 * A block of threads has an item, of shampoo_shift a part of all.  Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_params.h"

#define THREADS OPTIMIZER_THREADS
#define WARP    32
#define STEPS   32

#include "block_sum.cuh"

typedef struct shampoo_fit fit;

/* The norm of x, to all threads. */
static __device__ double norm_of(const REAL *x, long long n, double *sums)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < n; i += THREADS)
        mine += (double)x[i] * (double)x[i];
    __syncthreads();
    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    return sqrt(sums[0]);
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_largest(const __grid_constant__ fit f)
{
    __shared__ double sums[THREADS];
    const long long n = f.n, item = blockIdx.x;
    const REAL *a = (const REAL *)f.factor + item * n * n;
    REAL *x = (REAL *)f.vectors + 2 * item * n, *y = x + n;
    double norm;

    for (long long i = threadIdx.x; i < n; i += THREADS) /* numbers without a pattern */
        x[i] = (REAL)(((unsigned)i * 2654435761u >> 8) + 1) / (REAL)(1 << 24);
    __syncthreads();
    norm = norm_of(x, n, sums);
    for (int step = 0; step < STEPS && norm > 0 && norm - norm == 0; step++) {
        REAL *other = x;
        for (long long i = threadIdx.x / WARP; i < n; i += THREADS / WARP) {
            REAL sum = 0;
            for (long long j = threadIdx.x % WARP; j < n; j += WARP)
                sum += a[i * n + j] * x[j];
            for (int lane = WARP / 2; lane > 0; lane /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, lane);
            if (threadIdx.x % WARP == 0)
                y[i] = sum / (REAL)norm;
        }
        __syncthreads();
        norm = norm_of(y, n, sums);
        x = y;
        y = other;
    }
    if (threadIdx.x == 0)
        f.largest[item] = norm;
}

/* As optimizer_power.h has it. */
static __device__ double ridge_of(const fit &f, double largest)
{
    const double ridge = fmax(f.relative ? f.epsilon * largest : f.epsilon, f.least * largest);

    return ridge > 0 ? ridge : 1;
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_shift(const __grid_constant__ fit f)
{
    const long long square = f.n * f.n, step = (long long)gridDim.x * THREADS;
    const REAL *from = (const REAL *)f.factor;
    REAL *to = (REAL *)f.matrix;

    for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < f.items * square;
         i += step) {
        REAL v = from[i];
        if (i % square % (f.n + 1) == 0)
            v += (REAL)ridge_of(f, f.largest[i / square]);
        to[i] = v;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_fits(const __grid_constant__ fit f)
{
    __shared__ double sums[THREADS];
    const long long square = f.n * f.n, item = blockIdx.x;
    const REAL *a = (const REAL *)f.matrix + item * square;
    double mine = 0;

    for (long long i = threadIdx.x; i < square; i += THREADS) {
        const double v = (double)(a[i] - (i % (f.n + 1) == 0 ? (REAL)1 : (REAL)0));
        mine += v * v;
    }
    block_sum(sums, (int)threadIdx.x, mine);
    if (threadIdx.x == 0)
        f.kept[item] = sqrt(sums[0]) <= f.skip * sqrt((double)f.n);
}
