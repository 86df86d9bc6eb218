/*
 * sample_product.cu - gradients of weights of linear layers and convolutions, tile by tile
 *
 *   W[o][i] = sum_s g[s][o] a[s][i], a patch's element for a[s][i]
 *
 * sample_blocks: of each sample: to where they are wanted, and the sums of their squares.
 * sample_sums: of all samples, each times its factor, in parts of their positions.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_tile.cuh"

/* A tile of W: of which group, rows and columns. */
struct place {
    int group, row, col;
};

static __device__ int tiles_of(const params &a)
{
    return a.l.groups * ((a.l.out + TILE - 1) / TILE) * ((a.l.in + TILE - 1) / TILE);
}

static __device__ struct place place_of(const params &a, int tile)
{
    const int cols = (a.l.in + TILE - 1) / TILE, rows = (a.l.out + TILE - 1) / TILE;
    struct place p;

    p.col = tile % cols * TILE;
    p.row = tile / cols % rows * TILE;
    p.group = tile / cols / rows;
    return p;
}

static __device__ void tile_of(const params &a, struct tile_memory *memory, const struct place &p,
                               const struct run *run, REAL sums[EACH][EACH])
{
    struct operand left, right;

    left.gradients = true;
    left.weighted = run->factors != nullptr;
    right.gradients = right.weighted = false;
    left.start = right.start = 0;
    open_operand(a, &left, true, p.group, p.row);
    open_operand(a, &right, true, p.group, p.col);
    multiply(a, memory, &left, &right, run, sums);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sample_blocks(const __grid_constant__ params a)
{
    __shared__ __align__(16) struct tile_memory memory;
    __shared__ double squares[THREADS];
    const int tiles = tiles_of(a);

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)(block / tiles), tile = (int)(block % tiles);
        const struct place p = place_of(a, tile);
        const struct run run = {false, p.group, sample, 0, a.l.positions, nullptr};
        REAL sums[EACH][EACH] = {0};
        double square = 0;

        __syncthreads();
        tile_of(a, &memory, p, &run, sums);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const int row = p.row + tile_row(i), col = p.col + tile_col(j);
                const double value = a.scale * (double)sums[i][j];
                if (row >= a.l.out || col >= a.l.in)
                    continue;
                square += value * value;
                if (a.weight.data)
                    put(a.weight, sample, p.group * a.l.out + row, col, false, value);
            }
        block_sum(squares, (int)threadIdx.x, square);
        if (threadIdx.x == 0 && a.squares)
            a.squares[(long long)sample * a.square_count + a.square_first + tile] = squares[0];
    }
}

/* One part: straight to where the sums are wanted. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sample_sums(const __grid_constant__ params a)
{
    __shared__ __align__(16) struct tile_memory memory;
    const int tiles = tiles_of(a);
    const long long all = (long long)a.l.samples * a.l.positions;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long part = block / tiles, begin = part * a.length;
        const int count = (int)max(0LL, min(a.length, all - begin));
        const struct place p = place_of(a, (int)(block % tiles));
        const struct run run = {false,
                                p.group,
                                count > 0 ? (int)(begin / a.l.positions) : 0,
                                count > 0 ? (int)(begin % a.l.positions) : 0,
                                count,
                                a.factors};
        REAL sums[EACH][EACH] = {0};

        __syncthreads();
        tile_of(a, &memory, p, &run, sums);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const int row = p.row + tile_row(i), col = p.col + tile_col(j);
                const long long at = p.group * (long long)a.l.out + row;
                if (row >= a.l.out || col >= a.l.in)
                    continue;
                const double value = (double)sums[i][j];
                if (a.parts > 1)
                    a.partial[0][(part * a.l.groups * a.l.out + at) * a.l.in + col] = value;
                else
                    put(a.weight, 0, (int)at, col, a.add, value);
            }
    }
}
