/*
 * solve_lu_rest.cu - what is left of matrices after a panel of LU, a block a tile
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_tile.cuh"

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS, 2)
    solve_lu_rest(const __grid_constant__ struct solve_lu_params a)
{
    const long long begin = a.first + TILE, tiles = (a.n - begin + TILE - 1) / TILE;
    const long long item = blockIdx.x / (tiles * tiles), tile = blockIdx.x % (tiles * tiles);
    const long long row = begin + tile % tiles * TILE, col = begin + tile / tiles * TILE;
    const int my_row = (int)threadIdx.x % 16 * 4, my_col = (int)threadIdx.x / 16 * 4;
    __shared__ struct operands s;
    REAL *m = (REAL *)(a.matrix + item * a.item_bytes);
    REAL sum[4][4] = {};

    if (!a.go[item])
        return;
    for (int part = 0; part < TILE; part += DEPTH) {
        load_rows(m, a.n, a.ld, row, a.first + part, s.a);
        load_columns(m, a.n, a.ld, a.first + part, col, s.b);
        __syncthreads();
        multiply(s, sum);
        __syncthreads();
    }
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++)
            if (row + my_row + i < a.n && col + my_col + j < a.n)
                m[row + my_row + i + (col + my_col + j) * a.ld] -= sum[i][j];
}
