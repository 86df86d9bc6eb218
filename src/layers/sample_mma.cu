/*
 * sample_mma.cu - gradients of weights and their norms by tensor cores
 *
 *   W[o][i] = sum_s g[s][o] a[s][i], a patch's element for a[s][i]
 *   |W|^2   = sum_st (a[s] . a[t]) (g[s] . g[t])
 *
 * sample_mma_blocks: W of each sample, to where it is wanted, and the sums of its squares.
 * sample_mma_ghost: the norm alone, from tiles of positions s and t; t <= s, the tiles with t < s
 * count twice.
 *
 * Both are tiles of a product of two sides of a layer:
 *
 *   sums[i][j] += sum_k left(i, k) right(j, k)
 *
 * "Outer" is what a tile has rows or columns of, features or positions of one sample, "inner" what
 * is summed over, the other of the two.  Elements come by asynchronous copies, STAGES - 1 steps
 * ahead, each from where the offsets of its outer and its inner one together say; it is there
 * where their masks meet: a position of a patch has a bit for each place of the kernel that lies
 * in the input, a feature that of its own place.  Sides are of REAL, offsets within a sample have
 * 32 bits, kernels 64 places at most: sample_tile.cuh serves all others.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#define REAL_IS_float  0
#define REAL_IS_double 1
#define JOIN(a, b)     a##b
#define JOINED(a, b)   JOIN(a, b)
#define DOUBLES        JOINED(REAL_IS_, REAL)

#include "layer_params.h"

#include "kron_mma.cuh"
#include "layer_side.cuh"

#define THREADS SAMPLE_THREADS

#include "block_sum.cuh"

typedef struct sample_params params;

#define TILE   SAMPLE_TILE
#define STEP   SAMPLE_STEP
#define STAGES (DOUBLES ? 2 : 4)
#define KNOWN  64                  /* inner ones that are looked up at a time */
#define WIDTH  (16 / sizeof(REAL)) /* elements of a wide copy */
#define ROW_O  (STEP + 4)          /* an outer one's row of a stage, if inner ones are neighbours */
#define ROW_K  (TILE + 8)          /* an inner one's, if outer ones are */

/* ---- Where elements lie --------------------------------------------------------------------- */

struct item {
    unsigned long long mask;
    int at, unused;
};

struct tile_memory {
    REAL stage[STAGES][2][TILE * ROW_O];
    struct item outer[2][TILE], inner[2][2][KNOWN]; /* of both sides; inner: now and next */
};

/* One side of the product. */
struct operand {
    const REAL *start;
    bool gradients; /* else what goes in */
    bool features;  /* outer ones are features */
    bool outer_fast, wide;
    int row_o, row_k, first, group;
};

struct product {
    struct operand side[2];
};

static __device__ int features_of(const params &a, bool gradients)
{
    return gradients ? a.l.out : a.l.in;
}

static __device__ unsigned long long inside_mask(const params &a, const int x[3])
{
    unsigned long long row = 0, mask = 0;

    for (int k = 0; k < a.l.kernel[2]; k++)
        row |= (unsigned long long)((unsigned)(x[2] + k * a.l.dilation[2]) < (unsigned)a.l.size[2])
               << k;
    for (int i = 0; i < a.l.kernel[0]; i++)
        for (int j = 0; j < a.l.kernel[1]; j++)
            if ((unsigned)(x[0] + i * a.l.dilation[0]) < (unsigned)a.l.size[0] &&
                (unsigned)(x[1] + j * a.l.dilation[1]) < (unsigned)a.l.size[1])
                mask |= row << (i * a.l.kernel[1] + j) * a.l.kernel[2];
    return mask;
}

/* Feature or position i; none that is there where it is not below `all`. */
static __device__ struct item item_of(const params &a, const struct operand &o, bool feature, int i)
{
    const int all = feature ? features_of(a, o.gradients) : a.l.positions;
    struct item item = {0, 0, 0};

    if (i >= all)
        return item;
    item.mask = ~0ull;
    if (o.gradients) {
        item.at = (int)(feature ? axes_at(a.l.g.feature, o.group * a.l.out + i)
                                : axes_at(a.l.g.position, i));
        return item;
    }
    const struct part p = feature ? input_feature(a.l, o.group, i) : input_position(a.l, i);
    item.at = (int)p.at;
    if (a.l.patches && feature)
        item.mask = 1ull << i % (a.l.kernel[0] * a.l.kernel[1] * a.l.kernel[2]);
    else if (a.l.patches)
        item.mask = inside_mask(a, p.x);
    return item;
}

static __device__ struct operand operand_of(const params &a, bool gradients, bool features,
                                            int sample, int group, int first)
{
    const struct layer_side &side = gradients ? a.l.g : a.l.a;
    struct operand o;

    o.start = (const REAL *)side.data + sample * side.sample_stride;
    o.gradients = gradients;
    o.features = features;
    o.outer_fast = features != (bool)(gradients ? a.l.planes : a.l.a_planes);
    o.wide = gradients ? a.g_wide : a.a_wide;
    o.row_o = o.outer_fast ? 1 : ROW_O;
    o.row_k = o.outer_fast ? ROW_K : 1;
    o.first = first;
    o.group = group;
    return o;
}

/* The next inner ones from `first` on, by the first threads of a block. */
static __device__ void look_up(const params &a, struct tile_memory *memory,
                               const struct product *product, int first)
{
    const int t = (int)threadIdx.x, which = t / KNOWN;

    if (which > 1)
        return;
    const struct operand &o = product->side[which];
    memory->inner[first / KNOWN % 2][which][t % KNOWN] =
        item_of(a, o, !o.features, first + t % KNOWN);
}

static __device__ void look_up_outer(const params &a, struct tile_memory *memory,
                                     const struct product *product)
{
    const int t = (int)threadIdx.x, which = t / TILE;

    if (which > 1)
        return;
    const struct operand &o = product->side[which];
    memory->outer[which][t % TILE] = item_of(a, o, o.features, o.first + t % TILE);
}

/* SPAN elements, all of them there or none. */
template <int SPAN>
static __device__ void copy(const struct operand &o, REAL *to, const struct item &outer,
                            const struct item &inner, int i, int k)
{
    const bool there = (outer.mask & inner.mask) != 0;

    ptx_copy_async<SPAN * sizeof(REAL)>(to + i * o.row_o + k * o.row_k,
                                        o.start + (there ? outer.at + inner.at : 0),
                                        there ? SPAN * (int)sizeof(REAL) : 0);
}

/* A step of one side, SPAN neighbours a copy. */
template <int SPAN>
static __device__ void copy_side(const struct operand &o, REAL *to, const struct item *outer,
                                 const struct item *inner)
{
    const int t = (int)threadIdx.x;

    if (o.outer_fast) {
        constexpr int ROW = TILE / SPAN;
        const int i = t % ROW * SPAN;
#pragma unroll
        for (int k = t / ROW; k < STEP; k += THREADS / ROW)
            copy<SPAN>(o, to, outer[i], inner[k], i, k);
    } else {
        constexpr int ROW = STEP / SPAN;
        const int k = t % ROW * SPAN;
#pragma unroll
        for (int i = t / ROW; i < TILE; i += THREADS / ROW)
            copy<SPAN>(o, to, outer[i], inner[k], i, k);
    }
}

static __device__ void copy_step(struct tile_memory *memory, const struct product *product,
                                 int step)
{
#pragma unroll
    for (int which = 0; which < 2; which++) {
        const struct operand &o = product->side[which];
        REAL *to = memory->stage[step % STAGES][which];
        const struct item *outer = memory->outer[which];
        const struct item *inner =
            memory->inner[step * STEP / KNOWN % 2][which] + step * STEP % KNOWN;

        if (o.wide)
            copy_side<WIDTH>(o, to, outer, inner);
        else
            copy_side<1>(o, to, outer, inner);
    }
}

/* Four by two warps, 16 by 32 each: sums[j] is 16 by 8, as ptx.cuh has it. */
typedef REAL tile_sums[4][4];

static __device__ int tile_row(int part)
{
    return (int)threadIdx.x / 64 * 16 + part / 2 * 8 + (int)threadIdx.x % 32 / 4;
}

static __device__ int tile_col(int j, int part)
{
    return (int)threadIdx.x / 32 % 2 * 32 + j * 8 + (int)threadIdx.x % 4 * 2 + part % 2;
}

static __device__ void add_step(REAL (*stage)[TILE * ROW_O], const struct product *product,
                                tile_sums &sums)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int lo = product->side[0].row_o, lk = product->side[0].row_k;
    const int ro = product->side[1].row_o, rk = product->side[1].row_k;
    const REAL *left = stage[0] + (warp / 2 * 16 + lane / 4) * lo + lane % 4 * lk;
    const REAL *right = stage[1] + (warp % 2 * 32 + lane / 4) * ro + lane % 4 * rk;

#pragma unroll
    for (int k = 0; k < STEP; k += 8) {
        fragment x[2][4], y[4][2][2];
#pragma unroll
        for (int part = 0; part < 4; part++)
            x[0][part] = fragment_of(left[part % 2 * 8 * lo + (k + part / 2 * 4) * lk]);
        split(x);
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
            for (int half = 0; half < 2; half++)
                y[j][0][half] = fragment_of(right[j * 8 * ro + (k + half * 4) * rk]);
            split(y[j]);
        }
        multiply<2, 2>(sums, x, y);
    }
}

/* All threads; the product, which lies in shared memory, is there with the first barrier, and the
 * memory is free again behind the last one.  count: inner ones. */
static __device__ void multiply_tiles(const params &a, struct tile_memory *memory,
                                      const struct product *product, int count, tile_sums &sums)
{
    const int steps = (count + STEP - 1) / STEP;

    __syncthreads();
    look_up_outer(a, memory, product);
    look_up(a, memory, product, 0);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < STAGES - 1; step++) {
        if (step < steps)
            copy_step(memory, product, step);
        ptx_copy_commit();
    }
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const int next = step * STEP + KNOWN;
        ptx_copy_wait<STAGES - 2>();
        __syncthreads(); /* this step is there, and the stage of the last one no longer read */
        if (step + STAGES - 1 < steps)
            copy_step(memory, product, step + STAGES - 1);
        ptx_copy_commit();
        if (step * STEP % KNOWN == 0 && next < count)
            look_up(a, memory, product, next);
        add_step(memory->stage[step % STAGES], product, sums);
    }
    ptx_copy_wait<0>();
    __syncthreads();
}

/* ---- Kernels -------------------------------------------------------------------------------- */

#define BLOCKS       (DOUBLES ? 2 : 3) /* of a processor */
#define GHOST_BLOCKS 2

struct shared {
    union {
        struct tile_memory memory;
        double squares[THREADS];
    };
    struct product product;
};

/* That of whichever kernel runs. */
static __device__ struct shared *shared_memory()
{
    __shared__ __align__(16) struct shared shared;

    return &shared;
}

/* A tile of W of a group: its squares; the tile goes to where it is wanted. */
static __device__ double put_tile(const params &a, int sample, const struct product &product,
                                  const tile_sums &sums)
{
    const int group = product.side[0].group;
    double square = 0;

#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const int row = product.side[0].first + tile_row(part);
            const int col = product.side[1].first + tile_col(j, part);
            const double value = a.scale * (double)sums[j][part];
            if (row >= a.l.out || col >= a.l.in)
                continue;
            square += value * value;
            if (a.weight.data)
                put(a.weight, sample, group * a.l.out + row, col, false, value);
        }
    return square;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sample_mma_blocks(const __grid_constant__ params a)
{
    struct shared &shared = *shared_memory();
    const int cols = (a.l.in + TILE - 1) / TILE, rows = (a.l.out + TILE - 1) / TILE;
    const int tiles = a.l.groups * rows * cols;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / tiles), tile = (int)(block % tiles);
        const int group = tile / cols / rows, row = tile / cols % rows, col = tile % cols;
        const int t = (int)threadIdx.x;
        tile_sums sums = {};

        __syncthreads();
        if (t < 2)
            shared.product.side[t] =
                operand_of(a, t == 0, true, sample, group, (t == 0 ? row : col) * TILE);
        multiply_tiles(a, &shared.memory, &shared.product, a.l.positions, sums);
        block_sum(shared.squares, t, put_tile(a, sample, shared.product, sums));
        if (threadIdx.x == 0 && a.squares)
            a.squares[(long long)sample * a.square_count + a.square_first + tile] =
                shared.squares[0];
    }
}

/* The products of features of positions of tiles i and j. */
static __device__ void dots(const params &a, struct shared &shared, bool gradients, int sample,
                            int group, const int tile[2], tile_sums &sums)
{
    const int t = (int)threadIdx.x;

    __syncthreads();
    if (t < 2)
        shared.product.side[t] =
            operand_of(a, gradients, false, sample, group, (t ? tile[1] : tile[0]) * TILE);
    multiply_tiles(a, &shared.memory, &shared.product, features_of(a, gradients), sums);
}

extern "C" __global__ void __launch_bounds__(THREADS, GHOST_BLOCKS)
    sample_mma_ghost(const __grid_constant__ params a)
{
    struct shared &shared = *shared_memory();
    const int tiles = (a.l.positions + TILE - 1) / TILE, pairs = tiles * (tiles + 1) / 2;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / ((long long)pairs * a.l.groups));
        const int rest = (int)(block % ((long long)pairs * a.l.groups));
        int tile[2] = {0, rest % pairs};
        tile_sums inputs = {}, gradients = {};
        double square = 0;

        while (tile[1] > tile[0])
            tile[1] -= ++tile[0];
        dots(a, shared, false, sample, rest / pairs, tile, inputs);
        dots(a, shared, true, sample, rest / pairs, tile, gradients);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int part = 0; part < 4; part++) /* 0 beyond the last position */
                square += (double)inputs[j][part] * (double)gradients[j][part];
        block_sum(shared.squares, (int)threadIdx.x, square);
        if (threadIdx.x == 0)
            a.squares[(long long)sample * a.square_count + a.square_first + rest] =
                (tile[0] == tile[1] ? 1 : 2) * a.scale * a.scale * shared.squares[0];
    }
}
