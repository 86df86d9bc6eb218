/*
 * sample_ghost.cu - norms of gradients of weights without the gradients
 *
 *   |W|^2 = sum_st (a[s] . a[t]) (g[s] . g[t])
 *
 * sample_ghost: a tile of positions s and t a block, both products in registers; t <= s, the tiles
 * with t < s count twice.
 * sample_ghost_one: of one position, |a|^2 |g|^2.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_tile.cuh"

/* The products of features of positions of tiles i and j. */
static __device__ void dots(const params &a, struct tile_memory *memory, bool gradients,
                            const int sample_group[2], const int tile[2], REAL sums[EACH][EACH])
{
    const int count = gradients ? a.l.out : a.l.in;
    const struct run run = {true, sample_group[1], sample_group[0], 0, count, nullptr};
    struct operand left, right;

    left.gradients = right.gradients = gradients;
    left.weighted = right.weighted = false;
    left.start = right.start =
        sample_group[0] * (gradients ? a.l.g.sample_stride : a.l.a.sample_stride);
    open_operand(a, &left, false, sample_group[1], tile[0] * TILE);
    open_operand(a, &right, false, sample_group[1], tile[1] * TILE);
    multiply(a, memory, &left, &right, &run, sums);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sample_ghost(const __grid_constant__ params a)
{
    __shared__ __align__(16) struct tile_memory memory;
    __shared__ double squares[THREADS];
    const int tiles = (a.l.positions + TILE - 1) / TILE, pairs = tiles * (tiles + 1) / 2;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / ((long long)pairs * a.l.groups));
        const int rest = (int)(block % ((long long)pairs * a.l.groups));
        const int sample_group[2] = {sample, rest / pairs};
        int tile[2] = {0, rest % pairs};
        REAL inputs[EACH][EACH] = {0}, gradients[EACH][EACH] = {0};
        double square = 0;

        while (tile[1] > tile[0])
            tile[1] -= ++tile[0];
        __syncthreads();
        dots(a, &memory, false, sample_group, tile, inputs);
        __syncthreads();
        dots(a, &memory, true, sample_group, tile, gradients);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                if (tile[0] * TILE + tile_row(i) < a.l.positions &&
                    tile[1] * TILE + tile_col(j) < a.l.positions)
                    square += (double)inputs[i][j] * (double)gradients[i][j];
        block_sum(squares, (int)threadIdx.x, square);
        if (threadIdx.x == 0)
            a.squares[(long long)sample * a.square_count + a.square_first + rest] =
                (tile[0] == tile[1] ? 1 : 2) * a.scale * a.scale * squares[0];
    }
}

/* The sum of squares of a group's features at the one position, to sums[0]. */
static __device__ void square_of(const params &a, double *sums, bool gradients, int sample,
                                 int group)
{
    const struct layer_side &side = gradients ? a.l.g : a.l.a;
    const struct part s = position_of(a.l, gradients, 0);
    const int count = gradients ? a.l.out : a.l.in;
    double sum = 0;

    for (int f = (int)threadIdx.x; f < count; f += THREADS) {
        const struct part p = feature_of(a.l, gradients, group, f);
        if (!gradients && !inside(a.l, p, s))
            continue;
        const double v = (double)side_value(side, sample * side.sample_stride + p.at + s.at);
        sum += v * v;
    }
    block_sum(sums, (int)threadIdx.x, sum);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_ghost_one(const __grid_constant__ params a)
{
    __shared__ double sums[2][THREADS];

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / a.l.groups), group = (int)(block % a.l.groups);

        __syncthreads();
        square_of(a, sums[0], false, sample, group);
        square_of(a, sums[1], true, sample, group);
        if (threadIdx.x == 0)
            a.squares[(long long)sample * a.square_count + a.square_first + group] =
                a.scale * a.scale * sums[0][0] * sums[1][0];
    }
}
