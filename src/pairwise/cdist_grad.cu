/*
 * cdist_grad.cu - gradients of kernel expansions on the device, a tile at a time
 *
 *   out[o, n, m] = sum_k c[o, k] a[k, m] sgn(d[n, m] - b[n, k]) |d[n, m] - b[n, k]|^(p - 1)
 *
 * A block computes tiles of TO outputs, BN features and BM points of an item, over one part of the
 * centres k; each thread OWN outputs by TN features by TM points.  Panels of BK centres of a, b and
 * c come to shared memory by asynchronous copies, two deep.  There a centre's features, points and
 * outputs are neighbours; rows are 16 bytes longer than they need to be, so that copies of columns
 * do not all meet in one bank.  The parts of the centres are added by cdist_grad_sum.
 *
 * p = 2 in f32 has a file of its own, cdist_grad_mma.cu.
 *
 * Parameters (-D), set by cuda_cdist_grad.c; the steps are named in grad_params.h:
 *   REAL, IS_DOUBLE  float or double
 *   STEP, WHOLE      the term
 *   TO, TN, TM       outputs of a tile, features and points of a thread: any TO, but 8 or 16 with
 *                    p = 1 and several outputs in f32; TN and TM powers of 2
 *   A_LOAD, B_LOAD   2: aligned groups of 16 bytes along points, or features; 1: any strides,
 *                    points or features are near; 0: any strides, centres are near
 *   P_TENSOR         1: p is read from a tensor
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "grad_params.h"
#include "ptx.cuh"

#if STEP < GRAD_SIGN || STEP > GRAD_ANY || (STEP == GRAD_SQUARE && !IS_DOUBLE)
#  error "cdist_grad.cu: STEP must be one of grad_params.h, GRAD_SQUARE in f64 alone"
#endif

#define LANES ((int)(16 / sizeof(REAL))) /* of a 16-byte read */
/* By tensor cores: see grad_terms.cuh. */
#define SIGNS (STEP == GRAD_SIGN && TO > 1 && !IS_DOUBLE)
#define TX    (SIGNS ? 4 : 16) /* threads along points */
#define TY    (SIGNS ? 8 : THREADS / TX)
#define OWN   (SIGNS ? TO / 4 : TO) /* outputs of a thread */
#if STEP == GRAD_SQUARE
#  define THREADS 256
#  define BLOCKS  1 /* on a multiprocessor */
#else
#  define THREADS 128
#  define BLOCKS  (SIGNS ? 2 : 3)
#endif
#define BK     (SIGNS ? GRAD_SIGN_CENTRES : TO > 1 && STEP != GRAD_SQUARE ? 8 : 16)
#define BM     (TX * TM)
#define BN     (TY * TN)
#define A_LD   (BM + LANES)
#define B_LD   (BN + (SIGNS ? 2 : 1) * LANES)
#define C_LD   (TO == 1 ? 1 : (TO + LANES - 1) / LANES * LANES)
#define STAGE  (BK * (A_LD + B_LD + C_LD))
#define TOTALS (STEP == GRAD_SQUARE ? 0 : OWN * TN * TM * THREADS)

/* Centres of a round of the loop: the longer terms would not fit the cache of instructions. */
static constexpr int unrolled = STEP == GRAD_SIGN && TO == 1 ? 4 : 2;

struct grad_sums {
    REAL at[OWN][TN][TM];
    REAL weight[TM]; /* the sum of c a */
};

struct grad_panels {
    const REAL *a, *b, *c;
};

#include "grad_tile.cuh"

/* ---- Panels --------------------------------------------------------------------------------- */

static __device__ int panel_count(const struct grad_tile *tile)
{
    return (int)((tile->centres + BK - 1) / BK);
}

static __device__ int centres_left(const struct grad_tile *tile, int panel)
{
    const long long left = tile->centres - (long long)panel * BK;

    return left < BK ? (int)left : BK;
}

static __device__ struct grad_panels panels_at(const REAL *panels, int panel)
{
    const REAL *a = panels + panel % 2 * STAGE, *b = a + BK * A_LD;
    const struct grad_panels at = {a, b, b + BK * B_LD};

    return at;
}

/* Which elements of a panel, SIZE near each other of BK centres, a thread copies: WIDTH of them in
 * each round.  They are the same in every panel, so that their addresses are known. */
template <int LOAD, int SIZE> struct grad_copy {
    static constexpr int WIDTH = LOAD == 2 ? LANES : 1, AT_ONCE = THREADS * WIDTH, ALL = BK * SIZE;
    static constexpr int ROUNDS = (ALL + AT_ONCE - 1) / AT_ONCE;
    static constexpr int CENTRES = LOAD ? AT_ONCE / SIZE : 0, NEAR = LOAD ? 0 : AT_ONCE / BK;

    static __device__ int first()
    {
        return (int)threadIdx.x * WIDTH;
    }
    static __device__ int centre(int round)
    {
        return (LOAD ? first() / SIZE : first() % BK) + round * CENTRES;
    }
    static __device__ int near(int round)
    {
        return (LOAD ? first() % SIZE : first() / BK) + round * NEAR;
    }
    static __device__ bool exists(int round)
    {
        return ALL % AT_ONCE == 0 || first() + round * AT_ONCE < ALL;
    }
};

/* SIZE elements of each of `left` centres, of which `count` are there; zeros for the others. */
template <int LOAD, int SIZE, int LD>
static __device__ void load_panel(REAL *to, const REAL *from, long long stride,
                                  long long centre_stride, int count, int left)
{
    typedef grad_copy<LOAD, SIZE> copy;
    const int k = copy::centre(0), at = copy::near(0);
    const REAL *source = from + k * centre_stride + at * (LOAD == 2 ? 1 : stride);
    int width = LOAD == 2 ? count - at : 1;

    width = (width < 0 ? 0 : width > copy::WIDTH ? copy::WIDTH : width) * (int)sizeof(REAL);
    to += k * LD + at;
#pragma unroll
    for (int r = 0; r < copy::ROUNDS; r++) {
        const int bytes = copy::centre(r) < left && copy::near(r) < count ? width : 0;
        if (copy::exists(r))
            ptx_copy_async<copy::WIDTH *(int)sizeof(REAL)>(
                to + r * (copy::CENTRES * LD + copy::NEAR), bytes ? source : from, bytes);
        source += LOAD ? copy::CENTRES * centre_stride : copy::NEAR * stride;
    }
}

/* Loads the panel'th panels of a, b and c, if panel < count. */
static __device__ void load_panels(const struct grad_params *a, const struct grad_tile *tile,
                                   REAL *panels, int panel, int count)
{
    const long long k = (long long)panel * BK;
    REAL *const to_a = panels + panel % 2 * STAGE, *const to_b = to_a + BK * A_LD;

    if (panel < count) {
        const int left = centres_left(tile, panel);
        load_panel<A_LOAD, BM, A_LD>(to_a, tile->a + k * a->a.row_stride, a->a.col_stride,
                                     a->a.row_stride, tile->points, left);
        load_panel<B_LOAD, BN, B_LD>(to_b, tile->b + k * a->b.col_stride, a->b.row_stride,
                                     a->b.col_stride, tile->features, left);
        load_panel<0, TO, C_LD>(to_b + BK * B_LD, tile->c + k * a->c.col_stride, a->c.row_stride,
                                a->c.col_stride, tile->outputs, left);
    }
    ptx_copy_commit();
}

/* ---- What a thread has of a tile ------------------------------------------------------------ */

#if SIGNS
/* A warp has TM points; of its lanes each group of four shares features, and has OWN outputs each.
 */
static __device__ int point_of(int j)
{
    return (int)threadIdx.x / 32 * TM + j;
}

static __device__ int feature_of(int i)
{
    return (i / LANES * 8 + (int)threadIdx.x % 32 / 4) * LANES + i % LANES;
}

static __device__ int output_of(int o)
{
    return (int)threadIdx.x % 4 * OWN + o;
}
#else
/* The columns and rows of threads: along points and along features.  A warp has 16 by 2 of them,
 * but with p = 2, where shared memory is the narrow way, 8 by 4: they read fewer different groups.
 */
static __device__ int thread_column()
{
    return STEP == GRAD_SQUARE ? (int)threadIdx.x / 32 % 2 * 8 + (int)threadIdx.x % 8
                               : (int)threadIdx.x % TX;
}

static __device__ int thread_row()
{
    return STEP == GRAD_SQUARE ? (int)threadIdx.x / 64 * 4 + (int)threadIdx.x % 32 / 8
                               : (int)threadIdx.x / TX;
}

/* Neighbouring threads read neighbouring groups of points; the features of a thread follow each
 * other. */
static __device__ int point_of(int j)
{
    return TM < LANES ? thread_column() * TM + j
                      : (j / LANES * TX + thread_column()) * LANES + j % LANES;
}

static __device__ int feature_of(int i)
{
    return thread_row() * TN + i;
}

static __device__ int output_of(int o)
{
    return o;
}
#endif

template <int N> struct __align__(N * sizeof(REAL)) grad_group
{
    REAL at[N];
};

/* COUNT numbers from `from`, groups of them STEP_ apart. */
template <int COUNT, int STEP_> static __device__ void read_groups(REAL to[COUNT], const REAL *from)
{
    constexpr int SIZE = COUNT < LANES ? COUNT : LANES;

#pragma unroll
    for (int i = 0; i < COUNT; i += SIZE) {
        const grad_group<SIZE> group = *(const grad_group<SIZE> *)(from + i / SIZE * STEP_);
#pragma unroll
        for (int l = 0; l < SIZE; l++)
            to[i + l] = group.at[l];
    }
}

static __device__ void read_points(REAL to[TM], const REAL *row)
{
    read_groups<TM, TX * LANES>(to, row + point_of(0));
}

#if !SIGNS
static __device__ void read_features(REAL to[TN], const REAL *row)
{
    read_groups<TN, LANES>(to, row + feature_of(0));
}

static __device__ void read_outputs(REAL to[TO], const REAL *row)
{
    REAL all[C_LD];

    read_groups<C_LD, LANES>(all, row);
#  pragma unroll
    for (int o = 0; o < TO; o++)
        to[o] = all[o];
}
#endif

#if STEP == GRAD_SQUARE
#  include "grad_square.cuh"
#else
#  include "grad_terms.cuh"
#endif

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    cdist_grad(const __grid_constant__ struct grad_params a)
{
    extern __shared__ __align__(16) REAL memory[]; /* 2 STAGE + TOTALS */
    __shared__ struct grad_tile tile;
    const long long tiles = a.items * a.splits * a.point_tiles * a.output_tiles * a.feature_tiles;

#if STEP == GRAD_POWER
    fill_powers(&a.power);
#endif
    for (long long at = blockIdx.x; at < tiles; at += gridDim.x) {
        __syncthreads(); /* the last tile is stored */
        if (threadIdx.x == 0)
            find_tile(&a, at, &tile);
        __syncthreads();
        compute(&a, &tile, memory);
    }
}
