/*
 * solve_sweep.cu - triangular systems of a batch in one launch
 *
 * Solves T X = B in place.  A block has ROWS rows of one item: its place in the sweep.  It
 * subtracts the contributions of the places before it as soon as these are solved for, solves for
 * its own rows, and counts its place as done.  While it waits it inverts its square on the
 * diagonal.  Blocks take their places in the order in which they begin, so that a block only ever
 * waits for blocks that have begun.
 *
 * Most of the time is lost in the step from one block to the next.  A place therefore publishes its
 * results as 64-bit words whose upper half is a tag, made of the launch and the place; the two
 * places after it spin until the tags match, and need neither a flag nor a fence.  Places further
 * behind wait for the count and read X.  Three buffers of words rotate: the place that overwrites a
 * buffer has waited for the two places that read it, so that no word is lost.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options_params.h"

#define ROWS    SOLVE_SWEEP_ROWS((int)sizeof(REAL))
#define COLUMNS SOLVE_WIDTH
#define MINE    (COLUMNS * ROWS / SOLVE_THREADS) /* elements of X that a thread has */
#define HALVES  (ROWS / 32)
#define WARP    0xFFFFFFFFu

typedef REAL square[ROWS][ROWS + 1]; /* column by column */

/* The right-hand sides of ROWS rows, row by row. */
struct __align__(16) block
{
    REAL at[ROWS][COLUMNS + 16 / sizeof(REAL)];
};

struct rows {
    const REAL *factor;
    REAL *x; /* the first column of the group */
    int *done;
    unsigned long long *words;
    unsigned launch;
    long long first; /* the first row of the place */
    int columns;
};

/* The elements of a square that a thread has. */
struct part {
    REAL at[ROWS * ROWS / SOLVE_THREADS];
};

/* Reads the square of the triangle that begins at row and col.  The identity stands for elements
 * beyond n, and for those on the other side of the diagonal, which may never have been written. */
static __device__ void read(const struct solve_sweep_params &a, const REAL *factor, long long row,
                            long long col, struct part &to)
{
    const int fast = (int)threadIdx.x % ROWS, apart = SOLVE_THREADS / ROWS;
    const long long f = (a.transposed ? col : row) + fast;
    const long long s = (a.transposed ? row : col) + (int)threadIdx.x / ROWS;
    const bool below = (a.forward != 0) != (a.transposed != 0); /* f >= s in the triangle */
    const REAL *from = factor + f + s * a.ld;

#pragma unroll
    for (int e = 0; e < ROWS / apart; e++) {
        const long long slow = s + e * apart;
        REAL v = f == slow;
        if (f < a.n && slow < a.n && (below ? f >= slow : f <= slow))
            v = from[e * apart * a.ld];
        to.at[e] = v;
    }
}

static __device__ void put(const struct solve_sweep_params &a, const struct part &from, square &to)
{
    const int fast = (int)threadIdx.x % ROWS, apart = SOLVE_THREADS / ROWS;

#pragma unroll
    for (int e = 0; e < ROWS / apart; e++) {
        const int slow = e * apart + (int)threadIdx.x / ROWS;
        to[a.transposed ? fast : slow][a.transposed ? slow : fast] = from.at[e];
    }
}

/* Reads ROWS rows of X, from `row` on, that are solved for. */
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

/* ---- From one place to the next -------------------------------------------------------------- */

static __device__ unsigned long long *words_of(const struct rows &w, long long place)
{
    return w.words + place % 3 * (SOLVE_SWEEP_WORDS / 3);
}

static __device__ unsigned tag_of(const struct rows &w, long long place)
{
    return w.launch << 2 | ((unsigned)place & 3);
}

/* Publishes element e of a place: as one word, or as two, which have the halves of a double. */
static __device__ void give(const struct rows &w, long long place, int e, REAL value)
{
    volatile unsigned long long *words = words_of(w, place) + e;
    const unsigned long long tag = (unsigned long long)tag_of(w, place) << 32;

    if (sizeof(REAL) == 4) {
        words[0] = tag | __float_as_uint((float)value);
    } else {
        const unsigned long long bits = (unsigned long long)__double_as_longlong((double)value);
        words[0] = tag | (bits & 0xFFFFFFFF);
        words[ROWS * COLUMNS] = tag | bits >> 32;
    }
}

/* Waits for the words of a place and reads them.  A thread asks for all of its words at once. */
static __device__ void take(const struct rows &w, long long place, struct block &to)
{
    const volatile unsigned long long *words = words_of(w, place) + threadIdx.x;
    const unsigned tag = tag_of(w, place);
    const int halves = (int)sizeof(REAL) / 4;
    unsigned long long v[MINE][2];
    bool waits;

    do {
        waits = false;
#pragma unroll
        for (int e = 0; e < MINE; e++)
#pragma unroll
            for (int h = 0; h < halves; h++)
                if (e * SOLVE_THREADS < w.columns * ROWS)
                    v[e][h] = words[e * SOLVE_THREADS + h * ROWS * COLUMNS];
#pragma unroll
        for (int e = 0; e < MINE; e++)
#pragma unroll
            for (int h = 0; h < halves; h++)
                waits |=
                    e * SOLVE_THREADS + (int)threadIdx.x < w.columns * ROWS && v[e][h] >> 32 != tag;
    } while (waits);
#pragma unroll
    for (int e = 0; e < MINE; e++) {
        const int at = e * SOLVE_THREADS + (int)threadIdx.x;
        const unsigned long long low = v[e][0] & 0xFFFFFFFF;
        REAL value = 0;
        if (at < w.columns * ROWS && sizeof(REAL) == 4)
            value = (REAL)__uint_as_float((unsigned)low);
        else if (at < w.columns * ROWS)
            value = (REAL)__longlong_as_double((long long)(low | v[e][halves - 1] << 32));
        to.at[at % ROWS][at / ROWS] = value;
    }
    __syncthreads();
}

/* Waits until more than `before` places are done, and returns how many are. */
static __device__ int wait_for(const struct rows &w, long long before)
{
    __shared__ int seen;

    if (threadIdx.x == 0) {
        while ((seen = *(const volatile int *)w.done) <= before)
            __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
    return seen;
}

/* ---- Squares --------------------------------------------------------------------------------- */

/* Inverts a triangle on the diagonal of T, whose own diagonal holds reciprocals already.  A warp
 * takes columns, and a lane has every 32nd row.  The block does this while it would only wait. */
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

/* sum += tile x, of which a thread has MINE columns of one row. */
static __device__ void add_product(const square &tile, const struct block &x, int columns,
                                   REAL sum[MINE])
{
    const int row = (int)threadIdx.x % ROWS, col = (int)threadIdx.x / ROWS * MINE;

#pragma unroll 8
    for (int k = 0; k < ROWS && col < columns; k++) {
        const REAL t = tile[k][row];
#pragma unroll
        for (int c = 0; c < MINE; c++)
            sum[c] += t * x.at[k][col + c];
    }
}

/* Solves for the rows at one place in the order of the sweep. */
static __device__ void solve(const struct solve_sweep_params &a, const struct rows &w,
                             long long place, long long places)
{
    __shared__ square tile, inverse;
    __shared__ struct block x;
    const int row = (int)threadIdx.x % ROWS, col = (int)threadIdx.x / ROWS * MINE;
    REAL sum[MINE], own[MINE];
    struct part next;
    int seen = 0;

    read(a, w.factor, w.first, w.first, next);
    put(a, next, tile);
    if (place > 0)
        read(a, w.factor, w.first, (a.forward ? 0 : places - 1) * ROWS, next);
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
        put(a, next, tile);
        if (before + 1 < place)
            read(a, w.factor, w.first, a.forward ? there + ROWS : there - ROWS, next);
        if (before + 2 < place && seen <= before)
            seen = wait_for(w, before);
        if (before + 2 < place)
            fetch(a, w, there, x);
        else
            take(w, before, x);
        add_product(tile, x, w.columns, sum);
        __syncthreads();
    }
#pragma unroll
    for (int c = 0; c < MINE; c++) {
        x.at[row][col + c] = own[c] - sum[c];
        sum[c] = 0;
    }
    __syncthreads();
    add_product(inverse, x, w.columns, sum);
#pragma unroll
    for (int c = 0; c < MINE; c++)
        if (col + c < w.columns && place + 1 < places)
            give(w, place, row + (col + c) * ROWS, sum[c]);
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
        a.words + which * SOLVE_SWEEP_WORDS,
        (unsigned)*(const volatile int *)&a.control[2] + 1,
        (a.forward ? place : places - 1 - place) * ROWS,
        left < COLUMNS ? (int)left : COLUMNS,
    };

    if (a.go[item]) {
        solve(a, w, place, places);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            if (place == places - 1) /* the last place: no block waits any more */
                *done = 0;
            else
                atomicAdd(done, 1);
        }
    }
    __syncthreads(); /* all threads have read a.control[2] */
    if (threadIdx.x == 0 && atomicAdd(&a.control[1], 1) == (int)gridDim.x - 1) {
        a.control[0] = a.control[1] = 0;
        a.control[2]++;
    }
}
