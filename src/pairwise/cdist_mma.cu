/*
 * cdist_mma.cu - squared distances and inner products by tensor cores: cdist.cu's results for p = 2
 * and GRAM_DOT
 *
 * With e the rows shifted by one vector, which changes no distance,
 *   |x - y|^2 = |e_x|^2 + |e_y|^2 - 2 e_x.e_y.
 * In f32 cdist_pack.cu writes e as hi + lo, binary16 both, and |e|^2;  e_x.e_y is the sum of hi hi,
 * hi lo and lo hi, which are exact products, added up in f32.
 *
 * Error, N = |e_x|^2 + |e_y|^2, eps = 2^-23: the two halves of e and the product lo lo that is left
 * out cost 4 eps sum |e_x e_y| <= 2 eps N, twice since 2 e_x.e_y is subtracted; the last additions
 * and norms 2 eps N.  Tensor cores truncate where they add: 16 products and a sum lose at most
 * 2 eps of the largest partial sum.  After PROMOTED chunks of BK columns the partial sum is added
 * to a common f32 one, so that it stays small.
 * A squared distance s >= N / 2 has twice these errors, relatively; all others, and those where N
 * leaves the range in which nothing over- or underflows, are summed again from differences: up to
 * SQUARE_SPOILED of a tile here, a warp an element; a tile with more is left to cdist.cu, by the
 * list.
 * In f64 e and |e|^2 are made on the way, and s < N / 8 is the limit: with a row of y as the centre
 * s is about N / 2, and sums of f64 products err by less than those of differences, times N / s.
 *
 * A block computes tiles of 128 by 128 of out.  CORE says how:
 *   CORE_MMA    mma.sync, sm_80 and newer: 8 warps, each loads and multiplies    (mma_core.cuh)
 *   CORE_WGMMA  wgmma, sm_90a alone: 8 warps multiply, another one loads         (wgmma_core.cuh)
 *   CORE_MMA64  mma.sync in f64                                                   (mma64_core.cuh)
 * The sums are staged in shared memory, mapped, and stored row by row.
 *
 * With FILTER nothing is stored.  Elements that may be at most the bound of their row are listed,
 * for nearest_points.cu: those with s - margin N <= bound, where margin N is more than the errors
 * above, and those whose N leaves the range.
 *
 * Parameters (-D): STORED, STEP (PAIR_TWO, PAIR_DOT), FUNCTION, OUTPUT, BASE, SLOPE, HYPERS as in
 * cdist.cu, and
 *   CORE
 *   BK              columns of a chunk: 32 or 64; 16 with CORE_MMA64
 *   STAGES          chunks in shared memory: 3 with CORE_MMA64
 *   PLANES          2, or 1 where the numbers have no lo
 *   X_LOAD, Y_LOAD  with CORE_MMA64, as in cdist.cu
 *   PROMOTED        with CORE_WGMMA: chunks after which a partial sum is added to the whole
 *   FILTER          1: as above, for squared distances in f32; else 0, as where it is not given
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN    static __device__
#define CORE_MMA   1
#define CORE_WGMMA 2
#define CORE_MMA64 3
#include "pair_map_params.h"
#include "ptx.cuh"

#if CORE != CORE_MMA && CORE != CORE_WGMMA && CORE != CORE_MMA64
#  error "cdist_mma.cu: CORE must be 1, 2 or 3"
#endif
#if STEP != PAIR_TWO && STEP != PAIR_DOT
#  error "cdist_mma.cu: STEP must be PAIR_TWO or PAIR_DOT"
#endif

#ifndef FILTER
#  define FILTER 0
#endif
#if FILTER && (CORE == CORE_MMA64 || STEP != PAIR_TWO)
#  error "cdist_mma.cu: FILTER is for squared distances in f32"
#endif

#if CORE == CORE_MMA64
#  define REAL          double
#  define IS_DOUBLE     1
#  define LARGEST       0x1.fffffffffffffp1023
#  define SMALLEST_NORM 0x1p-900 /* from here on no product that counts underflows */
#  define LARGEST_NORM  0x1p1020
#else
#  define REAL          float
#  define IS_DOUBLE     0
#  define LARGEST       0x1.fffffep127f
#  define SMALLEST_NORM 0x1p-114f /* as in cdist_square_tile.h of the CPU */
#  define LARGEST_NORM  0x1p126f
#endif
#define WHOLE     0
#define FRACTION  0
#define THREADS   256 /* that multiply */
#define TILE_ROWS SQUARE_ROWS
#define TILE_COLS SQUARE_ROWS
#define BLOCKS    (TILE_ROWS * TILE_COLS / THREADS / 4) /* of four sums that a thread holds */
#define LEFT_ROWS SQUARE_LEFT_ROWS(IS_DOUBLE)
#define STAGED_LD (TILE_COLS + 8)      /* spreads the writes of eight rows over all banks */
#define PLANE_X   (TILE_ROWS * BK * 2) /* bytes */
#define PLANE_Y   (TILE_COLS * BK * 2)
#define STAGE     (PLANES * (PLANE_X + PLANE_Y))
#if CORE == CORE_MMA64
#  define LANES 2        /* of a 16-byte copy */
#  define LD    (BK + 4) /* reads of four rows by four columns meet all banks once */
#endif

#include "stored.cuh"

typedef stored_as<STORED>::type element;
#include "pair_terms.cuh"
#include "pair_tile.cuh"

#if IS_DOUBLE
/* A row's share of the end of a sum: its squares, and one over their root. */
struct __align__(16) row_end
{
    double limit, factor;
};
#else
typedef struct square_row row_end;
#endif

/* What the warps of a block share, besides panels and staged sums. */
struct shared_state {
    struct tile tile;
    struct pair_map map; /* with HYPERS */
    long long at;
    int wanted, spoiled;
    int offset; /* elements with row > column + offset are the mirror images of others */
    unsigned list[SQUARE_SPOILED];                    /* row 2^16 + column */
    __align__(16) row_end end[TILE_ROWS + TILE_COLS]; /* of x and of y */
#if FILTER
    float bound[TILE_ROWS];
#endif
};

#if CORE == CORE_MMA64
#  include "mma64_core.cuh"
#elif CORE == CORE_MMA
#  include "mma_core.cuh"
#else
#  include "wgmma_core.cuh"
#endif

/* ---- A sum from its product, and from the numbers themselves -------------------------------- */

/* THREADS is the number of rows of x and y in a tile: a row's end each. */
static __device__ void load_end(const struct square_params *a, struct shared_state *shared)
{
#if !IS_DOUBLE
    const int which = threadIdx.x >= TILE_ROWS;
    const struct tile *tile = &shared->tile;
    const row_end *from = a->side[which].rows + (which ? tile->j - TILE_ROWS : tile->i) +
                          (tile->item - a->first) * a->side[which].item_rows;

    shared->end[threadIdx.x] = from[threadIdx.x];
#endif
#if FILTER
    if (!which)
        shared->bound[threadIdx.x] =
            threadIdx.x < tile->rows[0] ? a->filter.bound[tile->i + threadIdx.x] : 0;
#endif
}

#if IS_DOUBLE
/* The sum that acc comes to; spoiled: it is not exact enough. */
static __device__ double whole_sum(double acc, const row_end &x, const row_end &y, bool *spoiled)
{
    const double limit = x.limit + y.limit, s = fma(-2.0, acc, limit);
    const bool good = 8 * s >= limit && limit >= SMALLEST_NORM && limit <= LARGEST_NORM;

    *spoiled = STEP == PAIR_TWO && !good && limit != 0;
    if (STEP == PAIR_TWO)
        return good ? s : 0;
    return FUNCTION == PAIR_COSINE ? acc * x.factor * y.factor : acc;
}
#else
/* The sum that acc, of scaled rows, comes to; spoiled: it is not exact enough. */
static __device__ float whole_sum(float acc, const row_end &x, const row_end &y, bool *spoiled)
{
    const float limit = x.limit + y.limit;
    float s;
    bool good;

    if (STEP == PAIR_TWO) {
        s = fmaf(acc * (-2 * x.factor), y.factor, limit);
        good = 2 * s >= limit && limit >= SMALLEST_NORM && limit <= LARGEST_NORM;
        *spoiled = !good && limit == limit && limit != 0;
    } else if (FUNCTION == PAIR_COSINE) {
        s = acc * x.factor * y.factor;
        good = limit == limit;
        *spoiled = false;
    } else {
        const int e = (int)(x.factor + y.factor), half = e / 2 < -126 ? -126 : e / 2,
                  rest = e - e / 2 < -126 ? -126 : e - e / 2;
        s = acc * power_of_two(half) * power_of_two(rest);
        good = fabsf(acc) >= limit;
        *spoiled = !good && limit == limit;
    }
    return good ? s : limit; /* 0, NaN, or spoiled */
}
#endif

/* The sum of a row and a column of the tile by a warp, from the numbers themselves. */
static __device__ REAL direct_sum(const struct pair_params *a, const struct tile *tile, int row,
                                  int col)
{
    const struct pair_map *none = nullptr;
    const element *x = tile->from[0] + row * a->x.row_stride;
    const element *y = tile->from[1] + col * a->y.row_stride;
    REAL sum = 0;

#pragma unroll 4
    for (long long k = threadIdx.x % 32; k < a->depth; k += 32)
        sum = step(sum, real_of<STORED>(x[k * a->x.col_stride]),
                   real_of<STORED>(y[k * a->y.col_stride]), none, 0);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    return sum;
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* Whether out has this element and the tile does not hold its mirror image instead. */
static __device__ bool counts(const struct shared_state *shared, int row, int col)
{
    return row < shared->tile.rows[0] && col < shared->tile.rows[1] && row <= col + shared->offset;
}

/* Two neighbours of out's columns: their rows of y. */
struct __align__(16) two_rows
{
    row_end at[2];
};

struct __align__(2 * sizeof(REAL)) two_sums
{
    REAL at[2];
};

/* Lists the elements of a thread that bits name: bit 4 b + i is element i of block first + b. */
static __device__ void list_spoiled(struct shared_state *shared, int first, unsigned bits)
{
    for (; bits; bits &= bits - 1) {
        const int bit = first * 4 + __ffs((int)bits) - 1;
        const int row = row_of(bit / 4) + bit / 2 % 2 * 8, col = col_of(bit / 4) + bit % 2;
        if (!counts(shared, row, col))
            continue;
        const int at = atomicAdd(&shared->spoiled, 1);
        if (at < SQUARE_SPOILED)
            shared->list[at] = (unsigned)row << 16 | (unsigned)col;
    }
}

/* Whether the tile's rows are mapped in registers and leave shared memory as bulk copies, while the
 * next tile is multiplied: the function is short and no mirror image wants the sums. */
static __device__ bool is_direct(const struct pair_params *a, const struct tile *tile)
{
    const long long diagonal = tile->i - tile->j - a->diagonal;

    return CORE == CORE_WGMMA && FUNCTION == PAIR_IDENTITY && OUTPUT == PAIR_VALUE && !HYPERS &&
           !a->symmetric && a->out.col_stride == 1 && a->out.row_stride % 4 == 0 &&
           (unsigned long long)tile->out % 16 == 0 && tile->rows[1] % 4 == 0 &&
           (a->map.regularization == 0 || diagonal >= TILE_COLS || diagonal <= -TILE_ROWS);
}

/* Stages the sums of a thread, what they come to if DIRECT, and lists the spoiled ones. */
template <bool DIRECT>
static __device__ void stage(struct shared_state *shared, const struct pair_map *map,
                             REAL acc[BLOCKS][4], REAL *staged)
{
    const row_end *x = shared->end, *y = shared->end + TILE_ROWS;
    const int offset = DIRECT ? TILE_ROWS : shared->offset;
    unsigned bits[BLOCKS / 8] = {};

#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const int row = row_of(b), col = col_of(b);
        const struct two_rows cols = *(const struct two_rows *)(y + col);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const row_end one = x[row + half * 8];
            struct two_sums sums;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                bool spoiled;
                sums.at[i] = whole_sum(acc[b][half * 2 + i], one, cols.at[i], &spoiled);
                if (STEP == PAIR_TWO && row + half * 8 == col + i + offset &&
                    one.limit <= LARGEST_NORM)
                    sums.at[i] = 0, spoiled = false;
                bits[b / 8] |= spoiled ? 1u << (b % 8 * 4 + half * 2 + i) : 0;
                if (DIRECT)
                    sums.at[i] = mapped(map, sums.at[i]);
            }
            *(struct two_sums *)(staged + (row + half * 8) * STAGED_LD + col) = sums;
        }
    }
#pragma unroll
    for (int i = 0; i < BLOCKS / 8; i++)
        if (bits[i])
            list_spoiled(shared, i * 8, bits[i]);
}

/* Leaves the tile to cdist.cu, whose tiles have LEFT_ROWS rows and columns. */
static __device__ void leave(const struct square_params *a, const struct tile *tile)
{
    for (int i = 0; i < tile->rows[0]; i += LEFT_ROWS)
        for (int j = 0; j < tile->rows[1]; j += LEFT_ROWS) {
            const struct square_tile left = {tile->item, (int)((tile->i + i) / LEFT_ROWS),
                                             (int)((tile->j + j) / LEFT_ROWS)};
            if (!a->pair.symmetric || left.row <= left.col)
                a->list->tile[atomicAdd(&a->list->count, 1ull)] = left;
        }
}

/* Maps and stores the staged sums: a warp goes over rows, its lanes over columns; the functions of
 * four columns overlap. */
static __device__ void store(const struct pair_params *a, const struct shared_state *shared,
                             const struct pair_map *map, REAL *staged)
{
    const struct tile *tile = &shared->tile;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const bool valid = !HYPERS || map->valid, symmetric = a->symmetric;
    const REAL r = (REAL)map->regularization;
    const int rows = tile->rows[0], cols = tile->rows[1], offset = shared->offset;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const long long diagonal = tile->i - tile->j - a->diagonal;
    REAL *out = tile->out + (tile->i + warp) * row_stride + (tile->j + lane) * col_stride;

    staged += warp * STAGED_LD + lane;
#pragma unroll 1
    for (int row = warp; row < rows; row += THREADS / 32) {
        REAL s[TILE_COLS / 32];
#pragma unroll
        for (int i = 0; i < TILE_COLS / 32; i++)
            s[i] = mapped(map, staged[i * 32]);
#pragma unroll
        for (int i = 0; i < TILE_COLS / 32; i++) {
            const int col = i * 32 + lane;
            if (OUTPUT == PAIR_VALUE && col == row + diagonal)
                s[i] += r;
            s[i] = valid ? s[i] : (REAL)__int_as_float(0x7fc00000);
            if (symmetric)
                staged[i * 32] = s[i];
            if (col < cols && row <= col + offset)
                out[i * 32 * col_stride] = s[i];
        }
        staged += THREADS / 32 * STAGED_LD;
        out += THREADS / 32 * row_stride;
    }
}

/* The mirror image of what store has staged, a square of 8 rows by 4 columns a warp. */
static __device__ void store_mirrored(const struct pair_params *a,
                                      const struct shared_state *shared, const REAL *staged)
{
    const struct tile *tile = &shared->tile;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const int rows = tile->rows[0], cols = tile->rows[1], offset = shared->offset;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    REAL *out = tile->out + tile->j * row_stride + (tile->i + lane % 8) * col_stride;

#pragma unroll 1
    for (int col = warp * 4 + lane / 8; col < cols; col += THREADS / 8) {
        REAL s[TILE_ROWS / 8];
#pragma unroll
        for (int i = 0; i < TILE_ROWS / 8; i++)
            s[i] = staged[(lane % 8 + i * 8) * STAGED_LD + col];
#pragma unroll
        for (int i = 0; i < TILE_ROWS / 8; i++) {
            const int row = lane % 8 + i * 8;
            if (row < rows && row < col + offset)
                out[col * row_stride + i * 8 * col_stride] = s[i];
        }
    }
}

#if FILTER
/* Lists an element of the tile for its row. */
static __device__ void list_candidate(const struct square_params *a,
                                      const struct shared_state *shared, int row, int col)
{
    const struct square_filter *f = &a->filter;
    const long long of = shared->tile.i + row;

    if (!counts(shared, row, col))
        return;
    const int at = atomicAdd(&f->count[of], 1);
    if (at < f->capacity)
        f->place[of * f->capacity + at] = (int)(shared->tile.j + col);
}

/* Lists the elements of a thread that may be at most the bounds of their rows. */
static __device__ void finish(const struct square_params *a, struct shared_state *shared,
                              const struct pair_map *, float acc[BLOCKS][4], float *)
{
    const row_end *x = shared->end, *y = shared->end + TILE_ROWS;

    barrier(); /* the ends and the bounds are there */
#  pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const int row = row_of(b), col = col_of(b);
        const struct two_rows cols = *(const struct two_rows *)(y + col);
        unsigned bits = 0;
#  pragma unroll
        for (int half = 0; half < 2; half++) {
            const row_end one = x[row + half * 8];
            const float bound = shared->bound[row + half * 8];
#  pragma unroll
            for (int i = 0; i < 2; i++) {
                const float limit = one.limit + cols.at[i].limit;
                const float s =
                    fmaf(acc[b][half * 2 + i] * (-2 * one.factor), cols.at[i].factor, limit);
                const bool is = s <= fmaf(a->filter.margin, limit, bound) ||
                                limit < SMALLEST_NORM || limit > LARGEST_NORM;
                bits |= is ? 1u << (half * 2 + i) : 0;
            }
        }
        for (; bits; bits &= bits - 1) {
            const int bit = __ffs((int)bits) - 1;
            list_candidate(a, shared, row + bit / 2 * 8, col + bit % 2);
        }
    }
}
#else
/* From the sums of a tile to out. */
static __device__ void finish(const struct square_params *a, struct shared_state *shared,
                              const struct pair_map *map, REAL acc[BLOCKS][4], REAL *staged)
{
    const struct tile *tile = &shared->tile;
    const bool direct = is_direct(&a->pair, tile);

    leave_staged();
    barrier(); /* the rows of the last tile have left staged; the ends of this one's are there */
    if (direct)
        stage<true>(shared, map, acc, staged);
    else
        stage<false>(shared, map, acc, staged);
    barrier();
    const int spoiled = shared->spoiled;
    if (spoiled > SQUARE_SPOILED) {
        if (threadIdx.x == 0)
            leave(a, tile);
        return;
    }
    for (int i = (int)threadIdx.x / 32; i < spoiled; i += THREADS / 32) {
        const int row = (int)(shared->list[i] >> 16), col = (int)(shared->list[i] & 0xffff);
        const REAL sum = direct_sum(&a->pair, tile, row, col);
        if (threadIdx.x % 32 == 0)
            staged[row * STAGED_LD + col] = direct ? mapped(map, sum) : sum;
    }
    if (direct) {
        store_rows(&a->pair, tile, staged);
        return;
    }
    if (spoiled > 0)
        barrier();
    store(&a->pair, shared, map, staged);
    if (a->pair.symmetric) {
        barrier();
        store_mirrored(&a->pair, shared, staged);
    }
}
#endif

/* The next tile of this block; false: there is none. */
static __device__ bool next_tile(const struct square_params *a, struct shared_state *shared,
                                 long long round)
{
    const struct pair_params *pair = &a->pair;
    const long long tiles = pair->items * pair->tile_rows * pair->tile_cols;

    barrier(); /* the last tile is stored */
    if (threadIdx.x == 0) {
        shared->at = blockIdx.x + round * gridDim.x;
        shared->spoiled = 0;
        shared->wanted = 0;
        if (shared->at < tiles)
            shared->wanted = find_tile(pair, a->first, shared->at, &shared->tile);
        const long long offset = shared->tile.j - shared->tile.i;
        shared->offset = !pair->symmetric || offset > TILE_ROWS ? TILE_ROWS : (int)offset;
#if HYPERS
        if (shared->wanted)
            prepare(pair, shared->tile.item, &shared->map);
#endif
    }
    barrier();
    return shared->at < tiles;
}

static __device__ void multiply_tiles(const struct square_params *a, struct shared_state *shared,
                                      char *stages, REAL *staged)
{
#if HYPERS
    const struct pair_map *map = &shared->map;
#else
    const struct pair_map *map = &a->pair.map;
#endif
    struct pipeline pipeline = pipeline_begin(stages);

    for (long long round = 0; next_tile(a, shared, round); round++) {
        if (!shared->wanted)
            continue;
        REAL acc[BLOCKS][4] = {};
        load_end(a, shared);
        sum_products(a, shared, &pipeline, acc);
        finish(a, shared, map, acc, staged);
    }
    leave_staged();
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_EACH)
    cdist_mma(const __grid_constant__ struct square_params a)
{
    extern __shared__ __align__(128) char stages[];
    __shared__ struct shared_state shared;

    run_block(&a, &shared, stages);
}
