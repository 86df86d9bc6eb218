/*
 * krr_cg.cu - conjugate gradients and their preconditioner
 *
 * cg_step is one step, a block for each column, with sums in double:
 *   CG_START     x = 0; r = b; norm_b = norm_r = |b|
 *   CG_RESIDUAL  r = b - (product + ridge x); norm_r = |r|
 *   CG_RESTART   d = 0; rz = 0
 *   CG_DESCEND   q = product + ridge d; curvature = d . q; s = rz / curvature; x += s d; r -= s q;
 *                norm_r = |r|
 *   CG_TURN      d = z + ((r . z) / rz) d; rz = r . z
 * The step is chosen as it runs, so that one kernel is compiled in place of five: what a column
 * does is short compared with the launch.  Column j of r, z, d and product is column which[j] of b,
 * of x and of the numbers: columns that have converged take no part.
 *
 * cg_precondition is z = (r - keep C^T w) / lambda, C rank by n and w rank by columns.
 *
 * cg_whiten is a step of the pivoted Cholesky factorisation: X = C R^-T in the place of C, and
 * diagonal[i] -= |X[i]|^2, which does not go below 0.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_params.h"

#define THREADS CG_STEP_THREADS
#include "block_sum.cuh"

/* One column: its pointers, and the thread's part of it. */
struct column {
    long long n, first;
    const REAL *b;
    REAL *x, *r, *z, *d;
    const double *product, *ridge;
};

#define EACH(i) for (long long i = threadIdx.x; i < c.n; i += THREADS)

/* The sum of what all threads have, for all of them. */
static __device__ double total(double mine)
{
    __shared__ double sums[THREADS];
    double sum;

    block_sum(sums, threadIdx.x, mine);
    __syncthreads();
    sum = sums[0];
    __syncthreads();
    return sum;
}

static __device__ double norm(const struct column &c)
{
    double sum = 0;

    EACH(i)
    sum += (double)c.r[i] * (double)c.r[i];
    return sqrt(total(sum));
}

static __device__ double start(const struct column &c)
{
    EACH(i)
    {
        c.x[i] = 0;
        c.r[i] = c.b[i];
    }
    return norm(c);
}

static __device__ double residual(const struct column &c)
{
    EACH(i)
    c.r[i] = (REAL)((double)c.b[i] - (c.product[i] + c.ridge[i] * (double)c.x[i]));
    return norm(c);
}

/* The curvature is left in *curvature, which the threads share. */
static __device__ double descend(const struct column &c, double rz, double *curvature)
{
    double sum = 0, s;

    EACH(i)
    sum += (double)c.d[i] * (c.product[i] + c.ridge[i] * (double)c.d[i]);
    sum = total(sum);
    s = sum > 0 ? rz / sum : 0; /* 0: this column is solved */
    if (threadIdx.x == 0)
        *curvature = sum;
    EACH(i)
    {
        const double d = (double)c.d[i];

        c.x[i] = (REAL)((double)c.x[i] + s * d);
        c.r[i] = (REAL)((double)c.r[i] - s * (c.product[i] + c.ridge[i] * d));
    }
    return norm(c);
}

static __device__ double turn(const struct column &c, double rz)
{
    double sum = 0, beta;

    EACH(i)
    sum += (double)c.r[i] * (double)c.z[i];
    sum = total(sum);
    beta = rz > 0 ? sum / rz : 0;
    EACH(i)
    c.d[i] = (REAL)((double)c.z[i] + beta * (double)c.d[i]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cg_step(const __grid_constant__ struct cg_params a)
{
    __shared__ double curvature;

    for (long long place = blockIdx.x; place < a.columns; place += gridDim.x) {
        const long long at = place * a.n, before = a.which[place];
        const struct column c = {a.n,
                                 threadIdx.x,
                                 (const REAL *)a.b + before * a.n,
                                 (REAL *)a.x + before * a.n,
                                 (REAL *)a.r + at,
                                 (REAL *)a.z + at,
                                 (REAL *)a.d + at,
                                 a.product + at,
                                 a.ridge};
        double norm_r = 0, rz = 0;

        if (a.step == CG_START)
            norm_r = start(c);
        else if (a.step == CG_RESIDUAL)
            norm_r = residual(c);
        else if (a.step == CG_DESCEND)
            norm_r = descend(c, a.rz[before], &curvature);
        else if (a.step == CG_TURN)
            rz = turn(c, a.rz[before]);
        else
            EACH(i)
        c.d[i] = 0;
        if (threadIdx.x != 0)
            continue;
        /* It is read again, since no register is left to keep it. */
        const long long j = a.which[place];

        if (a.step == CG_START)
            a.norm_b[j] = norm_r;
        if (a.step == CG_DESCEND)
            a.curvature[j] = curvature;
        if (a.step == CG_TURN || a.step == CG_RESTART)
            a.rz[j] = rz;
        else
            a.norm_r[j] = norm_r;
    }
}

/* A thread computes CG_TILE columns of one row: C is read once for them, and neighbouring threads
 * read neighbouring words. */
extern "C" __global__ void __launch_bounds__(CG_THREADS)
    cg_precondition(const __grid_constant__ struct cg_precondition_params a)
{
    const REAL *rows = (const REAL *)a.rows, *r = (const REAL *)a.r;
    REAL *z = (REAL *)a.z;
    const long long step = (long long)gridDim.x * CG_THREADS;

    for (long long i = (long long)blockIdx.x * CG_THREADS + threadIdx.x; i < a.n; i += step)
        for (long long j = 0; j < a.columns; j += CG_TILE) {
            const int tile = a.columns - j < CG_TILE ? (int)(a.columns - j) : CG_TILE;
            double sum[CG_TILE] = {};

#pragma unroll 8
            for (long long k = 0; k < a.rank; k++) {
                const double c = (double)rows[k * a.n + i];
#pragma unroll
                for (int t = 0; t < CG_TILE; t++)
                    sum[t] += t < tile ? c * a.weight[(j + t) * a.rank + k] : 0;
            }
#pragma unroll
            for (int t = 0; t < CG_TILE; t++)
                if (t < tile) {
                    const long long at = (j + t) * a.n + i;
                    z[at] = (REAL)(((double)r[at] - a.keep * sum[t]) / a.lambda);
                }
        }
}

/* A thread solves for one row of X after the other, forwards; neighbouring threads read
 * neighbouring words.  Sums are in double, of the rounded elements of X, which are what is used. */
extern "C" __global__ void __launch_bounds__(CG_THREADS)
    cg_whiten(const __grid_constant__ struct cg_whiten_params a)
{
    REAL *columns = (REAL *)a.columns;
    const long long step = (long long)gridDim.x * CG_THREADS;

    for (long long i = (long long)blockIdx.x * CG_THREADS + threadIdx.x; i < a.n; i += step) {
        double left = a.diagonal[i];

        for (long long j = 0; j < a.count; j++) {
            const REAL *known = columns + i;
            const double *lower = a.lower + j;
            double sum = (double)columns[j * a.n + i];

#pragma unroll 2
            for (long long k = 0; k < j; k++, known += a.n, lower += a.count)
                sum -= *lower * (double)*known;
            sum = (double)(REAL)(sum / *lower);
            columns[j * a.n + i] = (REAL)sum;
            left -= sum * sum;
        }
        a.diagonal[i] = left > 0 ? left : 0;
    }
}
