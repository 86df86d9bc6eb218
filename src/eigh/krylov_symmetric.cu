/*
 * krylov_symmetric.cu - products of a stored symmetric matrix with a few vectors
 *
 * krylov_product: a block has KRYLOV_ROWS rows of the product and a share of the sum, so that there
 * are blocks enough for small n; krylov_sum adds the shares up in their order, and the result
 * depends on nothing but the numbers.  Where the sum is above the diagonal the matrix is read
 * transposed: each element of the triangle is read twice.
 *
 * Tiles of the matrix lie in shared memory by columns, rows turned within groups of 8 columns by 4
 * places each, so that neither writes of 8 columns by 4 rows nor reads of 4 rows meet in a bank.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov_params.h"

#define COLUMNS KRYLOV_COLUMNS
#define A_STEPS (KRYLOV_ROWS * KRYLOV_DEPTH / KRYLOV_PRODUCT)
#define X_STEPS (KRYLOV_DEPTH * COLUMNS / KRYLOV_PRODUCT)

/* What a thread has on its way to shared memory. */
struct staged {
    REAL a[A_STEPS], x[X_STEPS];
};

/* Row and column, in a tile, of what a thread moves first, and how far apart its later ones are. */
struct walk {
    int r, k, dr, dk;
};

static __device__ struct walk walk_of(bool by_columns)
{
    const int lane = threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    if (by_columns) /* 32 bytes of f32 of 4 rows */
        return {lane / 8, warp * 8 + lane % 8, 4, 0};
    return {warp % 2 * 32 + lane, warp / 2, 0, 2};
}

/* Whether a tile's columns are neighbours in memory.  Those above the diagonal are read transposed.
 */
static __device__ bool by_columns(const struct krylov_product_params &p, long long row,
                                  long long column)
{
    return (llabs(p.col_stride) <= llabs(p.row_stride)) == (column <= row);
}

static __device__ void load(const struct krylov_product_params &p, long long row, long long column,
                            long long end, struct staged *s)
{
    const REAL *a = (const REAL *)p.a, *x = (const REAL *)p.x;
    const struct walk w = walk_of(by_columns(p, row, column));
    const long long r0 = row + w.r, k0 = column + w.k;

    if (row < column + KRYLOV_DEPTH && column < row + KRYLOV_ROWS) { /* on the diagonal */
#pragma unroll
        for (int step = 0; step < A_STEPS; step++) {
            const long long r = r0 + step * w.dr, k = k0 + step * w.dk;
            const long long high = r < k ? k : r, low = r < k ? r : k;
            s->a[step] = r < p.n && k < end ? a[high * p.row_stride + low * p.col_stride] : (REAL)0;
        }
    } else {
        const bool below = column <= row;
        const long long by_r = below ? p.row_stride : p.col_stride;
        const long long by_k = below ? p.col_stride : p.row_stride;
        const long long apart = w.dr * by_r + w.dk * by_k;
        const REAL *at = a + r0 * by_r + k0 * by_k;
#pragma unroll
        for (int step = 0; step < A_STEPS; step++, at += apart)
            s->a[step] = r0 + step * w.dr < p.n && k0 + step * w.dk < end ? *at : (REAL)0;
    }
#pragma unroll
    for (int step = 0; step < X_STEPS; step++) {
        int at = step * KRYLOV_PRODUCT + (int)threadIdx.x;
        long long k = column + at % KRYLOV_DEPTH, c = at / KRYLOV_DEPTH;
        s->x[step] = k < end && c < p.columns ? x[c * p.n + k] * (REAL)p.scale : (REAL)0;
    }
}

/* Where row r (a multiple of 4) of column k of a tile begins. */
static __device__ int turned(int r, int k)
{
    return r ^ (k & 7) * 4;
}

extern "C" __global__ void __launch_bounds__(KRYLOV_PRODUCT, KRYLOV_BLOCKS)
    krylov_product(const __grid_constant__ struct krylov_product_params p)
{
    __shared__ __align__(16) REAL a[KRYLOV_DEPTH][KRYLOV_ROWS];
    __shared__ __align__(16) REAL x[KRYLOV_DEPTH][COLUMNS + 1];
    const long long row = blockIdx.x / p.parts * KRYLOV_ROWS, part = blockIdx.x % p.parts;
    const long long first = part * p.chunk, end = first + p.chunk < p.n ? first + p.chunk : p.n;
    const int r4 = (int)threadIdx.x / COLUMNS * 4, c = (int)threadIdx.x % COLUMNS; /* of a thread */
    REAL sum[4] = {};
    struct staged s;

    load(p, row, first, end, &s);
    for (long long column = first; column < end; column += KRYLOV_DEPTH) {
        const struct walk w = walk_of(by_columns(p, row, column));
#pragma unroll
        for (int step = 0; step < A_STEPS; step++) {
            const int r = w.r + step * w.dr, k = w.k + step * w.dk;
            a[k][turned(r & ~3, k) + (r & 3)] = s.a[step];
        }
#pragma unroll
        for (int step = 0; step < X_STEPS; step++) {
            int at = step * KRYLOV_PRODUCT + (int)threadIdx.x;
            x[at % KRYLOV_DEPTH][at / KRYLOV_DEPTH] = s.x[step];
        }
        __syncthreads();
        if (column + KRYLOV_DEPTH < end)
            load(p, row, column + KRYLOV_DEPTH, end, &s);
#pragma unroll 8
        for (int k = 0; k < KRYLOV_DEPTH; k++) {
            const REAL *four = &a[k][turned(r4, k)];
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[i] += four[i] * x[k][c];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        if (row + r4 + i < p.n)
            ((REAL *)p.sums)[(part * COLUMNS + c) * p.n + row + r4 + i] = sum[i];
}

extern "C" __global__ void __launch_bounds__(KRYLOV_THREADS)
    krylov_sum(const __grid_constant__ struct krylov_product_params p)
{
    const long long count = p.n * p.columns, step = (long long)gridDim.x * KRYLOV_THREADS;

    for (long long e = (long long)blockIdx.x * KRYLOV_THREADS + threadIdx.x; e < count; e += step) {
        REAL sum = 0;
        for (long long part = 0; part < p.parts; part++)
            sum += ((const REAL *)p.sums)[part * COLUMNS * p.n + e];
        ((REAL *)p.y)[e] = sum * (REAL)p.scale;
    }
}
