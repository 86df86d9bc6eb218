/*
 * cdist_mma.cu - squared distances and inner products by tensor cores: cdist.cu's results for p = 2
 * and GRAM_DOT, in f32
 *
 * With e the rows shifted by one vector, which changes no distance, |x - y|^2 = |e_x|^2 + |e_y|^2 -
 * 2 e_x.e_y.  cdist_pack.cu writes e as hi + lo, binary16 both, and |e|^2;  e_x.e_y is the sum of
 * hi hi, hi lo and lo hi, which are exact products, added up in f32.
 *
 * Error, N = |e_x|^2 + |e_y|^2, eps = 2^-23: the two halves of e and the product lo lo that is left
 * out cost 4 eps sum |e_x e_y| <= 2 eps N, twice since 2 e_x.e_y is subtracted; the last additions
 * and norms 2 eps N.  Tensor cores truncate where they add: 16 products and a sum lose at most 2
 * eps of the largest partial sum.  PROMOTED: after so many chunks of BK columns the partial sum is
 * added to a common f32 one, so that it stays small.
 * A squared distance s >= N / 2 has twice these errors, relatively; all others, and those where N
 * leaves the range in which nothing over- or underflows, are summed again from differences: up to
 * SQUARE_SPOILED of a tile here, a warp an element; a tile with more is left to cdist.cu, by the
 * list.
 *
 * A block computes tiles of 128 by 128 of out.  CORE says how:
 *   CORE_MMA    mma.sync, sm_80 and newer: 8 warps, each loads and multiplies    (mma_core.cuh)
 *   CORE_WGMMA  wgmma, sm_90a alone: 8 warps multiply, another one loads         (wgmma_core.cuh)
 * The sums are staged in shared memory, mapped, and stored row by row.
 *
 * Parameters (-D): HALF, STEP (PAIR_TWO, PAIR_DOT), FUNCTION, OUTPUT, BASE, SLOPE, HYPERS as in
 * cdist.cu, and
 *   CORE
 *   BK              columns of a chunk: 32 or 64
 *   STAGES          chunks in shared memory
 *   PLANES          2, or 1 where the numbers have no lo
 *   PROMOTED        with CORE_WGMMA: chunks after which a partial sum is added to the whole
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN    static __device__
#define CORE_MMA   1
#define CORE_WGMMA 2
#include "pair_map.h"
#include "ptx.cuh"
#include "square_params.h"

#if CORE != CORE_MMA && CORE != CORE_WGMMA
#  error "cdist_mma.cu: CORE must be 1 or 2"
#endif
#if STEP != PAIR_TWO && STEP != PAIR_DOT
#  error "cdist_mma.cu: STEP must be PAIR_TWO or PAIR_DOT"
#endif

#define REAL          float
#define IS_DOUBLE     0
#define WHOLE         0
#define FRACTION      0
#define LARGEST       0x1.fffffep127f
#define THREADS       256 /* that multiply */
#define TILE_ROWS     SQUARE_ROWS
#define TILE_COLS     SQUARE_ROWS
#define BLOCKS        (TILE_ROWS * TILE_COLS / THREADS / 4) /* of four sums that a thread holds */
#define STAGED_LD     (TILE_COLS + 8)      /* spreads the writes of eight rows over all banks */
#define PLANE_X       (TILE_ROWS * BK * 2) /* bytes */
#define PLANE_Y       (TILE_COLS * BK * 2)
#define STAGE         (PLANES * (PLANE_X + PLANE_Y))
#define SMALLEST_NORM 0x1p-114f /* as in cdist_square_tile.h of the CPU */
#define LARGEST_NORM  0x1p126f

#include "element.cuh"
#include "pair_step.cuh"

#include "pair_function.cuh"
#include "pair_tile.cuh"

/* What the warps of a block share, besides panels and staged sums. */
struct shared_state {
    struct tile tile;
    struct pair_map map; /* with HYPERS */
    long long at;
    int wanted, spoiled;
    int offset; /* elements with row > column + offset are the mirror images of others */
    unsigned list[SQUARE_SPOILED]; /* row 2^16 + column */
};

#if CORE == CORE_MMA
#  include "mma_core.cuh"
#else
#  include "wgmma_core.cuh"
#endif

/* The sum that acc, of scaled rows, comes to; spoiled: it is not exact enough. */
static __device__ float whole_sum(float acc, const struct square_row &x, const struct square_row &y,
                                  bool *spoiled)
{
    const float limit = x.limit + y.limit;
    float s;
    bool good;

    if (STEP == PAIR_TWO) {
        s = fmaf(-2 * (acc * x.factor), y.factor, limit);
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

/* The sum of a row and a column of the tile by a warp, from the numbers themselves. */
static __device__ float direct_sum(const struct pair_params *a, const struct tile *tile, int row,
                                   int col)
{
    const struct pair_map *none = nullptr;
    const element *x = tile->from[0] + row * a->x.row_stride;
    const element *y = tile->from[1] + col * a->y.row_stride;
    float sum = 0;

#pragma unroll 4
    for (long long k = threadIdx.x % 32; k < a->depth; k += 32)
        sum = step(sum, value_of(x[k * a->x.col_stride]), value_of(y[k * a->y.col_stride]), none,
                   0);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    return sum;
}

/* Whether out has this element and the tile does not hold its mirror image instead. */
static __device__ bool counts(const struct shared_state *shared, int row, int col)
{
    return row < shared->tile.rows[0] && col < shared->tile.rows[1] && row <= col + shared->offset;
}

/* Two neighbours of out's columns: their rows of y. */
struct __align__(16) two_rows
{
    struct square_row at[2];
};

struct __align__(8) two_sums
{
    float at[2];
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

/* Stages the sums of a thread and lists the spoiled ones. */
static __device__ void stage(const struct square_params *a, struct shared_state *shared,
                             float acc[BLOCKS][4], float *staged)
{
    const struct tile *tile = &shared->tile;
    const long long item = tile->item - a->first;
    const struct square_row *x = a->side[0].rows + item * a->side[0].item_rows + tile->i;
    const struct square_row *y = a->side[1].rows + item * a->side[1].item_rows + tile->j;
    const int offset = shared->offset;
    unsigned bits[BLOCKS / 8] = {};

#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const int row = row_of(b), col = col_of(b);
        const struct two_rows cols = *(const struct two_rows *)(y + col);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const struct square_row one = x[row + half * 8];
            struct two_sums sums;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                bool spoiled;
                sums.at[i] = whole_sum(acc[b][half * 2 + i], one, cols.at[i], &spoiled);
                if (STEP == PAIR_TWO && row + half * 8 == col + i + offset &&
                    one.limit <= LARGEST_NORM)
                    sums.at[i] = 0, spoiled = false;
                bits[b / 8] |= spoiled ? 1u << (b % 8 * 4 + half * 2 + i) : 0;
            }
            *(struct two_sums *)(staged + (row + half * 8) * STAGED_LD + col) = sums;
        }
    }
#pragma unroll
    for (int i = 0; i < BLOCKS / 8; i++)
        if (bits[i])
            list_spoiled(shared, i * 8, bits[i]);
}

/* Leaves the tile to cdist.cu. */
static __device__ void leave(const struct square_params *a, const struct tile *tile)
{
    const struct square_tile left = {tile->item, (int)(tile->i / TILE_ROWS),
                                     (int)(tile->j / TILE_COLS)};

    a->list->tile[atomicAdd(&a->list->count, 1ull)] = left;
}

/* Maps and stores the staged sums: a warp goes over rows, its lanes over columns; the functions of
 * four columns overlap. */
static __device__ void store(const struct pair_params *a, const struct shared_state *shared,
                             const struct pair_map *map, float *staged)
{
    const struct tile *tile = &shared->tile;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const bool valid = !HYPERS || map->valid, symmetric = a->symmetric;
    const float r = (float)map->regularization;
    const int rows = tile->rows[0], cols = tile->rows[1], offset = shared->offset;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const long long diagonal = tile->i - tile->j - a->diagonal;
    float *out = tile->out + (tile->i + warp) * row_stride + (tile->j + lane) * col_stride;

    staged += warp * STAGED_LD + lane;
#pragma unroll 1
    for (int row = warp; row < rows; row += THREADS / 32) {
        float s[TILE_COLS / 32];
#pragma unroll
        for (int i = 0; i < TILE_COLS / 32; i++)
            s[i] = mapped(map, staged[i * 32]);
#pragma unroll
        for (int i = 0; i < TILE_COLS / 32; i++) {
            const int col = i * 32 + lane;
            if (OUTPUT == PAIR_VALUE && col == row + diagonal)
                s[i] += r;
            s[i] = valid ? s[i] : __int_as_float(0x7fc00000);
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
                                      const struct shared_state *shared, const float *staged)
{
    const struct tile *tile = &shared->tile;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const int rows = tile->rows[0], cols = tile->rows[1], offset = shared->offset;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *out = tile->out + tile->j * row_stride + (tile->i + lane % 8) * col_stride;

#pragma unroll 1
    for (int col = warp * 4 + lane / 8; col < cols; col += THREADS / 8) {
        float s[TILE_ROWS / 8];
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

/* From the sums of a tile to out. */
static __device__ void finish(const struct square_params *a, struct shared_state *shared,
                              const struct pair_map *map, float acc[BLOCKS][4], float *staged)
{
    const struct tile *tile = &shared->tile;

    stage(a, shared, acc, staged);
    barrier();
    const int spoiled = shared->spoiled;
    if (spoiled > SQUARE_SPOILED) {
        if (threadIdx.x == 0)
            leave(a, tile);
        return;
    }
    if (spoiled > 0) {
        for (int i = (int)threadIdx.x / 32; i < spoiled; i += THREADS / 32) {
            const int row = (int)(shared->list[i] >> 16), col = (int)(shared->list[i] & 0xffff);
            const float sum = direct_sum(&a->pair, tile, row, col);
            if (threadIdx.x % 32 == 0)
                staged[row * STAGED_LD + col] = sum;
        }
        barrier();
    }
    store(&a->pair, shared, map, staged);
    if (a->pair.symmetric) {
        barrier();
        store_mirrored(&a->pair, shared, staged);
    }
}

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
                                      char *stages, float *staged)
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
        float acc[BLOCKS][4] = {};
        sum_products(a, &shared->tile, &pipeline, acc);
        finish(a, shared, map, acc, staged);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, BLOCKS_EACH)
    cdist_mma(const __grid_constant__ struct square_params a)
{
    extern __shared__ __align__(128) char stages[];
    __shared__ struct shared_state shared;

    run_block(&a, &shared, stages);
}
