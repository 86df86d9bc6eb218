/*
 * optimizer_matrix.cu - matrices of the state, to and from scratch
 *
 * optimizer_ema: factor = keep factor + take product.
 * optimizer_unpack: a matrix of the state with both triangles; a factor divided by its correction.
 * optimizer_store_roots: roots that were taken to the state, others keep the previous one.
 * optimizer_count_failures: how many, and failures in a row; a thread has a block of the wave.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

#define SIDE OPTIMIZER_SIDE
#define DOWN (THREADS / SIDE)
#define ROWS (SIDE / DOWN) /* of a tile, that a thread has */

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_ema(const __grid_constant__ params a)
{
    const long long pairs = pairs_of(a.n), block = blockIdx.x / pairs;
    const struct optimizer_entry &e = a.entry[block];
    const REAL *product = (const REAL *)a.matrix + block * a.n * a.n;
    char *factor = a.state + e.factor[a.k];
    const REAL keep = (REAL)a.keep, take = (REAL)a.take;
    long long row, column;

    if (a.now[e.parameter].rests || !a.tensors[e.parameter].takes)
        return;
    tile_of(a.n, blockIdx.x % pairs, &row, &column);
    const long long j = column + (int)threadIdx.x % SIDE;
    REAL v[ROWS], p[ROWS];
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        const long long i = row + (int)threadIdx.x / SIDE + u * DOWN;
        const bool in = i <= j && j < a.n;
        v[u] = in ? load_real(a.matrix_type, factor, upper_of(a, i, j)) : (REAL)0;
        p[u] = in ? product[i * a.n + j] : (REAL)0;
    }
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        const long long i = row + (int)threadIdx.x / SIDE + u * DOWN;
        if (i > j || j >= a.n)
            continue;
        v[u] = keep * v[u] + take * p[u];
        store_real(a.matrix_type, factor, upper_of(a, i, j), v[u]);
        if (!a.packed)
            store_real(a.matrix_type, factor, j * a.n + i, v[u]);
    }
}

/* A matrix of the item'th of the blocks. */
static __device__ void unpack(const params &a, const struct optimizer_entry &e, long long pair,
                              REAL *to)
{
    __shared__ REAL tile[SIDE][SIDE + 1];
    const char *from = a.state + (a.is_root ? e.root[a.k] : e.factor[a.k]);
    const REAL scale = (REAL)(a.is_root ? 1 : 1 / a.now[e.parameter].correction);
    const int x = (int)threadIdx.x % SIDE;
    long long row, column;

    tile_of(a.n, pair, &row, &column);
    REAL v[ROWS];
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        const long long i = row + (int)threadIdx.x / SIDE + u * DOWN, j = column + x;
        v[u] = i <= j && j < a.n ? load_real(a.matrix_type, from, upper_of(a, i, j)) : (REAL)0;
    }
#pragma unroll
    for (int u = 0; u < ROWS; u++) {
        const int y = (int)threadIdx.x / SIDE + u * DOWN;
        const long long i = row + y, j = column + x;
        if (i <= j && j < a.n)
            tile[y][x] = to[i * a.n + j] = scale * v[u];
    }
    __syncthreads();
    for (int y = (int)threadIdx.x / SIDE; y < SIDE; y += DOWN) {
        const long long i = column + y, j = row + x; /* of the lower triangle */
        if (i > j && i < a.n)
            to[i * a.n + j] = tile[x][y];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_unpack(const __grid_constant__ params a)
{
    const long long pairs = pairs_of(a.n), block = blockIdx.x / pairs;

    unpack(a, a.entry[block], blockIdx.x % pairs, (REAL *)a.matrix + block * a.n * a.n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_unpack_items(const __grid_constant__ struct optimizer_roots r)
{
    const long long pairs = pairs_of(r.a.n), item = blockIdx.x / pairs;

    unpack(r.a, r.a.entry[r.item[item]], blockIdx.x % pairs,
           (REAL *)r.a.matrix + item * r.a.n * r.a.n);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_store_roots(const __grid_constant__ struct optimizer_roots r)
{
    const params &a = r.a;
    const long long pairs = pairs_of(a.n), item = blockIdx.x / pairs, pair = blockIdx.x % pairs;
    const struct optimizer_entry &e = a.entry[r.item[item]];
    const REAL *from = (const REAL *)a.matrix + item * a.n * a.n;
    char *root = a.state + e.root[a.k];
    long long row, column;

    if (a.now[e.parameter].rests)
        return;
    const bool kept = r.kept && r.kept[item], failed = !kept && r.info[item];
    if (pair == 0 && threadIdx.x == 0) {
        long long *count = failed ? &a.counts->failed : &a.counts->refreshed;
        atomicAdd((unsigned long long *)(kept ? &a.counts->kept : count), 1ull);
        if (failed)
            a.failed[e.number] = 1;
    }
    if (kept || failed)
        return;
    tile_of(a.n, pair, &row, &column);
    for (int y = (int)threadIdx.x / SIDE; y < SIDE; y += DOWN) {
        const long long i = row + y, j = column + (int)threadIdx.x % SIDE;
        if (i > j || j >= a.n)
            continue;
        store_real(a.matrix_type, root, upper_of(a, i, j), from[i * a.n + j]);
        if (!a.packed)
            store_real(a.matrix_type, root, j * a.n + i, from[i * a.n + j]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    optimizer_count_failures(const __grid_constant__ struct optimizer_roots r)
{
    const params &a = r.a;
    const long long item = blockIdx.x * (long long)THREADS + threadIdx.x;

    if (item >= r.items)
        return;
    const struct optimizer_entry &e = a.entry[r.item[item]];
    if (a.now[e.parameter].rests)
        return;
    if (!a.failed[e.number]) {
        a.failures[e.number] = 0;
        return;
    }
    a.failures[e.number]++;
    a.failed[e.number] = 0;
    /* the lowest of them; -1, none, is the largest as an unsigned number */
    atomicMin((unsigned long long *)&a.counts->first_failed, (unsigned long long)e.parameter);
}
