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
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_mma.cuh"

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
            if (row >= a.out || col >= a.in)
                continue;
            square += value * value;
            if (a.weight.data)
                put(a.weight, sample, group * a.out + row, col, false, value);
        }
    return square;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sample_mma_blocks(const __grid_constant__ params a)
{
    struct shared &shared = *shared_memory();
    const int cols = (a.in + TILE - 1) / TILE, rows = (a.out + TILE - 1) / TILE;
    const int tiles = a.groups * rows * cols;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / tiles), tile = (int)(block % tiles);
        const int group = tile / cols / rows, row = tile / cols % rows, col = tile % cols;
        const int t = (int)threadIdx.x;
        tile_sums sums = {};

        __syncthreads();
        if (t < 2)
            shared.product.side[t] =
                operand_of(a, t == 0, true, sample, group, (t == 0 ? row : col) * TILE);
        multiply_tiles(a, &shared.memory, &shared.product, a.positions, sums);
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
    const int tiles = (a.positions + TILE - 1) / TILE, pairs = tiles * (tiles + 1) / 2;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / ((long long)pairs * a.groups));
        const int rest = (int)(block % ((long long)pairs * a.groups));
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
