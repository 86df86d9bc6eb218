/*
 * kernel_matmul_vjp.cu - gradients of products with kernel matrices to points, of which nothing of
 * the size of the matrix leaves the registers
 *
 *     sums[slice][k][i] = sum over the centres j of a slice of
 *         w(s(x[i], y[j])) (sum_c right[i][c] left[j][c]) sgn(d) |d|^(p-1),  d = x[i][k] - y[j][k]
 *
 * or with y[j][k] in the place of the power for inner products; w is the weight of GRAM_WEIGHT.  A
 * thread keeps ROWS points x, with their coordinates, their rows of right, and as many sums as they
 * have coordinates.  The threads of a block have different points and go through the same centres
 * y: MATMUL_POINTS of them at a time lie in shared memory, each with its row of left behind it, so
 * that all threads read the same 16 bytes at once.  Columns of left and right beyond COLUMNS are
 * those of other blocks, which compute the weights again.  kernel_matmul_sum.cu adds the slices and
 * these groups of columns.  Slices follow from the sizes of the problem alone, and so do the
 * results.
 *
 * A pair takes, with p = 2 and a Gaussian, a subtraction and two multiply-adds for each coordinate,
 * one of them for each column, and four instructions for w: 3 d + c + 4, where the product takes
 * 2 d + c + 2.  Differences are taken as such: an expansion would lose digits of points far from
 * the origin.
 *
 * Parameters (-D), set by cuda_kernel_matmul_vjp.c:
 *   REAL, IS_DOUBLE, STEP, WHOLE, FRACTION, FUNCTION, BASE, SLOPE, HYPERS
 *             as in cdist.cu
 *   DEPTH     columns of x and y, at least 1
 *   ROWS      points that a thread has
 *   COLUMNS   of left and right that a pass takes: a power of two
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#define OUTPUT  PAIR_WEIGHT
#define STORED  DEVICE_REAL
#define MIX     0
/* A power of s that is its root has the slope of a root: see pair_map_params.h. */
#define INVERSE_ROOT (BASE == PAIR_SQRT)
#include "kernel_matmul_params.h"
#include "pair_map_params.h"
#include "ptx.cuh"

#define THREADS MATMUL_THREADS
#define POINTS  MATMUL_POINTS

#include "kernel_elements.cuh"

/* c e^-t, perhaps times a slope: the sums are multiplied by c */
#define EXPONENTIAL \
  (QUICK && FUNCTION >= PAIR_LAPLACE && FUNCTION <= PAIR_EXPONENTIAL_POWER)

/* What a block computes: the same for all of its threads. */
struct share {
    long long item, row; /* of the batch; of x, its first one */
    long long first;     /* column of left and right */
    int columns;
    const REAL *x, *y;
    const REAL *left[2], *right[2];
    REAL *sums;           /* of the slice and the group, from row 0 of the round on */
    long long begin, end; /* centres */
};

/* The at'th share of a round: blocks that follow each other read the same centres. */
static __device__ void find_share(const struct kernel_vjp_params *a, long long at,
                                  struct share *share)
{
    const struct pair_params *p = &a->pair;
    const long long blocks = (a->round.rows + ROWS * THREADS - 1) / (ROWS * THREADS);
    const long long part = at / blocks % (a->slices * a->groups);
    const long long local = at / blocks / (a->slices * a->groups);
    const long long slice = part % a->slices, first = part / a->slices * COLUMNS;

    share->row = at % blocks * (ROWS * THREADS);
    share->item = a->round.first_item + local;
    share->first = first;
    share->columns = a->columns - first < COLUMNS ? (int)(a->columns - first) : COLUMNS;
    share->x = (const REAL *)p->x.data +
               batch_offset(p->batch_shape, p->batch_ndim, p->x.batch_stride, share->item) +
               a->round.first_row * p->x.row_stride;
    share->y = (const REAL *)p->y.data +
               batch_offset(p->batch_shape, p->batch_ndim, p->y.batch_stride, share->item);
    for (int f = 0; f < 2; f++) {
        const struct device_view *left = &a->left[f], *right = &a->right[f];
        share->left[f] =
            (const REAL *)left->data +
            batch_offset(p->batch_shape, p->batch_ndim, left->batch_stride, share->item);
        share->right[f] =
            (const REAL *)right->data +
            batch_offset(p->batch_shape, p->batch_ndim, right->batch_stride, share->item) +
            a->round.first_row * right->row_stride;
    }
    share->sums = (REAL *)a->sums +
                  (local * a->slices * a->groups + part) * DEPTH * a->round.rows;
    share->begin = slice * a->slice_points;
    share->end = share->begin + a->slice_points;
    share->end = share->end < p->cols ? share->end : p->cols;
}

/* ---- Rows of left and right ------------------------------------------------------------------ */

/* Column c of the share, of a row of one of the two; the columns of the second factor lie behind
 * those of the first. */
static __device__ REAL factor_at(const struct kernel_vjp_params *a, const struct share *share,
                                 const struct device_view (&view)[2], const REAL *const (&from)[2],
                                 long long row, int c)
{
    const long long column = share->first + c;
    const bool second = column >= a->factor_columns;
    const long long stride = second ? view[1].row_stride : view[0].row_stride;
    const long long step = second ? view[1].col_stride : view[0].col_stride;

    if (c >= share->columns)
        return 0;
    return (second ? from[1] : from[0])[row * stride +
                                        (second ? column - a->factor_columns : column) * step];
}

/* Centres [first, first + points), each with its row of left. */
static __device__ void load_points(const struct kernel_vjp_params *a, const struct share *share,
                                   long long first, int points, REAL *to)
{
    load_coordinates(a, share, first, points, to);
    for (int e = (int)threadIdx.x; e < points * COLUMNS; e += THREADS) {
        const int j = e / COLUMNS, c = e % COLUMNS;
        to[j * LD + DEPTH + c] = factor_at(a, share, a->left, share->left, first + j, c);
    }
}

/* The rows of right of the thread's points, zeros beyond those that there are. */
static __device__ void load_right(const struct kernel_vjp_params *a, const struct share *share,
                                  REAL (&right)[ROWS][COLUMNS])
{
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long long row = share->row + r * THREADS + threadIdx.x;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            right[r][c] = row < a->round.rows
                              ? factor_at(a, share, a->right, share->right, row, c)
                              : (REAL)0;
    }
}

/* ---- Weights, and what they multiply --------------------------------------------------------- */

/* w of a finished sum, but for the factor of factor_of. */
static __device__ REAL weight_of(const struct pair_map *map, REAL rate, REAL s)
{
#if EXPONENTIAL
    const REAL decay = ptx_exp2(rate * raised(&map->base, BASE, s));

    if (SLOPE == PAIR_UNIT && STEP != PAIR_DOT)
        return decay; /* where points coincide, what it multiplies is 0 */
    return map->sloped ? decay * slope_of(map, s) : decay;
#else
    return mapped(map, s);
#endif
}

static __device__ REAL factor_of(const struct pair_map *map)
{
    return EXPONENTIAL ? (REAL)map->c[0] : (REAL)1;
}

static __device__ float signed_as(float size, float sign) { return copysignf(size, sign); }
static __device__ double signed_as(double size, double sign) { return copysign(size, sign); }

#if STEP == PAIR_POWER && FRACTION
/* a^(p-1), 0 where a is */
static __device__ REAL power_below(REAL a, const struct pair_map *map,
                                   const struct pair_power *power)
{
#  if IS_DOUBLE
    return a == 0 ? 0 : add_power(0, a, power) / a;
#  elif WHOLE == 0
    return a == 0 ? 0 : ptx_exp2((float)(map->p - 1) * ptx_log2(a));
#  else
    return product<WHOLE - 1>(a) * ptx_exp2((float)map->fraction * ptx_log2(a));
#  endif
}
#endif

/* sgn(d) |d|^(p-1) of a coordinate, 0 where d is; most: the finished sum, for p = infinity. */
static __device__ REAL slope_of_step(REAL x, REAL y, REAL most, const struct pair_map *map,
                                     const struct pair_power *power)
{
    const REAL d = x - y, a = magnitude(d);

    switch (STEP) {
    case PAIR_DOT:
        return y;
    case PAIR_HALF:
        return d == 0 ? 0 : signed_as(reciprocal(root(a)), d);
    case PAIR_ONE:
        return signed_as(d == 0 ? (REAL)0 : (REAL)1, d);
    case PAIR_THREE_HALVES:
        return signed_as(root(a), d);
    case PAIR_TWO:
        return d;
    case PAIR_INFINITY: /* NaN among them is the sum, and so in the weight */
        return a < most || d == 0 ? 0 : signed_as((REAL)1, d);
#if STEP == PAIR_POWER && FRACTION
    case PAIR_POWER:
        return signed_as(power_below(a, map, power), d);
#elif STEP == PAIR_POWER && WHOLE > 2
    case PAIR_POWER:
        return d * product<WHOLE - 2>(a);
#endif
    default:
        return 0;
    }
}

/* ---- The sums of a block --------------------------------------------------------------------- */

/* Adds `points` centres in shared memory, the first of which is centre `first`. */
static __device__ void add_points(const struct kernel_vjp_params *a, const struct share *share,
                                  const struct pair_map *map, REAL rate,
                                  const REAL (&x)[ROWS][DEPTH], const REAL (&right)[ROWS][COLUMNS],
                                  const struct group *at, long long first, int points,
                                  REAL (&acc)[ROWS][DEPTH])
{
#pragma unroll 1
    for (int j = 0; j < points; j++, at += GROUPS) {
        REAL point[LD], s[ROWS];
        read_point(at, point);
        find_sums(a, share, map, x, point, first + j, s);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            REAL cotangent = 0;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                cotangent += right[r][c] * point[DEPTH + c];
            const REAL weight = cotangent * weight_of(map, rate, s[r]);
#pragma unroll
            for (int k = 0; k < DEPTH; k++)
                acc[r][k] +=
                    weight * slope_of_step(x[r][k], point[k], s[r], map, &a->pair.power);
        }
    }
}

static __device__ void compute(const struct kernel_vjp_params *a, const struct share *share,
                               const struct pair_map *map, struct group *points)
{
    const REAL rate = EXPONENTIAL ? -binary_rate(map) : 0, factor = factor_of(map);
    const bool valid = !HYPERS || map->valid;
    REAL x[ROWS][DEPTH], right[ROWS][COLUMNS], acc[ROWS][DEPTH] = {};

    load_rows(a, share, x);
    load_right(a, share, right);
#pragma unroll 1
    for (long long first = share->begin; first < share->end; first += POINTS) {
        const int count = stage_points(a, share, first, points);
        add_points(a, share, map, rate, x, right, points, first, count, acc);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long long row = share->row + r * THREADS + threadIdx.x;
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (row < a->round.rows)
                share->sums[k * a->round.rows + row] =
                    valid ? factor * acc[r][k] : (REAL)__int_as_float(0x7fc00000);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_matmul_vjp(const __grid_constant__ struct kernel_vjp_params a)
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
