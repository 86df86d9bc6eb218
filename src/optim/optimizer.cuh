/*
 * optimizer.cuh - numbers of any type, and where the elements of a block lie
 *
 * Part of files whose parameter is REAL, the type that is computed in.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_params.h"

#include "stored.cuh"

#define THREADS OPTIMIZER_THREADS
#define EACH    (16 / (int)sizeof(REAL)) /* elements that a thread has on their way at a time */

#include "block_sum.cuh"

typedef struct optimizer_params params;

/* The flat index in its parameter of element i of a block. */
static __device__ long long flat_of(const params &a, const struct optimizer_entry &e, long long i)
{
    long long flat = e.start;

    if (a.count < 0x80000000ll) {
        unsigned rest = (unsigned)i;
        for (int k = (int)a.order - 1; k > 0; k--) {
            const unsigned n = (unsigned)a.size[k], next = rest / n;
            flat += (rest - next * n) * e.stride[k];
            rest = next;
        }
        return flat + rest * e.stride[0];
    }
    for (int k = (int)a.order - 1; k >= 0; k--) {
        flat += i % a.size[k] * e.stride[k];
        i /= a.size[k];
    }
    return flat;
}

static __device__ long long place_of(const struct optimizer_tensor &t, long long flat)
{
    long long at = 0;

    if (t.ndim == 1)
        return flat * t.stride[0];
    for (int d = 0; d < (int)t.ndim; d++) {
        at += flat % t.shape[d] * t.stride[d];
        flat /= t.shape[d];
    }
    return at;
}

static __device__ REAL element_of(const struct optimizer_tensor &t, long long flat)
{
    return load_real(t.dtype, t.data, place_of(t, flat));
}

/* The gradient with the decay that belongs to it. */
static __device__ REAL gradient_of(const params &a, const struct optimizer_tensors &t,
                                   long long flat)
{
    REAL g = element_of(t.gradient, flat);

    if (a.options.decay_gradient != 0)
        g += (REAL)a.options.decay_gradient * element_of(t.weight, flat);
    return g;
}

/* A block of threads has a tile of a block of a parameter. */
static __device__ long long block_of(const params &a)
{
    return blockIdx.x / a.tiles;
}

static __device__ long long first_of(const params &a)
{
    return blockIdx.x % a.tiles * OPTIMIZER_TILE + threadIdx.x;
}

static __device__ long long last_of(const params &a)
{
    const long long end = (blockIdx.x % a.tiles + 1) * OPTIMIZER_TILE;

    return end < a.count ? end : a.count;
}

/* The same for threads that have EACH elements in a row, from here on. */
static __device__ long long first_run_of(const params &a)
{
    return blockIdx.x % a.tiles * OPTIMIZER_TILE + threadIdx.x * EACH;
}

/* flat_of of EACH elements in a row. */
static __device__ void flats_of(const params &a, const struct optimizer_entry &e, long long i,
                                long long *flat)
{
    const bool even = a.size[a.order - 1] % EACH == 0; /* in one row of the block */

    flat[0] = flat_of(a, e, i);
#pragma unroll
    for (int u = 1; u < EACH; u++)
        flat[u] = even ? flat[0] + u : flat_of(a, e, i + u);
}

/* The gradient's elements from i on: all are asked for before one is used. */
static __device__ void gradients_of(const params &a, const struct optimizer_entry &e,
                                    const struct optimizer_tensors &t, long long i, REAL *to)
{
    long long flat[EACH];

    flats_of(a, e, i, flat);
#pragma unroll
    for (int u = 0; u < EACH; u++)
        to[u] = i + u < last_of(a) ? gradient_of(a, t, flat[u]) : (REAL)0;
}

/* The sum of what the tiles of a block have, to all threads. */
static __device__ double tiles_sum(const params &a, const double *of, double *sums)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < a.tiles; i += THREADS)
        mine += of[block_of(a) * a.tiles + i];
    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    return sums[0];
}

/* Where element (i, j), i <= j, of a symmetric matrix of the state lies. */
static __device__ long long upper_of(const params &a, long long i, long long j)
{
    return a.packed ? i * (2 * a.n - i - 1) / 2 + j : i * a.n + j;
}

/* Tiles of the upper triangle of a matrix, and the pair'th of them. */
static __device__ long long pairs_of(long long n)
{
    const long long sides = (n + OPTIMIZER_SIDE - 1) / OPTIMIZER_SIDE;

    return sides * (sides + 1) / 2;
}

static __device__ void tile_of(long long n, long long pair, long long *i, long long *j)
{
    const long long sides = (n + OPTIMIZER_SIDE - 1) / OPTIMIZER_SIDE;
    long long row = 0;

    while (pair >= sides - row)
        pair -= sides - row++;
    *i = row * OPTIMIZER_SIDE;
    *j = (row + pair) * OPTIMIZER_SIDE;
}
