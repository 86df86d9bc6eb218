/*
 * solve_lu.cu - LU of a batch: after a panel, the other columns' rows
 *
 * solve_lu_rows: exchanges rows in the other columns and solves for the rows of U, a block for
 * SOLVE_TILE columns.  Before it solve_lu_panel.cu, then solve_lu_rest.cu.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_tile.cuh"

#include "solve_exchange.cuh"

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS)
    solve_lu_rows(const __grid_constant__ struct solve_lu_params a)
{
    const long long tiles = (a.n + TILE - 1) / TILE, item = blockIdx.x / tiles;
    const long long begin = blockIdx.x % tiles * TILE;
    const int lane = (int)threadIdx.x % 32, width = (int)min(a.n - a.first, (long long)TILE);
    __shared__ REAL lower[TILE][TILE + 1]; /* by columns */
    __shared__ struct moves moves;
    REAL *m = (REAL *)(a.matrix + item * a.item_bytes);

    if (!a.go[item] || begin == a.first)
        return;
    if (threadIdx.x < 32)
        follow(a.exchanges + item * a.n + a.first, (int)a.first, width, moves);
    for (int e = threadIdx.x; e < TILE * TILE; e += SOLVE_THREADS) {
        const int i = e % TILE, j = e / TILE;
        lower[j][i] = i < width && j < width ? m[a.first + i + (a.first + j) * a.ld] : (REAL)0;
    }
    __syncthreads();
    for (int c = (int)threadIdx.x / 32; c < TILE && begin + c < a.n; c += SOLVE_THREADS / 32)
        exchange(moves, m + (begin + c) * a.ld);
    if (begin < a.first)
        return;
    for (int c = (int)threadIdx.x / 32; c < TILE && begin + c < a.n; c += SOLVE_THREADS / 32) {
        REAL *column = m + (begin + c) * a.ld + a.first;
        REAL upper = lane < width ? column[lane] : (REAL)0;
        REAL below = lane + 32 < width ? column[lane + 32] : (REAL)0;
        for (int k = 0; k < width; k++) {
            const REAL found = __shfl_sync(WARP, k < 32 ? upper : below, k % 32);
            if (lane > k)
                upper -= lower[k][lane] * found;
            if (lane + 32 > k)
                below -= lower[k][lane + 32] * found;
        }
        if (lane < width)
            column[lane] = upper;
        if (lane + 32 < width)
            column[lane + 32] = below;
    }
}
