/*
 * solve_lu_panel.cu - LU with partial pivoting of SOLVE_TILE columns, a block an item
 *
 * A strip of up to SOLVE_STRIP columns at a time comes to shared memory: what the columns left of
 * it in the panel contribute is subtracted on the way, and there it is factorised column by column.
 * Then the rest of the panel gets its exchanges of rows.  A strip for which shared memory is too
 * small is worked on where it lies.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_tile.cuh"

#include "solve_exchange.cuh"

#define THREADS SOLVE_PANEL_THREADS
#define WARPS   (THREADS / 32)
#define STRIP   SOLVE_STRIP

enum {
    AHEAD = sizeof(REAL) == 4 ? 8 : 1, /* elements of a row that a thread reads at a time, */
    AT_A_TIME = 8                      /* and of a row of a strip */
};

/* Rows and columns counted from the panel's first. */
struct panel {
    REAL *data;
    long long ld;
    int rows, width;
};

/* Columns of a panel from begin on; a row from begin on is always the same thread's. */
struct strip {
    REAL *data;
    long long ld;
    int begin, width;
};

/* A thread's largest magnitude in a column, and the first row that has it; -1: none. */
struct largest {
    REAL size;
    int row;
};

static __device__ void offer(struct largest &l, REAL value, int row)
{
    if (fabs(value) > l.size) /* NaN is never larger */
        l.size = fabs(value), l.row = row;
}

/* The warp's, in all lanes. */
static __device__ struct largest of_warp(struct largest l)
{
    if (sizeof(REAL) == 4) { /* magnitudes compare like their bits */
        const unsigned key = l.size < 0 ? 0 : __float_as_uint((float)l.size) + 1;
        const unsigned most = __reduce_max_sync(WARP, key);
        l.size = most ? (REAL)__uint_as_float(most - 1) : (REAL)-1;
        l.row = (int)__reduce_min_sync(WARP, key == most ? (unsigned)l.row : 0xFFFFFFFFu);
        return l;
    }
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
        const REAL size = __shfl_xor_sync(WARP, l.size, apart);
        const int row = __shfl_xor_sync(WARP, l.row, apart);
        if (size > l.size || (size == l.size && row < l.row))
            l.size = size, l.row = row;
    }
    return l;
}

/* The row of the block's. */
static __device__ int find_pivot(struct largest mine)
{
    __shared__ struct largest found[WARPS];

    mine = of_warp(mine);
    if (threadIdx.x % 32 == 0)
        found[threadIdx.x / 32] = mine;
    __syncthreads();
    return of_warp(found[threadIdx.x % WARPS]).row;
}

/* Rows of U above a strip, by columns: a warp has one at a time. */
static __device__ void solve_above(const struct panel &p, const struct strip &s,
                                   REAL upper[TILE][STRIP])
{
    __shared__ REAL lower[TILE][TILE + 1]; /* by columns */
    const int lane = (int)threadIdx.x % 32;

    for (int e = threadIdx.x; e < TILE * s.begin; e += THREADS) {
        const int i = e % TILE, j = e / TILE;
        if (i < s.begin)
            lower[j][i] = i > j ? p.data[i + j * p.ld] : (REAL)0;
    }
    __syncthreads();
    for (int c = (int)threadIdx.x / 32; c < s.width; c += WARPS) {
        REAL *column = p.data + (s.begin + c) * p.ld;
        REAL above = lane < s.begin ? column[lane] : (REAL)0;
        REAL below = lane + 32 < s.begin ? column[lane + 32] : (REAL)0;
        for (int k = 0; k < s.begin; k++) {
            const REAL solved = __shfl_sync(WARP, k < 32 ? above : below, k % 32);
            if (lane > k && lane < s.begin)
                above -= lower[k][lane] * solved;
            if (lane + 32 > k && lane + 32 < s.begin)
                below -= lower[k][lane + 32] * solved;
        }
        if (lane < s.begin)
            column[lane] = upper[lane][c] = above;
        if (lane + 32 < s.begin)
            column[lane + 32] = upper[lane + 32][c] = below;
    }
    __syncthreads();
}

/* A strip's rows below, less what the columns left of it contribute, to where it is factorised. */
static __device__ void bring(const struct panel &p, const struct strip &s)
{
    __shared__ __align__(16) REAL upper[TILE][STRIP];

    if (s.begin > 0)
        solve_above(p, s, upper);
    for (int i = s.begin + (int)threadIdx.x; i < p.rows; i += THREADS) {
        const REAL *from = p.data + i;
        REAL *to = s.data + i, v[STRIP] = {};
#pragma unroll AHEAD
        for (int k = 0; k < s.begin; k++, from += p.ld) {
            const REAL factor = *from;
#pragma unroll
            for (int c = 0; c < STRIP; c++)
                v[c] += factor * upper[k][c];
        }
#pragma unroll
        for (int c = 0; c < STRIP; c++, from += p.ld, to += s.ld)
            if (c < s.width)
                *to = *from - v[c];
    }
}

/* Row i less factor times the pivot's row, columns from k + 1 on; offers what column k + 1 gets. */
static __device__ void eliminate(const struct strip &s, const REAL *upper, int k, int i,
                                 REAL factor, struct largest &next)
{
    for (int begin = k + 1; begin < s.width; begin += AT_A_TIME) { /* loads before stores */
        REAL *at = s.data + i + begin * s.ld, v[AT_A_TIME];
#pragma unroll
        for (int c = 0; c < AT_A_TIME; c++)
            v[c] = begin + c < s.width ? at[c * s.ld] - factor * upper[begin + c] : (REAL)0;
        if (begin == k + 1)
            offer(next, v[0], i);
#pragma unroll
        for (int c = 0; c < AT_A_TIME; c++)
            if (begin + c < s.width)
                at[c * s.ld] = v[c];
    }
}

/* Gives the first bad column, counted from 1; or 0.  exchanges: rows from 1 on. */
static __device__ int factorise(const struct panel &p, const struct strip &s, int *exchanges)
{
    __shared__ REAL upper[STRIP];
    struct largest next = {-1, s.begin};
    int bad = 0;

    for (int i = s.begin + (int)threadIdx.x; i < p.rows; i += THREADS)
        offer(next, s.data[i], i);
    for (int k = 0; k < s.width; k++) {
        REAL *column = s.data + k * s.ld;
        const int row = s.begin + k, pivot = find_pivot(next);
        if ((int)threadIdx.x < s.width) {
            REAL *mine = s.data + threadIdx.x * s.ld;
            const REAL kept = mine[row];
            upper[threadIdx.x] = mine[pivot];
            mine[pivot] = kept;
            mine[row] = upper[threadIdx.x];
        }
        if (threadIdx.x == 0)
            exchanges[k] = pivot + 1;
        __syncthreads();
        const REAL d = upper[k];
        const REAL lift = fabs(d) < 1 ? (REAL)4294967296.0 : (REAL)1, inverse = 1 / (d * lift);
        if ((d == 0 || d != d) && !bad)
            bad = row + 1;
        next = {-1, row + 1};
        for (int i = s.begin + (int)threadIdx.x; i < p.rows; i += THREADS) {
            if (i <= row)
                continue;
            const REAL below = column[i];
            const REAL factor = d != 0 ? below * lift * inverse : below; /* no d is too small */
            column[i] = factor;
            eliminate(s, upper, k, i, d != 0 ? factor : (REAL)0, next);
        }
    }
    __syncthreads();
    return bad;
}

/* The factorised strip goes back; the rest of the panel gets its exchanges. */
static __device__ void finish(const struct panel &p, const struct strip &s, bool inside,
                              const int *exchanges)
{
    __shared__ struct moves moves;

    if (threadIdx.x < 32)
        follow(exchanges, s.begin, s.width, moves);
    for (int c = 0; inside && c < s.width; c++)
        for (int i = s.begin + (int)threadIdx.x; i < p.rows; i += THREADS)
            p.data[i + (s.begin + c) * p.ld] = s.data[i + c * s.ld];
    __syncthreads();
    for (int c = (int)threadIdx.x / 32; c < p.width; c += WARPS)
        if (c < s.begin || c >= s.begin + s.width)
            exchange(moves, p.data + c * p.ld);
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    solve_lu_panel(const __grid_constant__ struct solve_lu_params a)
{
    extern __shared__ __align__(16) REAL memory[]; /* a.room bytes */
    __shared__ int exchanges[STRIP];
    const long long item = blockIdx.x, left = a.n - a.first;
    REAL *matrix = (REAL *)(a.matrix + item * a.item_bytes);
    const struct panel p = {matrix + a.first * (a.ld + 1), a.ld, (int)left,
                            left < TILE ? (int)left : TILE};
    const int room = (int)(a.room / (left * (long long)sizeof(REAL)));
    const bool inside = room > 0;
    int bad = 0;

    if (!a.go[item])
        return;
    struct strip s = {};
    for (; s.begin < p.width; s.begin += s.width) {
        s.width = min(min(inside ? room : STRIP, STRIP), p.width - s.begin);
        s.data = inside ? memory : p.data + s.begin * p.ld;
        s.ld = inside ? p.rows : p.ld;
        bring(p, s);
        const int first = factorise(p, s, exchanges);
        bad = bad ? bad : first;
        if ((int)threadIdx.x < s.width)
            a.exchanges[item * a.n + a.first + s.begin + threadIdx.x] =
                (int)a.first + exchanges[threadIdx.x];
        finish(p, s, inside, exchanges);
    }
    if (bad && threadIdx.x == 0)
        atomicMin(&a.state[item].bad, (int)a.first + bad);
}
