/*
 * soap_qr.cu - Householder's reflections of a panel of columns, and their triangle
 *
 * soap_panel: columns column .. column + width of a, reflected one after the other; H_j = I - tau v
 * v^T with v zero above row j and 1 there; H_1 H_2 ... = I - V T V^T.  A block of threads has an
 * item, a warp a column at a time.  As in LAPACK a column that is zero below its diagonal stays.
 * soap_identity: a = I.
 *
 * Matrices are column-major.  Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_params.h"

#define THREADS SOAP_PANEL_THREADS
#define PANEL   SOAP_PANEL
#define WARP    32

#include "block_sum.cuh"

static __device__ REAL dot(const REAL *x, const REAL *y, long long first, long long n)
{
    REAL sum = 0;

#pragma unroll 8
    for (long long i = first + threadIdx.x % WARP; i < n; i += WARP)
        sum += x[i] * y[i];
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    return sum;
}

/* y -= by x in rows from first on; they lie apart, and several numbers are on their way at a time.
 */
static __device__ void subtract(REAL by, const REAL *__restrict__ x, REAL *__restrict__ y,
                                long long first, long long n)
{
#pragma unroll 8
    for (long long i = first + threadIdx.x % WARP; i < n; i += WARP)
        y[i] -= by * x[i];
}

/* tau of column x's reflector, which goes to v; every thread has it. */
static __device__ REAL reflector(const struct soap_panel &p, const REAL *x, long long j, REAL *v,
                                 double *sums)
{
    const double alpha = (double)x[j];
    double mine = 0;

    for (long long i = j + 1 + threadIdx.x; i < p.n; i += THREADS)
        mine += (double)x[i] * (double)x[i];
    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    const double rest = sums[0], norm = sqrt(alpha * alpha + rest);
    const double beta = alpha < 0 ? norm : -norm;
    const REAL by = rest > 0 ? (REAL)(1 / (alpha - beta)) : (REAL)0;
    for (long long i = threadIdx.x; i < p.n; i += THREADS)
        v[i] = i < j ? (REAL)0 : i == j ? (REAL)1 : x[i] * by;
    __syncthreads();
    return rest > 0 ? (REAL)((beta - alpha) / beta) : (REAL)0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    soap_panel(const __grid_constant__ struct soap_panel p)
{
    __shared__ double sums[THREADS];
    __shared__ REAL t[PANEL][PANEL], dots[PANEL]; /* t[column][row] */
    const long long item = blockIdx.x, at = (item * p.n + p.column) * p.n;
    const int thread = (int)threadIdx.x, width = (int)p.width;
    REAL *a = (REAL *)p.a + at, *v = (REAL *)p.reflectors + at;
    REAL *triangle = (REAL *)p.triangles + item * p.triangle + p.column * PANEL;

    for (int i = thread; i < PANEL * PANEL; i += THREADS)
        t[i / PANEL][i % PANEL] = 0;
    for (int c = 0; c < width; c++) {
        const long long j = p.column + c;
        const REAL tau = reflector(p, a + c * p.n, j, v + c * p.n, sums);
        const REAL *mine = v + c * p.n;
        for (int w = thread / WARP; w < width; w += THREADS / WARP) {
            REAL *y = a + w * p.n;
            const REAL sum = w == c ? (REAL)0 : dot(mine, w > c ? y : v + w * p.n, j, p.n);
            if (w < c && thread % WARP == 0)
                dots[w] = sum;
            if (w > c)
                subtract(tau * sum, mine, y, j, p.n);
        }
        __syncthreads();
        if (thread < c) {
            REAL sum = 0;
            for (int l = thread; l < c; l++)
                sum += t[l][thread] * dots[l];
            t[c][thread] = -tau * sum;
        }
        if (thread == c)
            t[c][c] = tau;
        __syncthreads();
    }
    for (int i = thread; i < PANEL * PANEL; i += THREADS)
        triangle[i] = t[i / PANEL][i % PANEL];
}

extern "C" __global__ void __launch_bounds__(OPTIMIZER_THREADS)
    soap_identity(const __grid_constant__ struct soap_panel p)
{
    const long long square = p.n * p.n, step = (long long)gridDim.x * OPTIMIZER_THREADS;
    REAL *a = (REAL *)p.a;

    for (long long i = blockIdx.x * (long long)OPTIMIZER_THREADS + threadIdx.x;
         i < p.count * square; i += step)
        a[i] = i % square % (p.n + 1) == 0 ? (REAL)1 : (REAL)0;
}
