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
 * eps of the largest partial sum.  PROMOTED: after each chunk of BK columns the partial sum is
 * added to a common f32 one, so that it stays small: 3 BK / 16 additions to a sum of BK products.
 * A squared distance s >= N / 2 has twice these errors, relatively; all others, and those where N
 * leaves the range in which nothing over- or underflows, are summed again from differences: up to
 * SQUARE_SPOILED of a tile here, a warp an element; a tile with more is left to cdist.cu, by the
 * list.
 *
 * A block computes tiles of 128 by BN of out.  CORE says how:
 *   CORE_MMA    mma.sync, sm_80 and newer: 8 warps, each loads and multiplies    (mma_core.cuh)
 *   CORE_WGMMA  wgmma, sm_90a alone: 8 warps multiply, a ninth one loads         (wgmma_core.cuh)
 * The sums are staged in shared memory, mapped, and stored row by row.
 *
 * Parameters (-D): HALF, STEP (PAIR_TWO, PAIR_DOT), FUNCTION, OUTPUT, BASE, SLOPE, HYPERS as in
 * cdist.cu, and
 *   CORE, BN        128, or 256 with CORE_WGMMA
 *   BK              columns of a chunk: 32 or 64
 *   STAGES          chunks in shared memory
 *   PLANES          2, or 1 where the numbers have no lo
 *   PROMOTED        1: see above
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
#define TILE_COLS     BN
#define BLOCKS        (TILE_ROWS * TILE_COLS / THREADS / 4) /* of four sums that a thread holds */
#define STAGED_LD     (BN + 8)             /* spreads the writes of eight rows over all banks */
#define PLANE_X       (TILE_ROWS * BK * 2) /* bytes */
#define PLANE_Y       (TILE_COLS * BK * 2)
#define STAGE         (PLANES * (PLANE_X + PLANE_Y))
#define SMALLEST_NORM 0x1p-114f /* as in cdist_square_tile.h of the CPU */
#define LARGEST_NORM  0x1p126f

#if HALF
typedef unsigned short element;
#else
typedef float element;
#endif

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

static __device__ float real_of(element e)
{
#if HALF == 1
    return ptx_float_of_half(e);
#elif HALF == 2
    return ptx_float_of_bfloat(e);
#else
    return e;
#endif
}

static __device__ float power_of_two(int e)
{
    return __int_as_float((e + 127) << 23);
}

/* The sum that acc, of scaled rows, comes to; spoiled: it is not exact enough. */
static __device__ float whole_sum(float acc, const struct square_row &x, const struct square_row &y,
                                  bool *spoiled)
{
    const float limit = x.limit + y.limit;

    *spoiled = false;
    if (limit != limit)
        return limit;
    if (STEP == PAIR_TWO) {
        const float s = fmaf(-2 * (acc * x.factor), y.factor, limit);
        *spoiled =
            limit != 0 && !(2 * s >= limit && limit >= SMALLEST_NORM && limit <= LARGEST_NORM);
        return limit == 0 ? 0 : s;
    }
    if (FUNCTION == PAIR_COSINE)
        return acc * x.factor * y.factor;
    const int e = (int)(x.factor + y.factor), half = e / 2 < -126 ? -126 : e / 2,
              rest = e - e / 2 < -126 ? -126 : e - e / 2;
    *spoiled = !(fabsf(acc) >= limit);
    return acc * power_of_two(half) * power_of_two(rest);
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
        sum = step(sum, real_of(x[k * a->x.col_stride]), real_of(y[k * a->y.col_stride]), none, 0);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    return sum;
}

/* Whether out has this element and the tile does not hold its mirror image instead. */
static __device__ bool counts(const struct shared_state *shared, int row, int col)
{
    return row < shared->tile.rows[0] && col < shared->tile.rows[1] && row <= col + shared->offset;
}

/* Stages the sums of a thread and lists the spoiled ones. */
static __device__ void stage(const struct square_params *a, struct shared_state *shared,
                             float acc[BLOCKS][4], float *staged)
{
    const struct tile *tile = &shared->tile;
    const long long item = tile->item - a->first;
    const struct square_row *x = a->side[0].rows + item * a->side[0].item_rows + tile->i;
    const struct square_row *y = a->side[1].rows + item * a->side[1].item_rows + tile->j;

#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = row_of(b) + i / 2 * 8, col = col_of(b) + i % 2;
            bool spoiled;
            float s = whole_sum(acc[b][i], x[row], y[col], &spoiled);
            if (STEP == PAIR_TWO && row == col + shared->offset && x[row].limit <= LARGEST_NORM)
                s = 0, spoiled = false;
            staged[row * STAGED_LD + col] = s;
            if (spoiled && counts(shared, row, col)) {
                const int at = atomicAdd(&shared->spoiled, 1);
                if (at < SQUARE_SPOILED)
                    shared->list[at] = (unsigned)row << 16 | (unsigned)col;
            }
        }
}

/* Leaves the tile to cdist.cu, in tiles of 128 by 128. */
static __device__ void leave(const struct square_params *a, const struct tile *tile)
{
    for (int col = 0; col < tile->rows[1]; col += SQUARE_ROWS) {
        struct square_tile left = {tile->item, (int)(tile->i / SQUARE_ROWS),
                                   (int)((tile->j + col) / SQUARE_ROWS)};
        a->list->tile[atomicAdd(&a->list->count, 1ull)] = left;
    }
}

static __device__ void store(const struct pair_params *a, const struct shared_state *shared,
                             const struct pair_map *map, float *staged)
{
    const struct tile *tile = &shared->tile;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const bool valid = !HYPERS || map->valid;
    const float r = (float)map->regularization;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *out = tile->out + tile->i * row_stride + tile->j * col_stride;

#pragma unroll 1
    for (int row = warp; row < tile->rows[0]; row += THREADS / 32) {
        const long long at = tile->i + row - tile->j - a->diagonal;
#pragma unroll 2
        for (int col = lane; col < tile->rows[1]; col += 32) {
            float s = mapped(map, staged[row * STAGED_LD + col]);
            if (OUTPUT == PAIR_VALUE && col == at)
                s += r;
            s = valid ? s : __int_as_float(0x7fc00000);
            if (a->symmetric)
                staged[row * STAGED_LD + col] = s;
            if (counts(shared, row, col))
                out[row * row_stride + col * col_stride] = s;
        }
    }
}

/* The mirror image of what store has staged, a square of 8 rows by 4 columns a warp. */
static __device__ void store_mirrored(const struct pair_params *a,
                                      const struct shared_state *shared, const float *staged)
{
    const struct tile *tile = &shared->tile;
    const long long row_stride = a->out.row_stride, col_stride = a->out.col_stride;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    float *out = tile->out + tile->j * row_stride + tile->i * col_stride;

#pragma unroll 1
    for (int col = warp * 4 + lane / 8; col < tile->rows[1]; col += THREADS / 8)
#pragma unroll 2
        for (int row = lane % 8; row < tile->rows[0]; row += 8)
            if (row < col + shared->offset)
                out[col * row_stride + row * col_stride] = staged[row * STAGED_LD + col];
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
