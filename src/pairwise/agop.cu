/*
 * agop.cu - sums of outer products of gradients: products of chunks of columns, then their sum
 *
 *   agop             part[n][l] = or += sum over columns of g[n] g[l]
 *   agop_diagonal    part[n]    = or += sum over columns of g[n]^2
 *   agop_sum         out        = or += scale times the sum of the parts, both triangles alike
 *
 * A column holds the gradient of an output at a point, and a chunk is a range of columns.  Parts
 * are added in the order of the chunks, so that timing does not matter.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "grad_params.h"
#include "ptx.cuh"

/* The tiles on and below the diagonal, row by row: (0, 0), (1, 0), (1, 1), (2, 0). */
static __device__ void find_pair(long long at, long long *row, long long *col)
{
    long long r = (long long)((sqrt(8 * (double)at + 1) - 1) / 2);

    while (r * (r + 1) / 2 > at)
        r--;
    while ((r + 1) * (r + 2) / 2 <= at)
        r++;
    *row = r;
    *col = at - r * (r + 1) / 2;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* A block does one tile of out, on or below the diagonal, over one chunk of the columns; each of
 * its 64 threads 8 by 8 elements, in groups of 16 bytes that neighbouring threads have side by
 * side.  Panels of BK columns come by asynchronous copies, two deep. */
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

/* ---- Squared lengths ------------------------------------------------------------------------ */

/* A block does 32 features over one chunk of the columns, of which each of AGOP_SHARES threads of a
 * feature takes its share. */
extern "C" __global__ void __launch_bounds__(32 * AGOP_SHARES)
    agop_diagonal(const __grid_constant__ struct agop_params a)
{
    __shared__ double sums[AGOP_SHARES][32];
    const int lane = (int)threadIdx.x % 32, share = (int)threadIdx.x / 32;
    const long long groups = (a.features + 31) / 32;

    for (long long at = blockIdx.x; at < a.items * groups * a.chunks; at += gridDim.x) {
        const long long item = at / (groups * a.chunks), part_of = at / groups;
        const long long n = at % groups * 32 + lane;
        const long long first = part_of % a.chunks * a.chunk_columns;
        const long long last =
            a.columns - first < a.chunk_columns ? a.columns : first + a.chunk_columns;
        const REAL *g = (const REAL *)a.gradients + item * a.columns * a.ld + n;
        REAL *part = (REAL *)a.parts + part_of * a.features + n;
        double sum = 0;

#pragma unroll 4
        for (long long k = first + share; n < a.features && k < last; k += AGOP_SHARES)
            sum += (double)g[k * a.ld] * (double)g[k * a.ld];
        sums[share][lane] = sum;
        __syncthreads();
        if (share == 0 && n < a.features) {
            for (int s = 1; s < AGOP_SHARES; s++)
                sum += sums[s][lane];
            *part = a.first ? (REAL)sum : *part + (REAL)sum;
        }
        __syncthreads();
    }
}

/* ---- The sum of the parts ------------------------------------------------------------------- */

static __device__ REAL scaled_sum(const struct agop_params *a, const REAL *part, long long all)
{
    double sum = 0;

    for (long long chunk = 0; chunk < a->chunks; chunk++, part += all)
        sum += (double)*part;
    return (REAL)(sum * a->scale);
}

static __device__ void store_sum(const struct agop_params *a, REAL *to, REAL value)
{
    *to = a->add ? *to + value : value;
}

extern "C" __global__ void __launch_bounds__(256)
    agop_sum(const __grid_constant__ struct agop_params a)
{
    const long long size = a.side * a.side, step = (long long)gridDim.x * blockDim.x;
    const long long all = a.diagonal ? a.features : a.pairs * size;

    for (long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x; e < a.items * all;
         e += step) {
        const long long item = e / all, at = e - item * all;
        const REAL *part = (const REAL *)a.parts + item * a.chunks * all + at;
        REAL *out = (REAL *)a.out + batch_offset(a.shape, a.ndim, a.batch_stride, item);
        long long row, col;

        if (a.diagonal) {
            store_sum(&a, out + at * a.col_stride, scaled_sum(&a, part, all));
            continue;
        }
        find_pair(at / size, &row, &col);
        row = row * AGOP_TILE + at % size / a.side;
        col = col * AGOP_TILE + at % a.side;
        if (row < a.features && col <= row) {
            const REAL value = scaled_sum(&a, part, all);
            store_sum(&a, out + row * a.row_stride + col * a.col_stride, value);
            if (row != col)
                store_sum(&a, out + col * a.row_stride + row * a.col_stride, value);
        }
    }
}
