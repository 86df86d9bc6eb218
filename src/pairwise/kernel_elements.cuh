/*
 * kernel_elements.cuh - some points in a thread's registers, others in shared memory, and the inner
 * sums of their pairs
 *
 * Part of kernel_matmul.cu and kernel_matmul_vjp.cu, whose parameters it uses: those of
 * pair_terms.cuh, and STORED, DEPTH, ROWS and COLUMNS.  THREADS is what a block has, and POINTS
 * how many points lie in shared memory at a time: each has its coordinates, and COLUMNS numbers
 * behind them.  What a block computes is a struct of the file's own: of its members row, x, y
 * and end are used here.
 *
 * SPDX-License-Identifier: MIT
 */
#if STEP == PAIR_ANY
#  error "kernel_elements.cuh: a term whose p only the device knows is not unrolled"
#endif

#define LANES   ((int)(16 / sizeof(REAL))) /* of a 16-byte read */
#define GROUPS  ((DEPTH + COLUMNS + LANES - 1) / LANES)
#define LD      (GROUPS * LANES) /* of a point in shared memory */
#define LARGEST (IS_DOUBLE ? (REAL)0x1.fffffffffffffp1023 : (REAL)0x1.fffffep127f)
#define TABLED  (STEP == PAIR_POWER && FRACTION && WHOLE > 0)
#define QUICK   !IS_DOUBLE /* pair_terms.cuh: e^-t by the special function */

#include "device_view.cuh"
#include "stored.cuh"

typedef stored_as<STORED>::type element;

struct __align__(16) group {
    REAL at[LANES];
};

#include "pair_terms.cuh"
#if HYPERS
#  include "pair_hypers.cuh"
#endif

/* ---- Points ---------------------------------------------------------------------------------- */

/* A row of length 1, a row of zeros stays one: for GRAM_COSINE, whose norms are taken in f64. */
template <int COUNT> static __device__ void normalise(REAL *row)
{
    double squares = 0, scale;

#pragma unroll
    for (int k = 0; k < COUNT; k++)
        squares += (double)row[k] * (double)row[k];
    scale = squares == 0 ? 0 : 1 / sqrt(squares);
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        row[k] = (REAL)((double)row[k] * scale);
}

/* The rows of x that are the thread's, zeros beyond those that there are. */
template <class PARAMS, class SHARE>
static __device__ void load_rows(const PARAMS *a, const SHARE *share, REAL (&x)[ROWS][DEPTH])
{
    const struct device_view *v = &a->pair.x;

#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const long long row = share->row + r * THREADS + threadIdx.x;
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            x[r][k] = row < a->round.rows
                          ? real_of<STORED>(share->x[row * v->row_stride + k * v->col_stride])
                          : (REAL)0;
        if (FUNCTION == PAIR_COSINE)
            normalise<DEPTH>(x[r]);
    }
}

/* The coordinates of points [first, first + points) of y to shared memory. */
template <class PARAMS, class SHARE>
static __device__ void load_coordinates(const PARAMS *a, const SHARE *share, long long first,
                                        int points, REAL *to)
{
    const struct device_view *y = &a->pair.y;

    for (int e = (int)threadIdx.x; e < points * DEPTH; e += THREADS) {
        const int j = e / DEPTH, k = e % DEPTH;
        to[j * LD + k] =
            real_of<STORED>(share->y[(first + j) * y->row_stride + k * y->col_stride]);
    }
}

/* Points [first, first + POINTS) of a share of y, as many as there are, to shared memory, with the
 * file's load_points; returns how many.  All threads of the block come here. */
template <class PARAMS, class SHARE>
static __device__ int stage_points(const PARAMS *a, const SHARE *share, long long first,
                                   struct group *points)
{
    const long long left = share->end - first;
    const int count = left < POINTS ? (int)left : POINTS;

    __syncthreads(); /* the points before them are no longer read */
    load_points(a, share, first, count, points->at);
    __syncthreads();
    if (FUNCTION == PAIR_COSINE) {
        if ((int)threadIdx.x < count)
            normalise<DEPTH>(points[threadIdx.x * GROUPS].at);
        __syncthreads();
    }
    return count;
}

/* All numbers of the point that lies in shared memory at `at`. */
static __device__ void read_point(const struct group *at, REAL (&point)[LD])
{
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        const struct group part = at[g];
#pragma unroll
        for (int l = 0; l < LANES; l++)
            point[g * LANES + l] = part.at[l];
    }
}

/* ---- Sums ------------------------------------------------------------------------------------ */

#if TABLED
/* The sums where the fast ones are not to be trusted: few, and so one after the other. */
template <class PARAMS, class SHARE>
static __device__ void correct_sums(const PARAMS *a, const SHARE *share, double p, long long point,
                                    REAL s[ROWS])
{
    const struct device_view *x = &a->pair.x, *y = &a->pair.y;

#  pragma unroll 1
    for (int r = 0; r < ROWS; r++) {
        const long long row = share->row + r * THREADS + threadIdx.x;
        REAL sum = 0, old = 0;
#  pragma unroll
        for (int q = 0; q < ROWS; q++)
            old = q == r ? s[q] : old;
        if (row >= a->round.rows || !is_doubtful(old, DEPTH, p))
            continue;
#  pragma unroll 1
        for (int k = 0; k < DEPTH; k++) {
            const REAL d =
                magnitude(real_of<STORED>(share->x[row * x->row_stride + k * x->col_stride]) -
                          real_of<STORED>(share->y[point * y->row_stride + k * y->col_stride]));
            sum = d != d || sum != sum ? d + sum : sum + power(d, p);
        }
#  pragma unroll
        for (int q = 0; q < ROWS; q++)
            s[q] = q == r ? sum : s[q];
    }
}
#endif

/* The inner sums of the thread's rows with a point, which is the point_number'th of y. */
template <class PARAMS, class SHARE>
static __device__ void find_sums(const PARAMS *a, const SHARE *share, const struct pair_map *map,
                                 const REAL (&x)[ROWS][DEPTH], const REAL (&point)[LD],
                                 long long point_number, REAL (&s)[ROWS])
{
    const REAL fraction = (REAL)map->fraction;

#pragma unroll
    for (int r = 0; r < ROWS; r++)
        s[r] = 0;
#pragma unroll
    for (int d = 0; d < DEPTH; d++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            s[r] = step(s[r], x[r][d], point[d], map, fraction, &a->pair.power);
#if TABLED
    bool doubtful = false;
#  pragma unroll
    for (int r = 0; r < ROWS; r++)
        doubtful |= is_doubtful(s[r], DEPTH, map->p);
    if (doubtful)
        correct_sums(a, share, map->p, point_number, s);
#endif
}
