/*
 * kernel_matmul.cu - products with a kernel matrix whose elements never leave the registers
 *
 *     sums[slice][c][i] = sum over the points j of a slice of y of f(s(x[i], y[j])) v[j][c]
 *
 * A thread keeps ROWS rows of x, with all of their coordinates, and ROWS by COLUMNS sums in
 * registers.  The threads of a block have different rows and go through the same points of y:
 * MATMUL_POINTS of them at a time lie in shared memory, each with its row of v behind it, so that
 * all threads read the same 16 bytes at once.  A block has one slice of y; kernel_matmul_sum.cu
 * adds the slices.  Slices follow from the sizes of the problem alone, and so do the results.
 *
 * With MIRROR an element serves its mirror image too: the threads' products with v[i] are added
 * over the rows of the block, and go to a place of the block of rows.  A block then has the points
 * from its own rows on, of which those in its own rows and in a last block that is not filled are
 * not mirrored; that last block has all points.
 *
 * Distances are sums of differences, so that near points need no correction.  In f32, e^-t is the
 * special function 2^x, whose error of 2 units in the last place is far below the bound that
 * gram.h promises for f.
 *
 * Parameters (-D), set by cuda_kernel_matmul_fused.c:
 *   REAL, IS_DOUBLE, STORED, STEP, WHOLE, FRACTION, FUNCTION, OUTPUT, BASE, SLOPE, HYPERS
 *             as in cdist.cu; MIX is 0
 *   DEPTH     columns of x and y, at least 1
 *   ROWS      of x that a thread has
 *   COLUMNS   of v that a pass takes: a power of two
 *   MIRROR    1: y is x; COLUMNS is at most 8
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#include "kernel_matmul_params.h"
#include "pair_map_params.h"
#include "ptx.cuh"

#define THREADS MATMUL_THREADS
#define POINTS  MATMUL_POINTS

#include "kernel_elements.cuh"

/* e^-t alone, t a positive multiple of a power of the sum */
#define PLAIN                                                                        \
  (QUICK && OUTPUT == PAIR_VALUE && FUNCTION >= PAIR_LAPLACE &&                      \
   FUNCTION <= PAIR_EXPONENTIAL_POWER)
/* Points whose arithmetic is mixed: what is long needs no more of it. */
#define MIXED_POINTS (ROWS * (DEPTH + COLUMNS) <= 64 && !TABLED ? 2 : 1)

/* What a block computes: the same for all of its threads. */
struct share {
    long long item, row;    /* of the batch; of x, its first one */
    long long slice, group; /* of y; of columns of v */
    const element *x, *y;
    const REAL *v;
    REAL *sums; /* of the slice and the group, from row 0 of the round on */
    int columns;
    long long begin, end; /* points */
#if MIRROR
    long long mirror_begin, mirror_end; /* points whose elements are mirrored */
    const REAL *w;                      /* row `row` of v */
    REAL *mirrors;                      /* of the block and the group */
#endif
};

/* The at'th share of a round: blocks that follow each other read the same points. */
static __device__ void find_share(const struct kernel_matmul_params *a, long long at,
                                  struct share *share)
{
    const struct pair_params *p = &a->pair;
    const long long blocks = (a->round.rows + ROWS * THREADS - 1) / (ROWS * THREADS);
    const long long rest = at / blocks, slices = rest / a->slices;
    const long long local = slices / a->groups;

    share->row = at % blocks * (ROWS * THREADS);
    share->slice = rest % a->slices;
    share->group = slices % a->groups;
    share->item = a->round.first_item + local;
    share->x = (const element *)p->x.data +
               batch_offset(p->batch_shape, p->batch_ndim, p->x.batch_stride, share->item) +
               a->round.first_row * p->x.row_stride;
    share->y = (const element *)p->y.data +
               batch_offset(p->batch_shape, p->batch_ndim, p->y.batch_stride, share->item);
    share->v = (const REAL *)a->v.data +
               batch_offset(p->batch_shape, p->batch_ndim, a->v.batch_stride, share->item) +
               share->group * COLUMNS * a->v.col_stride;
    share->columns = a->columns - share->group * COLUMNS < COLUMNS
                         ? (int)(a->columns - share->group * COLUMNS)
                         : COLUMNS;
    share->sums = (REAL *)a->sums +
                  ((local * a->slices + share->slice) * a->columns + share->group * COLUMNS) *
                      a->round.rows;
    share->begin = share->slice * a->slice_points;
    share->end = share->begin + a->slice_points;
    share->end = share->end < p->cols ? share->end : p->cols;
#if MIRROR
    const long long row = a->round.first_row + share->row, next = row + ROWS * THREADS;
    const bool filled = next <= p->cols;

    if (filled && share->begin < row)
        share->begin = row;
    share->mirror_begin = next;
    share->mirror_end = filled ? p->cols / (ROWS * THREADS) * (ROWS * THREADS) : 0;
    share->w = share->v + row * a->v.row_stride;
    share->mirrors =
        (REAL *)a->mirrors +
        ((local * blocks + at % blocks) * a->columns + share->group * COLUMNS) * p->cols;
#endif
}

/* ---- Points in shared memory ----------------------------------------------------------------- */

/* Points [first, first + points) of y, each with its columns of v. */
static __device__ void load_points(const struct kernel_matmul_params *a,
                                   const struct share *share, long long first, int points,
                                   REAL *to)
{
    const struct device_view *v = &a->v;

    load_coordinates(a, share, first, points, to);
    for (int e = (int)threadIdx.x; e < points * COLUMNS; e += THREADS) {
        const int j = e / COLUMNS, c = e % COLUMNS;
        to[j * LD + DEPTH + c] =
            c < share->columns ? share->v[(first + j) * v->row_stride + c * v->col_stride] : 0;
    }
}

/* ---- Elements of the kernel matrix ----------------------------------------------------------- */

/* f of a finished sum. */
static __device__ REAL value_of(const struct pair_map *map, REAL rate, REAL s)
{
#if PLAIN
    return ptx_exp2(rate * raised(&map->base, BASE, s));
#else
    return mapped(map, s);
#endif
}

/* ---- The products of a block ----------------------------------------------------------------- */

/* The elements of a point, which lies in shared memory at `at`, and its numbers. */
static __device__ void find_elements(const struct kernel_matmul_params *a,
                                     const struct share *share, const struct pair_map *map,
                                     REAL rate, const REAL (&x)[ROWS][DEPTH],
                                     const struct group *at, long long point_number,
                                     REAL (&point)[LD], REAL (&k)[ROWS])
{
    read_point(at, point);
    find_sums(a, share, map, x, point, point_number, k);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        k[r] = value_of(map, rate, k[r]);
}

/* Adds the products of `points` points in shared memory, the first of which is point `first` of
 * y. */
static __device__ void multiply(const struct kernel_matmul_params *a, const struct share *share,
                                const struct pair_map *map, REAL rate,
                                const REAL (&x)[ROWS][DEPTH], const struct group *at,
                                long long first, int points, REAL (&acc)[ROWS][COLUMNS])
{
#pragma unroll MIXED_POINTS
    for (int j = 0; j < points; j++, at += GROUPS) {
        REAL point[LD], k[ROWS];
        find_elements(a, share, map, rate, x, at, first + j, point, k);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                acc[r][c] += k[r] * point[DEPTH + c];
    }
}

#if MIRROR
/* ---- Mirror images --------------------------------------------------------------------------- */

#  define WARPS    (THREADS / 32)
#  define BATCH    4 /* sums over a warp that are found together */
#  define TOGETHER (COLUMNS < BATCH ? BATCH / COLUMNS : 1) /* points that a batch is of */

/* The sum of s[lane / 8] over all lanes of a warp: lanes keep half of the sums in each of two
 * steps. */
static __device__ REAL sum_of_warp(const REAL *s, unsigned lane)
{
    const bool high = lane & 16, right = lane & 8;
    const REAL a = (high ? s[2] : s[0]) + __shfl_xor_sync(~0u, high ? s[0] : s[2], 16);
    const REAL b = (high ? s[3] : s[1]) + __shfl_xor_sync(~0u, high ? s[1] : s[3], 16);
    REAL sum = (right ? b : a) + __shfl_xor_sync(~0u, right ? a : b, 8);

    sum += __shfl_xor_sync(~0u, sum, 4);
    sum += __shfl_xor_sync(~0u, sum, 2);
    return sum + __shfl_xor_sync(~0u, sum, 1);
}

/* The same as multiply for POINTS points; the products with w, the rows of v that are the thread's,
 * are added over the warp and go to `mirror`: [point][column]. */
static __device__ void multiply_both(const struct kernel_matmul_params *a,
                                     const struct share *share, const struct pair_map *map,
                                     REAL rate, const REAL (&x)[ROWS][DEPTH],
                                     const REAL (&w)[ROWS][COLUMNS], const struct group *at,
                                     long long first, REAL (&acc)[ROWS][COLUMNS], REAL *mirror)
{
    const unsigned lane = threadIdx.x % 32;

#pragma unroll 1
    for (int j = 0; j < POINTS; j += TOGETHER) {
        REAL sums[TOGETHER * COLUMNS] = {};
#pragma unroll
        for (int u = 0; u < TOGETHER; u++, at += GROUPS) {
            REAL point[LD], k[ROWS];
            find_elements(a, share, map, rate, x, at, first + j + u, point, k);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    acc[r][c] += k[r] * point[DEPTH + c];
                    sums[u * COLUMNS + c] += k[r] * w[r][c];
                }
        }
#pragma unroll
        for (int b = 0; b < TOGETHER * COLUMNS; b += BATCH) {
            const REAL sum = sum_of_warp(sums + b, lane);
            if (lane % 8 == 0)
                mirror[j * COLUMNS + b + lane / 8] = sum;
        }
    }
}

/* Adds the warps' sums of POINTS points, the first of which is `first`. */
static __device__ void store_mirrors(const struct kernel_matmul_params *a,
                                     const struct share *share, bool valid,
                                     const REAL (*mirror)[POINTS * COLUMNS], long long first)
{
    for (int e = (int)threadIdx.x; e < POINTS * share->columns; e += THREADS) {
        const int j = e % POINTS, c = e / POINTS;
        REAL sum = 0;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++)
            sum += mirror[warp][j * COLUMNS + c];
        share->mirrors[c * a->pair.cols + first + j] =
            valid ? sum : (REAL)__int_as_float(0x7fc00000);
    }
}

/* Rows of v that are the thread's, 0 beyond the columns that there are. */
static __device__ void load_weights(const struct kernel_matmul_params *a,
                                    const struct share *share, REAL (&w)[ROWS][COLUMNS])
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long long row = r * THREADS + threadIdx.x;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            w[r][c] = share->row + row < a->round.rows && c < share->columns
                          ? share->w[row * a->v.row_stride + c * a->v.col_stride]
                          : (REAL)0;
    }
}
#endif

static __device__ void compute(const struct kernel_matmul_params *a, const struct share *share,
                               const struct pair_map *map, struct group *points)
{
    const REAL rate = PLAIN ? -binary_rate(map) : 0;
    const bool valid = !HYPERS || map->valid;
    REAL x[ROWS][DEPTH], acc[ROWS][COLUMNS] = {};
#if MIRROR
    __shared__ REAL mirror[WARPS][POINTS * COLUMNS];
    REAL w[ROWS][COLUMNS];
    load_weights(a, share, w);
#endif

    load_rows(a, share, x);
#pragma unroll 1
    for (long long first = share->begin; first < share->end; first += POINTS) {
        const int count = stage_points(a, share, first, points);
#if MIRROR
        if (first >= share->mirror_begin && first < share->mirror_end) {
            multiply_both(a, share, map, rate, x, w, points, first, acc, mirror[threadIdx.x / 32]);
            __syncthreads();
            store_mirrors(a, share, valid, mirror, first);
            continue;
        }
#endif
        multiply(a, share, map, rate, x, points, first, count, acc);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long long row = share->row + r * THREADS + threadIdx.x;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (row < a->round.rows && c < share->columns)
                share->sums[c * a->round.rows + row] =
                    valid ? acc[r][c] : (REAL)__int_as_float(0x7fc00000);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_matmul(const __grid_constant__ struct kernel_matmul_params a)
{
    __shared__ struct group points[POINTS * GROUPS];
    __shared__ struct share share;
    const long long blocks = (a.round.rows + ROWS * THREADS - 1) / (ROWS * THREADS);
    const long long shares = blocks * a.slices * a.groups * a.round.items;
#if HYPERS
    __shared__ struct pair_map map;
#else
    const struct pair_map &map = a.pair.map;
#endif

#if TABLED
    fill_powers(&a.pair.power);
#endif
    for (long long at = blockIdx.x; at < shares; at += gridDim.x) {
        __syncthreads(); /* the last share is done */
        if (threadIdx.x == 0) {
            find_share(&a, at, &share);
#if HYPERS
            prepare(&a.pair, share.item, &map);
#endif
        }
        __syncthreads();
        compute(&a, &share, &map, points);
    }
}
