/*
 * mma_tile.cuh - products of a tile of 128 by 128 by mma.sync: fragments, and what a thread holds
 *
 * Eight warps, two by four, each 64 by 32 of the tile.  Part of mma_core.cuh and of
 * kernel_matmul_tensor.cu, whose THREADS, BLOCKS, PLANES, PLANE_X and PLANE_Y it uses; panels are
 * those of pair_params.h.
 *
 * SPDX-License-Identifier: MIT
 */

/* Block b of a warp is 16 rows by 8 columns; element 0 of its sums is in this row and column. */
static __device__ int row_of(int b, unsigned thread = threadIdx.x)
{
    return (int)thread / 128 * 64 + b / 4 * 16 + (int)thread % 32 / 4;
}

static __device__ int col_of(int b, unsigned thread = threadIdx.x)
{
    return (int)thread / 32 % 4 * 32 + b % 4 * 8 + (int)thread % 4 * 2;
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

/* 16 columns of a chunk. */
static __device__ void multiply(float acc[BLOCKS][4], const char *x, const char *y, int group)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int row = warp / 4 * 64 + lane % 16, col = warp % 4 * 32 + lane / 16 * 8 + lane % 8;
    unsigned a[4][4], b[PLANES][2][4];

#pragma unroll
    for (int plane = 0; plane < PLANES; plane++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            load_fragment(b[plane][j], y + plane * PLANE_Y, col + j * 16, group + lane / 8 % 2);
#pragma unroll
    for (int plane = 0; plane < PLANES; plane++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_fragment(a[i], x + plane * PLANE_X, row + i * 16, group + lane / 16);
#pragma unroll
        for (int other = 0; other < PLANES - plane; other++) /* not lo lo */
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    ptx_mma_f16(acc[i * 4 + j], a[i], b[other][j / 2] + j % 2 * 2);
    }
}
