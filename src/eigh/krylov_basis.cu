/*
 * krylov_basis.cu - what the Krylov solver does to blocks of vectors, beside cuBLAS
 *
 * krylov_whiten: what makes a block orthonormal, from its Gram matrix, by a Cholesky factorisation
 * that passes over directions that are missing.
 *
 * krylov_combine: does so, with random numbers where a direction is missing.
 *
 * krylov_residual: v . A v and |A v - v (v . A v)| of columns.
 *
 * krylov_blend: a sum of three blocks.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov_params.h"

#define COLUMNS KRYLOV_COLUMNS
#define THREADS KRYLOV_SUM
#define NAN_OF  ((REAL)__longlong_as_double(0x7FF8000000000000ll))
#include "block_sum.cuh"

/* ---- Whitening ------------------------------------------------------------------------------- */

/* What the threads of krylov_whiten share: G at length 1, L, and R with R^T G R = I. */
struct whitening {
    double g[COLUMNS][COLUMNS + 1], l[COLUMNS][COLUMNS + 1], r[COLUMNS][COLUMNS + 1];
    double scale[COLUMNS];
    int lacks[COLUMNS];
};

/* Column j of L and of R, of which thread i has row i; gives the pivot. */
static __device__ double next_column(struct whitening *s, int i, int j, int b, double limit)
{
    double pivot = s->g[j][j], mine = 0, below = 0;

    for (int k = 0; k < j; k++)
        pivot -= s->l[j][k] * s->l[j][k];
    const bool lacks = !(pivot > limit);
    if (i < b && !lacks) {
        mine = i == j;
        below = s->g[i][j];
        for (int k = 0; k < j; k++) {
            mine -= s->l[j][k] * s->r[i][k];
            below -= s->l[i][k] * s->l[j][k];
        }
        mine /= sqrt(pivot);
        below /= sqrt(pivot);
    }
    __syncwarp();
    if (i < b) {
        s->l[i][j] = below;
        s->r[i][j] = mine;
        s->lacks[j] = lacks;
    }
    __syncwarp();
    return pivot;
}

extern "C" __global__ void __launch_bounds__(KRYLOV_WARP)
    krylov_whiten(const __grid_constant__ struct krylov_whiten_params p)
{
    __shared__ struct whitening s;
    const int b = (int)p.columns, i = threadIdx.x;
    const REAL *gram = (const REAL *)p.gram;
    double least = 1;
    int missing = 0;
    bool finite = true;

    if (i < b) {
        double length = (double)gram[i * b + i], scale = length > 0 ? 1 / sqrt(length) : 0;
        s.scale[i] = isfinite(scale) ? scale : 0;
    }
    __syncwarp();
    for (int j = 0; j < b; j++) {
        double length = (double)gram[j * b + j];
        finite = finite && isfinite(length);
        least = length < least ? length : least;
        if (i < b)
            s.g[i][j] = (double)gram[j * b + i] * s.scale[i] * s.scale[j];
    }
    __syncwarp();
    for (int j = 0; j < b; j++) {
        double pivot = next_column(&s, i, j, b, p.limit);
        least = pivot < least ? pivot : least;
        missing += s.lacks[j];
    }
    if (i < b)
        for (int j = 0; j < b; j++)
            ((REAL *)p.mix)[j * b + i] = (REAL)(finite ? s.scale[i] * s.r[i][j] : 0);
    if (i < b)
        p.found->lacks[i] = s.lacks[i];
    if (i == 0) {
        p.found->least = least;
        p.found->missing = finite ? missing : -1;
    }
}

/* ---- Combining ------------------------------------------------------------------------------- */

/* 64 bits that look random: the mixing function of SplitMix64 (Steele, Lea and Flood, 2014). */
static __device__ unsigned long long mixed(unsigned long long x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

/* A normal number by the method of Box and Muller (1958). */
static __device__ double normal(unsigned long long key, long long at)
{
    const unsigned long long one =
        mixed(key + (unsigned long long)(2 * at + 1) * 0x9E3779B97F4A7C15ull);
    const unsigned long long two =
        mixed(key + (unsigned long long)(2 * at + 2) * 0x9E3779B97F4A7C15ull);
    const double u = (double)((one >> 11) + 1) * 0x1p-53, v = (double)(two >> 11) * 0x1p-53;

    return sqrt(-2 * log(u)) * cospi(2 * v);
}

extern "C" __global__ void __launch_bounds__(KRYLOV_THREADS)
    krylov_combine(const __grid_constant__ struct krylov_combine_params p)
{
    __shared__ REAL mix[COLUMNS][COLUMNS];
    __shared__ int lacks[COLUMNS];
    const int b = (int)p.columns, thread = threadIdx.x;
    const long long step = (long long)gridDim.x * KRYLOV_THREADS;
    REAL *w = (REAL *)p.w, *other = (REAL *)p.other;

    if (thread < COLUMNS * COLUMNS) {
        int i = thread % COLUMNS, j = thread / COLUMNS;
        mix[j][i] = p.mix && i < b && j < b ? ((const REAL *)p.mix)[j * b + i] : (REAL)0;
    }
    if (thread < COLUMNS)
        lacks[thread] = thread < b && (!p.found || p.found->lacks[thread]);
    __syncthreads();
    for (long long row = (long long)blockIdx.x * KRYLOV_THREADS + thread; row < p.n; row += step) {
        REAL in[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            in[i] = p.mix && i < b ? w[i * p.n + row] : (REAL)0;
        for (int j = 0; j < b; j++) {
            REAL sum = 0;
#pragma unroll
            for (int i = 0; i < COLUMNS; i++)
                sum += in[i] * mix[j][i];
            if (lacks[j])
                sum = (REAL)normal(p.key, row * b + j);
            w[j * p.n + row] = sum;
            if (other)
                other[j * p.n + row] = sum;
        }
    }
}

/* ---- Residuals ------------------------------------------------------------------------------- */

/* What all threads have, to all of them. */
static __device__ double total(double mine)
{
    __shared__ double sums[THREADS];

    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    mine = sums[0];
    __syncthreads();
    return mine;
}

extern "C" __global__ void __launch_bounds__(KRYLOV_SUM)
    krylov_residual(const __grid_constant__ struct krylov_residual_params p)
{
    const REAL *v = (const REAL *)p.v + blockIdx.x * p.n, *w = (const REAL *)p.w + blockIdx.x * p.n;
    double value = 0, length = 0, sum = 0;

    for (long long i = threadIdx.x; i < p.n; i += THREADS) {
        value += (double)v[i] * (double)w[i];
        length += (double)v[i] * (double)v[i];
    }
    length = total(length);
    value = total(value) / length;
    for (long long i = threadIdx.x; i < p.n; i += THREADS) {
        double r = (double)w[i] - value * (double)v[i];
        sum += r * r;
    }
    sum = total(sum);
    if (threadIdx.x == 0) {
        p.values[blockIdx.x] = value;
        p.residuals[blockIdx.x] = sqrt(sum / length);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

extern "C" __global__ void __launch_bounds__(KRYLOV_THREADS)
    krylov_blend(const __grid_constant__ struct krylov_blend_params p)
{
    const long long step = (long long)gridDim.x * KRYLOV_THREADS;
    const REAL by[3] = {(REAL)p.by[0], (REAL)p.by[1], (REAL)p.by[2]};

    for (long long i = (long long)blockIdx.x * KRYLOV_THREADS + threadIdx.x; i < p.count;
         i += step) {
        REAL sum = 0;
#pragma unroll
        for (int term = 0; term < 3; term++)
            if (p.by[term] != 0)
                sum += by[term] * ((const REAL *)p.in[term])[i];
        ((REAL *)p.out)[i] = sum;
    }
}

