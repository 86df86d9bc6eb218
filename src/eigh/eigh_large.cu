/*
 * eigh_large.cu - what eigenproblems need on the device before and behind cuSOLVER
 *
 * eigh_scan: the largest magnitude of each matrix, in parts.
 *
 * eigh_load: the triangle, scaled to below 1 by a power of two, to the lower one of a matrix by
 * columns; the identity where an item holds NaN or infinity, which cuSOLVER may loop on.
 *
 * eigh_store: chooses the pairs, scales the values back, brings all to the caller's tensors; NaN
 * for an item that failed.
 *
 * eigh_panel: some columns of one matrix, scaled, from strides to others; tiles are transposed
 * where that lets neighbours read and write neighbours.
 *
 * Blocks in x share an item, those in y are items.  Parameters (-D), set by cuda_eigh.c:
 *   REAL    float or double
 *   KERNEL  which of the four, as named in eigh_params.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_items.cuh"

#define ROWS (EIGH_THREADS / EIGH_TILE) /* of a tile that are moved at a time */

struct tile {
    REAL s[EIGH_TILE][EIGH_TILE + 1];
};

/* The largest magnitude among the threads of a block. */
static __device__ REAL largest_of(REAL mine, REAL *room)
{
    room[threadIdx.x] = mine;
    __syncthreads();
    for (int half = EIGH_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            room[threadIdx.x] = larger(room[threadIdx.x], room[threadIdx.x + half]);
        __syncthreads();
    }
    mine = room[0];
    __syncthreads();
    return mine;
}

#if KERNEL == EIGH_SCAN

extern "C" __global__ void __launch_bounds__(EIGH_THREADS)
    eigh_scan(const __grid_constant__ struct eigh_chunk_params p)
{
    __shared__ REAL room[EIGH_THREADS];
    const struct eigh_call &c = p.call;
    bool by_rows = llabs(c.a.col_stride) <= llabs(c.a.row_stride);

    for (long long item = blockIdx.y; item < p.items; item += gridDim.y) {
        const REAL *a = item_of(c, c.a, p.begin + item);
        REAL largest = 0;
        for (long long k = blockIdx.x; k < c.n; k += gridDim.x) {
            /* Row k up to the diagonal, or column k from there on. */
            long long low = by_rows ? 0 : k, high = by_rows ? k + 1 : c.n;
            for (long long e = low + threadIdx.x; e < high; e += EIGH_THREADS)
                largest = larger(
                    largest,
                    a[(by_rows ? k : e) * c.a.row_stride + (by_rows ? e : k) * c.a.col_stride]);
        }
        largest = largest_of(largest, room);
        if (threadIdx.x == 0)
            ((REAL *)p.largest)[item * p.parts + blockIdx.x] = largest;
    }
}

#else

/* The element of a tile that a thread moves in a step: neighbours along a row, or a column. */
static __device__ void place_of(int step, bool by_rows, int *i, int *j)
{
    int slow = step * ROWS + (int)threadIdx.x / EIGH_TILE, fast = threadIdx.x % EIGH_TILE;

    *i = by_rows ? slow : fast;
    *j = by_rows ? fast : slow;
}

#  if KERNEL == EIGH_PANEL

extern "C" __global__ void __launch_bounds__(EIGH_THREADS)
    eigh_panel(const __grid_constant__ struct eigh_panel_params p)
{
    __shared__ struct tile t;
    bool from_by_rows = llabs(p.from_col) <= llabs(p.from_row);
    bool to_by_rows = llabs(p.to_col) <= llabs(p.to_row);
    long long wide = (p.cols + EIGH_TILE - 1) / EIGH_TILE;
    long long tiles = (p.rows + EIGH_TILE - 1) / EIGH_TILE * wide;
    int e = (int)p.exponent;

    for (long long at = blockIdx.x; at < tiles; at += gridDim.x) {
        long long row = at / wide * EIGH_TILE, col = at % wide * EIGH_TILE;
        if (p.lower && row + EIGH_TILE <= col)
            continue;
        for (int step = 0; step < EIGH_TILE / ROWS; step++) {
            int i, j;
            place_of(step, from_by_rows, &i, &j);
            if (row + i < p.rows && col + j < p.cols && (!p.lower || row + i >= col + j))
                t.s[j][i] = ((const REAL *)p.from)[(row + i) * p.from_row + (col + j) * p.from_col];
        }
        __syncthreads();
        for (int step = 0; step < EIGH_TILE / ROWS; step++) {
            int i, j;
            place_of(step, to_by_rows, &i, &j);
            if (row + i < p.rows && col + j < p.cols && (!p.lower || row + i >= col + j))
                ((REAL *)p.to)[(row + i) * p.to_row + (col + j) * p.to_col] = ldexp(t.s[j][i], -e);
        }
        __syncthreads();
    }
}

#  else

/* What eigh_scan found in an item. */
static __device__ REAL scanned(const struct eigh_chunk_params &p, long long item, REAL *room)
{
    REAL largest = 0;

    for (long long k = threadIdx.x; k < p.parts; k += EIGH_THREADS)
        largest = larger(largest, ((const REAL *)p.largest)[item * p.parts + k]);
    return largest_of(largest, room);
}

#    if KERNEL == EIGH_LOAD

extern "C" __global__ void __launch_bounds__(EIGH_THREADS)
    eigh_load(const __grid_constant__ struct eigh_chunk_params p)
{
    __shared__ REAL room[EIGH_THREADS];
    __shared__ struct tile t;
    const struct eigh_call &c = p.call;
    bool by_rows = llabs(c.a.col_stride) <= llabs(c.a.row_stride);
    long long n = c.n, side = (n + EIGH_TILE - 1) / EIGH_TILE;

    for (long long item = blockIdx.y; item < p.items; item += gridDim.y) {
        const REAL *a = item_of(c, c.a, p.begin + item);
        REAL *to = (REAL *)p.matrix + item * n * n, largest = scanned(p, item, room);
        bool sound = is_finite(largest);
        int e = exponent_of(largest);
        for (long long at = blockIdx.x; at < side * side; at += gridDim.x) {
            long long row = at / side * EIGH_TILE, col = at % side * EIGH_TILE;
            if (row < col)
                continue;
            for (int step = 0; step < EIGH_TILE / ROWS; step++) {
                int i, j;
                place_of(step, by_rows, &i, &j);
                if (row + i < n && col + j <= row + i)
                    t.s[j][i] = a[(row + i) * c.a.row_stride + (col + j) * c.a.col_stride];
            }
            __syncthreads();
            for (int step = 0; step < EIGH_TILE / ROWS; step++) {
                int i, j;
                place_of(step, false, &i, &j);
                if (row + i < n && col + j <= row + i)
                    to[(col + j) * n + row + i] =
                        sound ? ldexp(t.s[j][i], -e) : (REAL)(row + i == col + j);
            }
            __syncthreads();
        }
    }
}

#    elif KERNEL == EIGH_STORE

/* Values among n ascending ones that are at most limit once they are scaled back. */
static __device__ long long count_of(const REAL *w, long long n, int e, double limit)
{
    long long low = 0, high = n;

    while (low < high) {
        long long middle = (low + high) / 2;
        if ((double)ldexp(w[middle], e) <= limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static __device__ void store_values(const struct eigh_chunk_params &p, long long item, int info,
                                    const struct eigh_choice &pick, const REAL *w, int e)
{
    const struct eigh_call &c = p.call;
    REAL *to = item_of(c, c.values, p.begin + item);

    if (threadIdx.x == 0)
        tell(c, p.begin + item, info, pick.found);
    for (long long j = threadIdx.x; j < c.count; j += EIGH_THREADS)
        to[j * c.values.col_stride] =
            j < pick.stored ? ldexp(w[pick.first - p.computed + j], e) : NAN_OF;
}

extern "C" __global__ void __launch_bounds__(EIGH_THREADS)
    eigh_store(const __grid_constant__ struct eigh_chunk_params p)
{
    __shared__ REAL room[EIGH_THREADS];
    __shared__ struct tile t;
    const struct eigh_call &c = p.call;
    bool by_rows = llabs(c.vectors.col_stride) <= llabs(c.vectors.row_stride);
    long long n = c.n, high = (n + EIGH_TILE - 1) / EIGH_TILE;
    long long wide = p.has_vectors ? (c.count + EIGH_TILE - 1) / EIGH_TILE : 0;

    for (long long item = blockIdx.y; item < p.items; item += gridDim.y) {
        const REAL *w = (const REAL *)p.w + item * n;
        REAL largest = scanned(p, item, room);
        int e = exponent_of(largest);
        int info = p.code[item] ? EIGH_INFO_NOT_CONVERGED : EIGH_INFO_DONE;
        struct eigh_choice pick = {c.first, c.count, 0};
        if (c.by_value)
            pick = choose(c, count_of(w, n, e, c.lower), count_of(w, n, e, c.upper));
        if (!is_finite(largest))
            info = EIGH_INFO_NOT_FINITE;
        if (info != EIGH_INFO_DONE)
            pick.stored = pick.found = 0;
        if (blockIdx.x == 0)
            store_values(p, item, info, pick, w, e);
        const REAL *v = (const REAL *)p.matrix + item * n * n + (pick.first - p.computed) * n;
        REAL *to = item_of(c, c.vectors, p.begin + item);
        for (long long at = blockIdx.x; at < high * wide; at += gridDim.x) {
            long long row = at / wide * EIGH_TILE, col = at % wide * EIGH_TILE;
            int i, j;
            for (int step = 0; step < EIGH_TILE / ROWS; step++) {
                place_of(step, false, &i, &j);
                if (row + i < n && col + j < pick.stored)
                    t.s[j][i] = v[(col + j) * n + row + i];
            }
            __syncthreads();
            for (int step = 0; step < EIGH_TILE / ROWS; step++) {
                place_of(step, by_rows, &i, &j);
                if (row + i < n && col + j < c.count)
                    to[(row + i) * c.vectors.row_stride + (col + j) * c.vectors.col_stride] =
                        col + j < pick.stored ? t.s[j][i] : NAN_OF;
            }
            __syncthreads();
        }
    }
}

#    else
#      error "eigh_large.cu: KERNEL must be one of eigh_params.h"
#    endif
#  endif
#endif
