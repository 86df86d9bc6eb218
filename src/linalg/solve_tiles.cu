/*
 * solve_tiles.cu - Cholesky factors of a batch in one launch, where the device says so
 *
 * Tiles are tasks, in the order of their columns, the items of the batch side by side.  A block
 * takes the next one, adds up what lies to the left of it as soon as that is there, and finishes
 * it: on the diagonal by factorising, below by a triangular system.  Whom a task waits for has a
 * lower number, and so a block already: nobody waits for ever.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_tile.cuh"

#define QUARTER (TILE / 4)
#define SHARE   (TILE * DEPTH / SOLVE_THREADS)
#define AHEAD   (sizeof(REAL) == 4) /* registers do for it */

union shared {
    struct operands part;
    REAL square[TILE][TILE + 1]; /* by columns */
};

struct task {
    long long item, row, col; /* of tiles */
    REAL *matrix;
    int *done; /* tiles of each row that are finished */
};

static __device__ struct task task_of(const struct solve_tiles_params &a, long long number)
{
    const long long tiles = (a.n + TILE - 1) / TILE, item = number % a.items;
    long long rest = number / a.items, col = 0;

    while (rest >= tiles - col)
        rest -= tiles - col, col++;
    return {item, col + rest, col, (REAL *)(a.matrix + item * a.item_bytes),
            a.control + SOLVE_CONTROL + item * tiles};
}

/* Waits until `tiles` tiles of a row are there; all threads call it. */
static __device__ void wait_for(const int *done, long long tiles)
{
    if (threadIdx.x == 0) {
        while (*(const volatile int *)done < tiles)
            __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}

/* A thread's share of a part of both operands, on its way from memory. */
struct strip {
    REAL a[SHARE], b[SHARE];
};

static __device__ void read(const struct solve_tiles_params &a, const struct task &t,
                            long long part, struct strip &s)
{
#pragma unroll
    for (int e = 0; e < SHARE; e++) {
        const int at = e * SOLVE_THREADS + (int)threadIdx.x, i = at % TILE;
        const long long k = part * DEPTH + at / TILE, row = t.row * TILE + i,
                        col = t.col * TILE + i;
        s.a[e] = row < a.n ? __ldcg(&t.matrix[row + k * a.ld]) : (REAL)0;
        s.b[e] = col < a.n ? __ldcg(&t.matrix[col + k * a.ld]) : (REAL)0;
    }
}

static __device__ void put(const struct strip &s, struct operands &to)
{
#pragma unroll
    for (int e = 0; e < SHARE; e++) {
        const int at = e * SOLVE_THREADS + (int)threadIdx.x;
        to.a[at / TILE][at % TILE] = s.a[e];
        to.b[at / TILE][at % TILE] = s.b[e];
    }
}

/* How many tiles to the left there are in both rows of tiles; waits until they are `least`. */
static __device__ long long tiles_left(const struct task &t, long long least)
{
    const volatile int *mine = &t.done[t.row], *other = &t.done[t.col];
    long long there;

    for (;;) {
        there = min(*mine, *other);
        if (there >= least)
            break;
        __nanosleep(20);
    }
    __threadfence();
    return there;
}

/* What is left of a tile once all to the left of it is subtracted, in registers.  While a part is
 * worked on the next one is read, if it is there. */
static __device__ void collect(const struct solve_tiles_params &a, const struct task &t,
                               union shared &s, REAL sum[4][4])
{
    const long long parts = t.col * (TILE / DEPTH);
    __shared__ long long there;
    struct strip next;
    bool have = false;

    for (long long part = 0; part < parts; part++) {
        if (threadIdx.x == 0)
            there = tiles_left(t, part / (TILE / DEPTH) + 1);
        if (!have)
            __syncthreads();
        if (!AHEAD) {
            load_rows(t.matrix, a.n, a.ld, t.row * TILE, part * DEPTH, s.part.a);
            load_rows(t.matrix, a.n, a.ld, t.col * TILE, part * DEPTH, s.part.b);
        } else {
            if (!have)
                read(a, t, part, next);
            put(next, s.part);
        }
        __syncthreads();
        have = AHEAD && part + 1 < parts && (part + 1) / (TILE / DEPTH) < there;
        if (have)
            read(a, t, part + 1, next);
        multiply(s.part, sum);
        __syncthreads();
    }
}

/* The lower triangle's tile minus what was collected, to shared memory; the identity beyond n. */
static __device__ void subtract(const struct solve_tiles_params &a, const struct task &t,
                                union shared &s, const REAL sum[4][4])
{
    const int row = (int)threadIdx.x % 16 * 4, col = (int)threadIdx.x / 16 * 4;

    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            const long long r = t.row * TILE + row + i, c = t.col * TILE + col + j;
            REAL v = row + i == col + j && t.row == t.col;
            if (r < a.n && c <= r) /* what is above may not have been written */
                v = t.matrix[r + c * a.ld] - sum[i][j];
            s.square[col + j][row + i] = v;
        }
    __syncthreads();
}

/* A tile on the diagonal: columns are scaled at the end, so that one barrier a column does. */
static __device__ void factorise(const struct solve_tiles_params &a, const struct task &t,
                                 union shared &s)
{
    __shared__ REAL root[TILE], inverse[TILE];
    int bad = 0;

    for (int k = 0; k < TILE; k++) {
        const REAL d = s.square[k][k];
        if (!(d > 0)) {
            bad = k + 1;
            break; /* all threads see the same */
        }
        const REAL reciprocal = 1 / d;
        for (int j = k + 1 + (int)threadIdx.x / 16; j < TILE; j += SOLVE_THREADS / 16) {
            const REAL factor = s.square[k][j] * reciprocal;
            for (int i = k + 1 + (int)threadIdx.x % 16; i < TILE; i += 16)
                if (i >= j)
                    s.square[j][i] -= s.square[k][i] * factor;
        }
        __syncthreads();
    }
    if (bad && threadIdx.x == 0)
        atomicMin(&a.state[t.item].bad, (int)(t.col * TILE) + bad);
    if (threadIdx.x < TILE) {
        const bool done = !bad || threadIdx.x < bad - 1;
        root[threadIdx.x] = done ? sqrt(s.square[threadIdx.x][threadIdx.x]) : (REAL)1;
        inverse[threadIdx.x] = 1 / root[threadIdx.x];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < TILE * TILE; e += SOLVE_THREADS) {
        const int i = e % TILE, j = e / TILE;
        const long long r = t.row * TILE + i, c = t.col * TILE + j;
        if (i >= j && r < a.n && c < a.n) {
            const bool pivot = i == j && (!bad || j < bad - 1);
            t.matrix[r + c * a.ld] = pivot ? root[j] : s.square[j][i] * inverse[j];
        }
    }
}

/* A tile below: X L^T = C, four threads a row, each with every fourth column of it. */
static __device__ void divide(const struct solve_tiles_params &a, const struct task &t,
                              union shared &s)
{
    const int row = (int)threadIdx.x / 4, mine = (int)threadIdx.x % 4;
    const long long first = t.col * TILE;
    REAL x[QUARTER];

#pragma unroll
    for (int m = 0; m < QUARTER; m++)
        x[m] = s.square[4 * m + mine][row];
    wait_for(&t.done[t.col], t.col + 1);
    for (int e = threadIdx.x; e < TILE * TILE; e += SOLVE_THREADS) {
        const int i = e % TILE, j = e / TILE;
        REAL v = i == j;
        if (i >= j && first + i < a.n && first + j < a.n)
            v = __ldcg(&t.matrix[first + i + (first + j) * a.ld]);
        s.square[j][i] = i == j ? 1 / v : v;
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < QUARTER; m++)
#pragma unroll 1
        for (int q = 0; q < 4; q++) {
            const int k = 4 * m + q;
            const REAL found = __shfl_sync(WARP, x[m], q, 4) * s.square[k][k];
            if (mine == q)
                x[m] = found;
#pragma unroll
            for (int other = m; other < QUARTER; other++)
                if (4 * other + mine > k)
                    x[other] -= found * s.square[k][4 * other + mine];
        }
#pragma unroll
    for (int m = 0; m < QUARTER; m++)
        if (t.row * TILE + row < a.n && first + 4 * m + mine < a.n)
            t.matrix[t.row * TILE + row + (first + 4 * m + mine) * a.ld] = x[m];
}

static __device__ void run(const struct solve_tiles_params &a, long long number, union shared &s)
{
    const struct task t = task_of(a, number);
    REAL sum[4][4] = {};
    __shared__ int failed;

    if (threadIdx.x == 0)
        failed = !a.go[t.item] || *(volatile int *)&a.state[t.item].bad != SOLVE_NONE;
    __syncthreads();
    if (!failed) {
        collect(a, t, s, sum);
        subtract(a, t, s, sum);
        if (t.row == t.col)
            factorise(a, t, s);
        else
            divide(a, t, s);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(&t.done[t.row], 1);
}

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS, 2)
    solve_tiles(const __grid_constant__ struct solve_tiles_params a)
{
    const long long tiles = (a.n + TILE - 1) / TILE, tasks = tiles * (tiles + 1) / 2 * a.items;
    __shared__ union shared s;
    __shared__ int number;

    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0)
            number = atomicAdd(&a.control[0], 1);
        __syncthreads();
        if (number >= tasks)
            break;
        run(a, number, s);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        number = atomicAdd(&a.control[1], 1);
    __syncthreads();
    if (number == (int)gridDim.x - 1) /* the last one leaves all as it was */
        for (long long e = threadIdx.x; e < SOLVE_CONTROL + a.items * tiles; e += SOLVE_THREADS)
            a.control[e] = 0;
}
