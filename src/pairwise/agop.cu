/*
 * agop.cu - products of gradients: part[n][l] = or += sum over columns of g[n] g[l]
 *
 * A block does one tile of out, on or below the diagonal, over one chunk of the columns; each of
 * its 64 threads 8 by 8 elements, in groups of 16 bytes that neighbouring threads have side by
 * side. Panels of BK columns come by asynchronous copies, two deep.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "agop_params.h"
#include "ptx.cuh"

#include "agop_pair.cuh"

#define LANES        ((int)(16 / sizeof(REAL))) /* of a 16-byte copy */
#define THREADS      64
#define SIDE_THREADS 8 /* of either side of a tile */
#define OWN          (AGOP_TILE / SIDE_THREADS)
#define BK           16
#define LD           (AGOP_TILE + LANES)
#define SIDE         (BK * LD)

/* Columns [k, k + BK) of AGOP_TILE features of an item from n on; zeros where there are
 * none. */
static __device__ void load_panel(REAL *to, const struct agop_params *a, const REAL *from,
                                  long long n, long long k, long long last)
{
#pragma unroll
    for (int e = (int)threadIdx.x * LANES; e < BK * AGOP_TILE; e += THREADS * LANES) {
        const int column = e / AGOP_TILE, at = e % AGOP_TILE;
        const long long left = k + column < last ? a->features - n - at : 0;
        const int count = left < 0 ? 0 : left > LANES ? LANES : (int)left;
        ptx_copy_async<16>(to + column * LD + at,
                           count ? from + (k + column) * a->ld + n + at : from,
                           count * (int)sizeof(REAL));
    }
}

struct __align__(16) agop_group
{
    REAL at[LANES];
};

/* The place in a tile of a thread's element. */
static __device__ int place_of(int thread, int element)
{
    return (element / LANES * SIDE_THREADS + thread) * LANES + element % LANES;
}

static __device__ void read(REAL to[OWN], const REAL *column, int thread)
{
#pragma unroll
    for (int i = 0; i < OWN; i += LANES) {
        const struct agop_group group = *(const struct agop_group *)(column + place_of(thread, i));
#pragma unroll
        for (int l = 0; l < LANES; l++)
            to[i + l] = group.at[l];
    }
}

static __device__ void load_panels(REAL *to, const struct agop_params *a, const REAL *from,
                                   const long long tile[2], long long k, long long last)
{
    if (k < last) {
        load_panel(to, a, from, tile[0] * AGOP_TILE, k, last);
        load_panel(to + SIDE, a, from, tile[1] * AGOP_TILE, k, last);
    }
    ptx_copy_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    agop(const __grid_constant__ struct agop_params a)
{
    __shared__ __align__(16) REAL panels[4 * SIDE];
    const int x = (int)threadIdx.x % SIDE_THREADS, y = (int)threadIdx.x / SIDE_THREADS;
    const int side = (int)a.side;

    for (long long at = blockIdx.x; at < a.items * a.pairs * a.chunks; at += gridDim.x) {
        const long long item = at / (a.pairs * a.chunks), chunk = at / a.pairs % a.chunks;
        const long long first = chunk * a.chunk_columns;
        const REAL *from = (const REAL *)a.gradients + item * a.columns * a.ld;
        const long long last =
            a.columns - first < a.chunk_columns ? a.columns : first + a.chunk_columns;
        REAL sums[OWN][OWN] = {}, *part = (REAL *)a.parts + at * (side * side);
        long long tile[2];

        find_pair(at % a.pairs, &tile[0], &tile[1]);
        load_panels(panels, &a, from, tile, first, last);
        for (long long k = first; k < last; k += BK) {
            const int odd = (int)((k - first) / BK % 2);
            const REAL *now = panels + odd * 2 * SIDE;
            ptx_copy_wait<0>();
            __syncthreads(); /* this panel is there, and the other one is no longer read */
            load_panels(panels + (1 - odd) * 2 * SIDE, &a, from, tile, k + BK, last);
#pragma unroll 2
            for (int c = 0; c < BK; c++) {
                REAL n[OWN], l[OWN];
                read(n, now + c * LD, y);
                read(l, now + SIDE + c * LD, x);
#pragma unroll
                for (int i = 0; i < OWN; i++)
#pragma unroll
                    for (int j = 0; j < OWN; j++)
                        sums[i][j] += n[i] * l[j];
            }
        }
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            REAL *row = part + place_of(y, i) * side;
#pragma unroll
            for (int j = 0; j < OWN; j++) {
                const int col = place_of(x, j);
                if (place_of(y, i) < side && col < side)
                    row[col] = a.first ? sums[i][j] : row[col] + sums[i][j];
            }
        }
        __syncthreads(); /* the panels are no longer read */
    }
}
