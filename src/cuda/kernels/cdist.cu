/*
 * cdist.cu - pairwise sums and functions of them: gram_cdist and gram_kernel on the device
 *
 * out[i][j] = f(sum_k term(x[i][k], y[j][k])) + r on the diagonal, for every item of a batch.
 * A block computes tiles of BM by BM of out; each of its 256 threads sums TM by TM elements in
 * registers, rows and columns 16 apart.  Panels of BK columns of x and y come to shared memory by
 * asynchronous copies, two deep; there a row is padded by 16 bytes, which spreads the 16-byte reads
 * of eight neighbouring rows over all banks.  Every element is one sequential sum over k, so that
 * out[i][j] of x, y is out[j][i] of y, x.
 *
 * Parameters (-D), set by cuda_cdist.c; the values are named in pair_params.h:
 *   REAL            float or double: arithmetic and out
 *   IS_DOUBLE       1 where REAL is double
 *   HALF            0: x and y are REAL; 1: binary16; 2: bfloat16
 *   TM              8, 4 or 2
 *   STEP, WHOLE, FRACTION
 *   X_LOAD, Y_LOAD  2: rows of aligned groups of 16 bytes; 1: any strides, neighbours along k are
 *                   near; 0: any strides, neighbouring rows are near
 *   FUNCTION, OUTPUT  with PAIR_EXPRESSION, pair_expression.cuh is given beside the other files
 *   BASE, SLOPE     kinds of two powers of the sum, or PAIR_RUN_TIME
 *   HYPERS          1: hyperparameters are read from tensors
 *   LISTED          1: only the tiles of a list, which cdist_mma.cu has written
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#include "pair_map.h"
#include "ptx.cuh"
#include "square_params.h"

#if TM != 8 && TM != 4 && TM != 2
#  error "cdist.cu: TM must be 8, 4 or 2"
#endif
#if STEP < PAIR_ZERO || STEP > PAIR_ANY
#  error "cdist.cu: STEP must be one of pair_params.h"
#endif

#define THREADS   256
#define BM        (16 * TM)
#define BK        16
#define LANES     ((int)(16 / sizeof(REAL))) /* of a 16-byte read */
#define GROUPS    (BK / LANES)               /* of a row of a panel */
#define LD        (BK + LANES)
#define STAGED_ROWS (TM < 4 ? TM : 4)
#define PANEL     (BM * LD)
#define LARGEST   (IS_DOUBLE ? (REAL)0x1.fffffffffffffp1023 : (REAL)0x1.fffffep127)
#define TILE_ROWS BM
#define TILE_COLS BM

typedef unsigned short half_bits;
#if HALF
typedef half_bits element;
#else
typedef REAL element;
#endif

struct __align__(16) group {
    REAL at[LANES];
};

#include "pair_step.cuh"
#include "pair_function.cuh"
#include "pair_tile.cuh"

/* ---- Panels --------------------------------------------------------------------------------- */

#if HALF
static __device__ void copy_one(REAL *to, const element *from, bool there)
{
    float value = 0;

    if (there)
        value = HALF == 2 ? ptx_float_of_bfloat(*from) : ptx_float_of_half(*from);
    *to = value;
}
#else
static __device__ void copy_one(REAL *to, const element *from, bool there)
{
    ptx_copy_async<(int)sizeof(REAL)>(to, from, there ? (int)sizeof(REAL) : 0);
}
#endif

/* The panel'th BK columns of the tile's rows of a side; zeros where there are none. */
template <int LOAD>
static __device__ void load_panel(REAL *to, const struct pair_params *a, const struct tile *tile,
                                  int which, int panel)
{
    const struct pair_side *side = which ? &a->y : &a->x;
    const long long k = (long long)panel * BK;
    const int left = a->depth - k < BK ? (int)(a->depth - k) : BK, rows = tile->rows[which];
    const element *from = tile->from[which];

    if constexpr (LOAD == 2) {
#pragma unroll
        for (int c = 0; c < (BM * GROUPS + THREADS - 1) / THREADS; c++) {
            int index = (int)threadIdx.x + c * THREADS, row = index / GROUPS,
                at = index % GROUPS * LANES;
            int bytes = row < rows ? (left - at) * (int)sizeof(REAL) : 0;
            bytes = bytes < 0 ? 0 : bytes > 16 ? 16 : bytes;
            const element *source = bytes ? from + row * side->row_stride + k + at : from;
            if (BM * GROUPS % THREADS == 0 || row < BM)
                ptx_copy_async<16>(to + row * LD + at, source, bytes);
        }
    } else {
#pragma unroll 4
        for (int c = 0; c < TM; c++) {
            int index = (int)threadIdx.x + c * THREADS;
            int row = LOAD == 1 ? index / BK : index % BM, at = LOAD == 1 ? index % BK : index / BM;
            bool there = row < rows && at < left;
            copy_one(to + row * LD + at,
                     there ? from + row * side->row_stride + (k + at) * side->col_stride : from,
                     there);
        }
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static __device__ void sum_panel(REAL acc[TM][TM], const REAL *xs, const REAL *ys,
                                 const struct pair_map *map, REAL fraction)
{
#pragma unroll 1
    for (int k = 0; k < BK; k += LANES) {
        struct group x[TM];
#pragma unroll
        for (int i = 0; i < TM; i++)
            x[i] = *(const struct group *)(xs + 16 * i * LD + k);
#pragma unroll
        for (int j = 0; j < TM; j++) {
            const struct group y = *(const struct group *)(ys + 16 * j * LD + k);
#pragma unroll
            for (int l = 0; l < LANES; l++)
#pragma unroll
                for (int i = 0; i < TM; i++)
                    acc[i][j] = step(acc[i][j], x[i].at[l], y.at[l], map, fraction);
        }
    }
}

/* Adds up the squares of one row of a panel, for GRAM_COSINE. */
static __device__ double add_squares(double sum, const REAL *row)
{
    for (int k = 0; k < BK; k++)
        sum += (double)row[k] * (double)row[k];
    return sum;
}

/* Maps and stores what a thread has staged: rows [first, end) of its elements.  The loop is not
 * unrolled, since a copy of the function for every element would be long to compile. */
static __device__ void store(const struct pair_params *a, const struct tile *tile,
                             const REAL *staged, const struct pair_map *map, const double *norms,
                             int first, int row, int col)
{
    REAL *out = (REAL *)tile->out;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const bool valid = !HYPERS || map->valid;
    const REAL r = (REAL)map->regularization;

#pragma unroll 1
    for (int i = first; i < first + STAGED_ROWS; i++) {
        const int tile_row = row + 16 * i;
        const long long out_row = tile->i + tile_row, at = out_row - tile->j - a->diagonal;
        if (tile_row >= tile->rows[0])
            break;
#pragma unroll 1
        for (int j = 0; j < TM; j++) {
            const int tile_col = col + 16 * j;
            const long long out_col = tile->j + tile_col;
            if (tile_col >= tile->rows[1])
                break;
            REAL s = staged[((i - first) * TM + j) * THREADS];
            if (FUNCTION == PAIR_COSINE)
                s = (REAL)((double)s * norms[tile_row] * norms[BM + tile_col]);
            s = mapped(map, s);
            if (OUTPUT == PAIR_VALUE && tile_col == at)
                s += r;
            s = valid ? s : (REAL)__int_as_float(0x7fc00000);
            out[out_row * row_stride + out_col * col_stride] = s;
            if (tile->mirrored)
                out[out_col * row_stride + out_row * col_stride] = s;
        }
    }
}

static __device__ void compute(const struct pair_params *a, const struct tile *tile,
                               const struct pair_map *map, REAL *xs, double *norms)
{
    REAL *const ys = xs + 2 * PANEL;
    /* A warp has 4 rows and 8 columns: reads of 8 rows of y at once, stores of 32 bytes. */
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int row = warp / 2 * 4 + lane / 8, col = warp % 2 * 8 + lane % 8;
    const REAL fraction = (REAL)map->fraction;
    const int panels = (int)((a->depth + BK - 1) / BK);
    REAL acc[TM][TM] = {};
    double squares = 0;

    if (panels > 0) {
        load_panel<X_LOAD>(xs, a, tile, 0, 0);
        load_panel<Y_LOAD>(ys, a, tile, 1, 0);
    }
    ptx_copy_commit();
#pragma unroll 1
    for (int panel = 0; panel < panels; panel++) {
        const int now = panel % 2 * PANEL, next = PANEL - now;
        ptx_copy_wait<0>();
        __syncthreads(); /* this panel is there, and the other one is no longer read */
        if (panel + 1 < panels) {
            load_panel<X_LOAD>(xs + next, a, tile, 0, panel + 1);
            load_panel<Y_LOAD>(ys + next, a, tile, 1, panel + 1);
        }
        ptx_copy_commit();
        if (FUNCTION == PAIR_COSINE && threadIdx.x < 2 * BM)
            squares = add_squares(squares, threadIdx.x < BM
                                               ? xs + now + (int)threadIdx.x * LD
                                               : ys + now + ((int)threadIdx.x - BM) * LD);
        sum_panel(acc, xs + now + row * LD, ys + now + col * LD, map, fraction);
    }
    if (FUNCTION == PAIR_COSINE && threadIdx.x < 2 * BM)
        norms[threadIdx.x] = squares == 0 ? 0 : 1 / sqrt(squares);
    __syncthreads(); /* the panels are no longer read: their memory takes the sums */
#pragma unroll
    for (int first = 0; first < TM; first += STAGED_ROWS) {
        REAL *staged = xs + threadIdx.x;
#pragma unroll
        for (int e = 0; e < STAGED_ROWS * TM; e++)
            staged[e * THREADS] = acc[first + e / TM][e % TM];
        store(a, tile, staged, map, norms, first, row, col);
    }
}

/* Fills in the at'th tile that this launch is for; *more is false behind the last one. */
static __device__ bool next_tile(const struct pair_params *a, const struct square_list *list,
                                 long long at, struct tile *tile, bool *more)
{
#if LISTED
    *more = at < (long long)list->count;
    if (*more)
        fill_tile(a, list->tile[at].item, list->tile[at].row, list->tile[at].col, tile);
    return *more;
#else
    *more = at < a->items * a->tile_rows * a->tile_cols;
    return *more && find_tile(a, 0, at, tile);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    cdist(const __grid_constant__ struct pair_params a, const struct square_list *list)
{
    __shared__ __align__(16) REAL panels[4 * PANEL]; /* two of x, two of y */
    __shared__ double norms[FUNCTION == PAIR_COSINE ? 2 * BM : 1];
    __shared__ struct tile tile;
    __shared__ bool wanted, more;
#if HYPERS
    __shared__ struct pair_map map;
#else
    const struct pair_map &map = a.map;
#endif

    for (int round = 0;; round++) {
        __syncthreads(); /* the last tile is stored */
        if (threadIdx.x == 0) {
            wanted = next_tile(&a, list, blockIdx.x + (long long)round * gridDim.x, &tile, &more);
#if HYPERS
            if (wanted)
                prepare(&a, tile.item, &map);
#endif
        }
        __syncthreads();
        if (wanted)
            compute(&a, &tile, &map, panels, norms);
        else if (!more)
            break;
    }
}
