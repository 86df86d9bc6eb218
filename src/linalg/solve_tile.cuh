/*
 * solve_tile.cuh - tiles of matrices in scratch: products, and triangular systems of a warp
 *
 * Part of files whose parameter is REAL.  A block of 256 threads has a tile of SOLVE_TILE rows and
 * columns, 4 by 4 elements a thread.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options_params.h"

#define TILE  SOLVE_TILE
#define DEPTH SOLVE_TILE_DEPTH
#define WARP  0xFFFFFFFFu

/* What a part of two operands needs in shared memory; elements of a row of the tile, or of a
 * column, are neighbours. */
struct __align__(16) operands
{
    REAL a[DEPTH][TILE + 4], b[DEPTH][TILE + 4];
};

/* sum += a b over the depth. */
static __device__ void multiply(const struct operands &s, REAL sum[4][4])
{
    const int row = (int)threadIdx.x % 16 * 4, col = (int)threadIdx.x / 16 * 4;

#pragma unroll 4
    for (int k = 0; k < DEPTH; k++) {
        REAL a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = s.a[k][row + i], b[i] = s.b[k][col + i];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum[i][j] += a[i] * b[j];
    }
}

/* Rows from row on, columns from col on of a matrix with n rows: elements of a column are
 * neighbours in to too; zero beyond n. */
static __device__ void load_rows(const REAL *matrix, long long n, long long ld, long long row,
                                 long long col, REAL (*to)[TILE + 4])
{
#pragma unroll 4
    for (int e = 0; e < TILE * DEPTH / SOLVE_THREADS; e++) {
        const int at = e * SOLVE_THREADS + (int)threadIdx.x, i = at % TILE, k = at / TILE;
        const bool inside = row + i < n && col + k < n;
        to[k][i] = inside ? __ldcg(&matrix[row + i + (col + k) * ld]) : (REAL)0;
    }
}

/* The same where a row of the matrix is a row of to. */
static __device__ void load_columns(const REAL *matrix, long long n, long long ld, long long row,
                                    long long col, REAL (*to)[TILE + 4])
{
#pragma unroll 4
    for (int e = 0; e < TILE * DEPTH / SOLVE_THREADS; e++) {
        const int at = e * SOLVE_THREADS + (int)threadIdx.x, k = at % DEPTH, i = at / DEPTH;
        const bool inside = row + k < n && col + i < n;
        to[k][i] = inside ? __ldcg(&matrix[row + k + (col + i) * ld]) : (REAL)0;
    }
}
