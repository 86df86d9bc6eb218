/*
 * mma_tile.cuh - products of a tile of 128 by 128 by mma.sync: fragments, and what a thread holds
 *
 * Eight warps: two by four, each 64 by 32 of the tile, or, with WARP_ROWS 16, each 16 rows of it.
 * Part of mma_core.cuh and of kernel_matmul_tensor.cu, whose THREADS, BLOCKS, PLANES, PLANE_X and
 * PLANE_Y it uses; panels are those of pair_params.h.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef WARP_ROWS
#  define WARP_ROWS 64
#endif
#define ROW_BLOCKS (WARP_ROWS / 16)
#define COL_BLOCKS (BLOCKS / ROW_BLOCKS)
#define WARP_COLS  (COL_BLOCKS * 8)
#define ACROSS     (128 / WARP_COLS) /* warps side by side */

/* Block b of a warp is 16 rows by 8 columns; element 0 of its sums is in this row and column. */
static __device__ int row_of(int b, unsigned thread = threadIdx.x)
{
    return (int)(thread / 32 / ACROSS * WARP_ROWS + thread % 32 / 4) + b / COL_BLOCKS * 16;
}

static __device__ int col_of(int b, unsigned thread = threadIdx.x)
{
    return (int)(thread / 32 % ACROSS * WARP_COLS + thread % 4 * 2) + b % COL_BLOCKS * 8;
}

/* Contiguous bytes to shared memory by all threads. */
template <int BYTES> static __device__ void copy_all(char *to, const char *from)
{
#pragma unroll
    for (int at = 0; at < BYTES; at += THREADS * 16)
        ptx_copy_async<16>(to + at + threadIdx.x * 16, from + at + threadIdx.x * 16, 16);
}

/* Four matrices of 8 by 8: rows 16 of a plane of 128 rows from its group of columns on. */
static __device__ void load_fragment(unsigned r[4], const char *plane, int row, int group)
{
    ptx_ldmatrix_x4(r, plane + (group * 128 + row) * 16);
}

/* Adds a product to sums; FIRST: sums begin here. */
template <bool FIRST>
static __device__ void multiply_block(float sums[4], const unsigned a[4], const unsigned b[2])
{
    if (FIRST)
        ptx_mma_f16_first(sums, a, b);
    else
        ptx_mma_f16(sums, a, b);
}

/* 16 columns of a chunk.  FIRST: sums begin here, whatever acc holds. */
#if ROW_BLOCKS > 1
template <bool FIRST = false>
static __device__ void multiply(float acc[BLOCKS][4], const char *x, const char *y, int group)
{
    const int lane = (int)(threadIdx.x % 32), row = row_of(0) - lane / 4 + lane % 16;
    const int col = col_of(0) - lane % 4 * 2 + lane / 16 * 8 + lane % 8;
    unsigned a[ROW_BLOCKS][4], b[PLANES][COL_BLOCKS / 2][4];

#  pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
#  pragma unroll
        for (int j = 0; j < COL_BLOCKS / 2; j++)
            load_fragment(b[plane][j], y + plane * PLANE_Y, col + j * 16, group + lane / 8 % 2);
#  pragma unroll
    for (int plane = 0; plane < PLANES; plane++) {
#  pragma unroll
        for (int i = 0; i < ROW_BLOCKS; i++)
            load_fragment(a[i], x + plane * PLANE_X, row + i * 16, group + lane / 16);
#  pragma unroll
        for (int other = 0; other < PLANES - plane; other++) /* not lo lo */
#  pragma unroll
            for (int i = 0; i < ROW_BLOCKS; i++)
#  pragma unroll
                for (int j = 0; j < COL_BLOCKS; j++) {
                    float *sums = acc[i * COL_BLOCKS + j];
                    const unsigned *right = b[other][j / 2] + j % 2 * 2;
                    if (plane == 0 && other == 0)
                        multiply_block<FIRST>(sums, a[i], right);
                    else
                        multiply_block<false>(sums, a[i], right);
                }
    }
}
#else
template <bool FIRST = false>
static __device__ void multiply(float acc[BLOCKS][4], const char *x, const char *y, int group)
{
    const int lane = (int)(threadIdx.x % 32), row = row_of(0) - lane / 4 + lane % 16;
    unsigned a[PLANES][4];

#  pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
        load_fragment(a[plane], x + plane * PLANE_X, row, group + lane / 16);
#  pragma unroll
    for (int j = 0; j < BLOCKS; j += 2) {
        unsigned b[PLANES][4];
#  pragma unroll
        for (int plane = 0; plane < PLANES; plane++)
            load_fragment(b[plane], y + plane * PLANE_Y, j * 8 + lane / 16 * 8 + lane % 8,
                          group + lane / 8 % 2);
#  pragma unroll
        for (int side = 0; side < 2; side++) {
            multiply_block<FIRST>(acc[j + side], a[0], b[0] + side * 2);
#  pragma unroll
            for (int plane = 1; plane < PLANES; plane++) { /* not lo lo */
                multiply_block<false>(acc[j + side], a[0], b[plane] + side * 2);
                multiply_block<false>(acc[j + side], a[plane], b[0] + side * 2);
            }
        }
    }
}
#endif
