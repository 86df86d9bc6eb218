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
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#include "pair_map.h"
#include "ptx.cuh"

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
#define GROUP_TILES 16 /* rows of tiles that are done together: their rows of y stay in L2 */

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

/* ---- Hyperparameters ------------------------------------------------------------------------ */

#if HYPERS
static __device__ long long offset_of(const struct pair_params *a, const long long *stride,
                                      long long item)
{
    long long offset = 0;

    for (int i = (int)a->batch_ndim - 1; i >= 0; i--) {
        offset += item % a->batch_shape[i] * stride[i];
        item /= a->batch_shape[i];
    }
    return offset;
}

static __device__ void prepare(const struct pair_params *a, long long item, struct pair_map *map)
{
    const struct pair_what what = {FUNCTION, OUTPUT, STEP == PAIR_DOT, IS_DOUBLE};
    double value[PAIR_HYPERS + PAIR_PARAMETERS];
    bool valid = true;

    for (int i = 0; i < PAIR_HYPERS + (FUNCTION == PAIR_EXPRESSION ? PAIR_PARAMETERS : 0); i++) {
        const struct pair_hyper *h = &a->hyper[i]; /* parameters lie behind them */
        long long at = h->data ? offset_of(a, h->batch_stride, item) : 0;
        value[i] = !h->data ? h->value
                   : h->is_double ? ((const double *)h->data)[at]
                                  : (double)((const float *)h->data)[at];
        if (h->data)
            valid = valid && value[i] >= h->least && value[i] <= h->most &&
                    !(h->open && value[i] == h->least);
    }
    pair_map_prepare(map, &what, value);
#if FUNCTION == PAIR_EXPRESSION
    expression_constants(value + PAIR_HYPERS, map->constant);
#endif
    map->valid = valid;
}
#endif

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

/* A tile of out and where its panels begin: the same for the whole block, in shared memory, so that
 * it takes no registers while the sums do. */
struct tile {
    long long item, i, j; /* its first row and column of out */
    int rows[2];          /* of x and of y that it has */
    int mirrored;
    const element *from[2]; /* the first rows of x and of y */
    REAL *out;              /* of the item */
};

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

/* The tile'th tile: rows of tiles in groups, within a group column by column. */
static __device__ void place(const struct pair_params *a, long long tile, long long *row,
                             long long *col)
{
    const long long group = tile / (GROUP_TILES * a->tile_cols), first = group * GROUP_TILES;
    const long long left = a->tile_rows - first, rows = left < GROUP_TILES ? left : GROUP_TILES;
    const long long in_group = tile - group * GROUP_TILES * a->tile_cols;

    *row = first + in_group % rows;
    *col = in_group / rows;
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

/* Where an item of x, of y and of out begins. */
static __device__ void offsets_of(const struct pair_params *a, long long item, long long *offset)
{
    for (int i = (int)a->batch_ndim - 1; i >= 0; i--) {
        long long rest = item / a->batch_shape[i], index = item - rest * a->batch_shape[i];
        offset[0] += index * a->x.batch_stride[i];
        offset[1] += index * a->y.batch_stride[i];
        offset[2] += index * a->out.batch_stride[i];
        item = rest;
    }
}

/* Fills in the at'th tile of all items; false if its mirror image is computed instead. */
static __device__ bool find_tile(const struct pair_params *a, long long at, struct tile *tile)
{
    const long long item_tiles = a->tile_rows * a->tile_cols, item = at / item_tiles;
    long long row, col, offset[3] = {};

    place(a, at - item * item_tiles, &row, &col);
    tile->item = item;
    tile->i = row * BM, tile->j = col * BM;
    tile->mirrored = a->symmetric && row < col;
    tile->rows[0] = a->x.rows - tile->i < BM ? (int)(a->x.rows - tile->i) : BM;
    tile->rows[1] = a->y.rows - tile->j < BM ? (int)(a->y.rows - tile->j) : BM;
    offsets_of(a, item, offset);
    tile->from[0] = (const element *)a->x.data + offset[0] + tile->i * a->x.row_stride;
    tile->from[1] = (const element *)a->y.data + offset[1] + tile->j * a->y.row_stride;
    tile->out = (REAL *)a->out.data + offset[2];
    return !(a->symmetric && row > col);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    cdist(const __grid_constant__ struct pair_params a)
{
    __shared__ __align__(16) REAL panels[4 * PANEL]; /* two of x, two of y */
    __shared__ double norms[FUNCTION == PAIR_COSINE ? 2 * BM : 1];
    __shared__ struct tile tile;
    __shared__ long long at;
    __shared__ bool wanted;
#if HYPERS
    __shared__ struct pair_map map;
#else
    const struct pair_map &map = a.map;
#endif

    for (int round = 0;; round++) {
        __syncthreads(); /* the last tile is stored */
        if (threadIdx.x == 0) {
            at = blockIdx.x + (long long)round * gridDim.x;
            wanted = at < a.items * a.tile_rows * a.tile_cols && find_tile(&a, at, &tile);
#if HYPERS
            if (wanted)
                prepare(&a, tile.item, &map);
#endif
        }
        __syncthreads();
        if (wanted)
            compute(&a, &tile, &map, panels, norms);
        else if (at >= a.items * a.tile_rows * a.tile_cols)
            break;
    }
}
