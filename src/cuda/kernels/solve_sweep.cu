/*
 * solve_sweep.cu - triangular systems of a batch in one launch
 *
 * T X = B in place.  A block takes some rows of one item, subtracts what the rows
 * before them contribute as soon as these are solved for, solves for its own, and tells how far the
 * item is.  Meanwhile it inverts its part of the diagonal.  Blocks are numbered as they begin, so
 * whom a block waits for has begun.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_extra_params.h"

#define ROWS    SOLVE_SWEEP_ROWS((int)sizeof(REAL))
#define COLUMNS SOLVE_WIDTH
#define MINE    (COLUMNS * ROWS / SOLVE_THREADS) /* elements of a thread */
#define HALVES  (ROWS / 32)
#define WARP    0xFFFFFFFFu

typedef REAL square[ROWS][ROWS + 1]; /* by columns */

/* Right-hand sides, by rows. */
struct __align__(16) block
{
    REAL at[ROWS][COLUMNS + 16 / sizeof(REAL)];
};

struct rows {
    const REAL *factor;
    REAL *x; /* of the first column of the group */
    int *done;
    long long first; /* row */
    int columns;
};

/* Elements of the triangle: rows from row on, columns from col on; the identity beyond n. */
static __device__ void load(const struct solve_sweep_params &a, const REAL *factor, long long row,
                            long long col, square &to)
{
#pragma unroll 4
    for (int e = threadIdx.x; e < ROWS * ROWS; e += SOLVE_THREADS) {
        const int fast = e % ROWS, slow = e / ROWS;
        const int i = a.transposed ? slow : fast, k = a.transposed ? fast : slow;
        const long long r = row + i, c = col + k;
        REAL v = r == c;
        if (r < a.n && c < a.n)
            v = a.transposed ? factor[c + r * a.ld] : factor[r + c * a.ld];
        to[k][i] = v;
    }
}

/* Rows that are solved for. */
static __device__ void fetch(const struct solve_sweep_params &a, const struct rows &w,
                             long long row, struct block &to)
{
#pragma unroll
    for (int e = threadIdx.x; e < ROWS * COLUMNS; e += SOLVE_THREADS) {
        const int i = e % ROWS, c = e / ROWS;
        const bool inside = row + i < a.n && c < w.columns;
        to.at[i][c] = inside ? __ldcg(&w.x[row + i + c * a.ldx]) : (REAL)0;
    }
    __syncthreads();
}

/* The inverse of a triangle on the diagonal, whose diagonal is reciprocal: a warp takes columns, a
 * lane every 32nd row.  There is time for it while the block waits. */
static __device__ void invert(const struct solve_sweep_params &a, const square &t, square &to)
{
    const int lane = (int)threadIdx.x % 32, warps = SOLVE_THREADS / 32;

    for (int c = (int)threadIdx.x / 32; c < ROWS; c += warps) {
        REAL v[HALVES];
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            v[h] = lane + 32 * h == c;
#pragma unroll
        for (int step = 0; step < HALVES; step++) {
            const int half = a.forward ? step : HALVES - 1 - step;
#pragma unroll 8
            for (int turn = 0; turn < 32; turn++) {
                const int from = a.forward ? turn : 31 - turn, k = 32 * half + from;
                REAL found = v[0];
                if (HALVES > 1 && half > 0)
                    found = v[HALVES - 1];
                found = __shfl_sync(WARP, found, from);
                if (!a.unit)
                    found *= t[k][k];
#pragma unroll
                for (int h = 0; h < HALVES; h++) {
                    const int i = lane + 32 * h;
                    if (i == k)
                        v[h] = found;
                    else if (a.forward ? i > k : i < k)
                        v[h] -= t[k][i] * found;
                }
            }
        }
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            to[c][lane + 32 * h] = v[h];
    }
}

/* sum += a tile times x: a row of a few columns a thread. */
static __device__ void add_product(const square &tile, const struct block &x, REAL sum[MINE])
{
    const int row = (int)threadIdx.x % ROWS, col = (int)threadIdx.x / ROWS * MINE;

#pragma unroll 8
    for (int k = 0; k < ROWS; k++) {
        const REAL t = tile[k][row];
#pragma unroll
        for (int c = 0; c < MINE; c++)
            sum[c] += t * x.at[k][col + c];
    }
}

/* The rows at one place in the order of the sweep. */
static __device__ void solve(const struct solve_sweep_params &a, const struct rows &w,
                             long long place, long long places)
{
    __shared__ square tile, inverse;
    __shared__ struct block x;
    const int row = (int)threadIdx.x % ROWS, col = (int)threadIdx.x / ROWS * MINE;
    REAL sum[MINE], own[MINE];

    load(a, w.factor, w.first, w.first, tile);
#pragma unroll
    for (int c = 0; c < MINE; c++) {
        const bool inside = w.first + row < a.n && col + c < w.columns;
        own[c] = inside ? __ldcg(&w.x[w.first + row + (col + c) * a.ldx]) : (REAL)0;
        sum[c] = 0;
    }
    __syncthreads();
    if (!a.unit && threadIdx.x < ROWS)
        tile[threadIdx.x][threadIdx.x] = 1 / tile[threadIdx.x][threadIdx.x];
    __syncthreads();
    invert(a, tile, inverse);
    __syncthreads();
    for (long long before = 0; before < place; before++) {
        const long long there = (a.forward ? before : places - 1 - before) * ROWS;
        load(a, w.factor, w.first, there, tile);
        if (threadIdx.x == 0) {
            while (*(const volatile int *)w.done <= before)
                __nanosleep(20);
            __threadfence();
        }
        __syncthreads();
        fetch(a, w, there, x);
        add_product(tile, x, sum);
        __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < MINE; c++) {
        x.at[row][col + c] = own[c] - sum[c];
        sum[c] = 0;
    }
    __syncthreads();
    add_product(inverse, x, sum);
#pragma unroll
    for (int c = 0; c < MINE; c++)
        if (w.first + row < a.n && col + c < w.columns)
            w.x[w.first + row + (col + c) * a.ldx] = sum[c];
}

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS, 2)
    solve_sweep(const __grid_constant__ struct solve_sweep_params a)
{
    const long long places = (a.n + ROWS - 1) / ROWS, groups = (a.columns + COLUMNS - 1) / COLUMNS;
    __shared__ int number;

    if (threadIdx.x == 0)
        number = atomicAdd(&a.control[0], 1);
    __syncthreads();
    const long long place = number / (a.items * groups), which = number % (a.items * groups);
    const long long item = which / groups, group = which % groups;
    const long long left = a.columns - group * COLUMNS;
    int *done = a.control + SOLVE_CONTROL + which;
    const struct rows w = {
        (const REAL *)(a.factor + item * a.factor_bytes),
        (REAL *)(a.x + item * a.x_bytes) + group * COLUMNS * a.ldx,
        done,
        (a.forward ? place : places - 1 - place) * ROWS,
        left < COLUMNS ? (int)left : COLUMNS,
    };

    if (a.go[item]) {
        solve(a, w, place, places);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            if (place == places - 1) /* nobody waits any more */
                *done = 0;
            else
                atomicAdd(done, 1);
        }
    }
    if (threadIdx.x == 0 && atomicAdd(&a.control[1], 1) == (int)gridDim.x - 1)
        a.control[0] = a.control[1] = 0;
}
