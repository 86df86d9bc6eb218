/*
 * cdist_bits.cu - Hamming and Jaccard distances of rows of packed bits
 *
 * A block computes tiles of 64 by 64 distances.  It brings 32 words of 32 bits of each row to
 * shared memory at a time, and each of its 256 threads counts the bits that differ in 4 by 4 pairs.
 * A bit that either row has is one that x has or y has, so that
 *   |x or y| = (|x| + |y| + |x xor y|) / 2,
 * and the Jaccard distance needs no second count for each pair, but one for each row.  Counting is
 * what limits the kernel: a processor counts the bits of 16 words a cycle.
 *
 * Counts are whole numbers; they become f32 once, before the only division.
 *
 * Parameters (-D), set by cuda_cdist_bits.c:
 *   JACCARD  1: the distance of Jaccard; 0: that of Hamming
 *
 * SPDX-License-Identifier: MIT
 */
#include "cdist_bits_params.h"
#include "device_view.cuh"

#define TILE  BITS_TILE
#define LANES 16 /* threads along a side of the tile */
#define EACH  (TILE / LANES)
#define WORDS 32         /* of a row at a time */
#define LD    (TILE + 1) /* neighbouring words of a row lie in different banks */

/* Where a tile's rows begin, and how many it has. */
struct side {
    const unsigned char *from;
    long long row_stride, col_stride;
    int rows;
    bool words;
};

/* The word of a row that begins with byte `first`, the first byte in its lowest bits; bits that do
 * not count are 0. */
static __device__ unsigned word_at(const struct cdist_bits_params *a, const struct side *s, int row,
                                   long long first)
{
    const long long left = a->depth - first;
    const unsigned char *from = s->from + row * s->row_stride + first * s->col_stride;
    unsigned word = 0;

    if (row >= s->rows || left <= 0)
        return 0;
    if (s->words && left >= 4)
        word = *(const unsigned *)from;
    else
        for (int i = 0; i < 4 && i < left; i++)
            word |= (unsigned)from[i * s->col_stride] << 8 * i;
    return left <= 4 ? word & (unsigned)a->last : word;
}

/* Brings the words from byte `first` on of all rows of a side to shared memory. */
static __device__ void load(const struct cdist_bits_params *a, const struct side *s,
                            long long first, unsigned to[WORDS][LD])
{
    const int word = (int)threadIdx.x % WORDS;

    for (int row = (int)threadIdx.x / WORDS; row < TILE; row += BITS_THREADS / WORDS)
        to[word][row] = word_at(a, s, row, first + 4 * word);
}

static __device__ void count(const unsigned x[WORDS][LD], const unsigned y[WORDS][LD],
                             unsigned differ[EACH][EACH])
{
    const int row = (int)threadIdx.x / LANES, col = (int)threadIdx.x % LANES;

#pragma unroll 4
    for (int k = 0; k < WORDS; k++) {
        unsigned of_x[EACH], of_y[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            of_x[i] = x[k][row + LANES * i];
            of_y[i] = y[k][col + LANES * i];
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                differ[i][j] += (unsigned)__popc(of_x[i] ^ of_y[j]);
    }
}

/* Adds the bits of a row that these words have: of rows of x, and of y behind them. */
static __device__ unsigned count_row(const unsigned x[WORDS][LD], const unsigned y[WORDS][LD])
{
    const int row = (int)threadIdx.x;
    unsigned sum = 0;

    if (row < 2 * TILE)
        for (int k = 0; k < WORDS; k++)
            sum += (unsigned)__popc(row < TILE ? x[k][row] : y[k][row - TILE]);
    return sum;
}

/* both: |x| + |y| */
static __device__ float distance(const struct cdist_bits_params *a, unsigned differ, unsigned both)
{
    const unsigned all = JACCARD ? (both - differ) / 2 + differ : (unsigned)a->bits;

    return differ == 0 ? 0.0f : (float)differ / (float)all;
}

static __device__ void store(const struct cdist_bits_params *a, float *out, long long i,
                             long long j, float value)
{
    if (a->condensed) {
        if (i < j)
            out[(i * (a->rows - 1) - i * (i - 1) / 2 + j - i - 1) * a->out.col_stride] = value;
        return;
    }
    out[i * a->out.row_stride + j * a->out.col_stride] = value;
    if (a->symmetric)
        out[j * a->out.row_stride + i * a->out.col_stride] = value;
}

static __device__ struct side side_of(const struct cdist_bits_params *a, int which, long long item,
                                      long long first)
{
    const struct device_view *v = which ? &a->y : &a->x;
    const long long left = (which ? a->cols : a->rows) - first;
    const long long offset = batch_offset(a->batch_shape, a->batch_ndim, v->batch_stride, item);

    return {(const unsigned char *)v->data + offset + first * v->row_stride, v->row_stride,
            v->col_stride, left < TILE ? (int)left : TILE, a->words[which] != 0};
}

extern "C" __global__ void __launch_bounds__(BITS_THREADS, 3)
    cdist_bits(const __grid_constant__ struct cdist_bits_params a)
{
    __shared__ unsigned x[WORDS][LD], y[WORDS][LD];
    __shared__ unsigned ones[2 * TILE]; /* bits of each row */
    const int row = (int)threadIdx.x / LANES, col = (int)threadIdx.x % LANES;

    for (long long at = blockIdx.x; at < a.tiles; at += gridDim.x) {
        const long long item = at / a.item_tiles, tile = at - item * a.item_tiles;
        const long long i = tile / a.tile_cols * TILE, j = tile % a.tile_cols * TILE;
        unsigned differ[EACH][EACH] = {}, mine = 0;

        if ((a.symmetric || a.condensed) && i > j)
            continue;
        const struct side s = side_of(&a, 0, item, i), t = side_of(&a, 1, item, j);
        for (long long first = 0; first < a.depth; first += 4 * WORDS) {
            load(&a, &s, first, x);
            load(&a, &t, first, y);
            __syncthreads();
            count(x, y, differ);
            if (JACCARD)
                mine += count_row(x, y);
            __syncthreads();
        }
        if (JACCARD) {
            if (threadIdx.x < 2 * TILE)
                ones[threadIdx.x] = mine;
            __syncthreads();
        }
        float *out = (float *)a.out.data +
                     batch_offset(a.batch_shape, a.batch_ndim, a.out.batch_stride, item);
#pragma unroll
        for (int k = 0; k < EACH; k++)
#pragma unroll
            for (int l = 0; l < EACH; l++) {
                const int r = row + LANES * k, c = col + LANES * l;
                const unsigned both = JACCARD ? ones[r] + ones[TILE + c] : 0;
                if (r < s.rows && c < t.rows)
                    store(&a, out, i + r, j + c, distance(&a, differ[k][l], both));
            }
        __syncthreads(); /* ones are read no more */
    }
}
