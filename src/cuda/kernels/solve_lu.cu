/*
 * solve_lu.cu - LU with partial pivoting of a batch, panel by panel, where the device says so
 *
 * solve_lu_panel: factorises SOLVE_TILE columns, a block an item.
 * solve_lu_rows: exchanges rows in the other columns and solves for the rows of U, a block for
 * SOLVE_TILE columns.
 * What is left of the matrix: solve_lu_rest.cu.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_tile.cuh"

#define THREADS   ((int)blockDim.x)
#define AT_A_TIME 8 /* columns of a panel */

static __device__ int width_of(const struct solve_lu_params &a)
{
    return a.n - a.first < TILE ? (int)(a.n - a.first) : TILE;
}

/* The first row, from row on, of the largest magnitude in a column; NaN is never larger. */
static __device__ long long find_pivot(const REAL *column, long long row, long long n)
{
    __shared__ REAL size[SOLVE_PANEL_THREADS / 32];
    __shared__ long long place[SOLVE_PANEL_THREADS / 32];
    REAL most = -1;
    long long best = row;

    for (long long i = row + threadIdx.x; i < n; i += THREADS)
        if (fabs(column[i]) > most)
            most = fabs(column[i]), best = i;
    for (int apart = 16; apart > 0; apart /= 2) {
        const REAL other = __shfl_xor_sync(WARP, most, apart);
        const long long there = __shfl_xor_sync(WARP, best, apart);
        if (other > most || (other == most && there < best))
            most = other, best = there;
    }
    if (threadIdx.x % 32 == 0) {
        size[threadIdx.x / 32] = most;
        place[threadIdx.x / 32] = best;
    }
    __syncthreads();
    most = -1, best = row;
    for (int w = 0; w < THREADS / 32; w++)
        if (size[w] > most || (size[w] == most && size[w] >= 0 && place[w] < best))
            most = size[w], best = place[w];
    return best;
}

extern "C" __global__ void __launch_bounds__(SOLVE_PANEL_THREADS, 1)
    solve_lu_panel(const __grid_constant__ struct solve_lu_params a)
{
    const long long item = blockIdx.x;
    const int width = width_of(a);
    REAL *panel = (REAL *)(a.matrix + item * a.item_bytes) + a.first * a.ld;
    __shared__ REAL upper[TILE];

    if (!a.go[item])
        return;
    for (int k = 0; k < width; k++) {
        REAL *column = panel + k * a.ld;
        const long long row = a.first + k, pivot = find_pivot(column, row, a.n);
        for (int j = threadIdx.x; j < width; j += THREADS) {
            const REAL kept = panel[row + j * a.ld];
            upper[j] = panel[pivot + j * a.ld];
            panel[pivot + j * a.ld] = kept;
            panel[row + j * a.ld] = upper[j];
        }
        __syncthreads();
        const REAL d = upper[k];
        const REAL lift = fabs(d) < 1 ? (REAL)4294967296.0 : (REAL)1, inverse = 1 / (d * lift);
        if (threadIdx.x == 0) {
            a.exchanges[item * a.n + row] = (int)pivot + 1;
            if (d == 0 || d != d)
                atomicMin(&a.state[item].bad, (int)row + 1);
        }
        for (long long i = row + 1 + threadIdx.x; d != 0 && i < a.n; i += THREADS) {
            const REAL factor = column[i] * lift * inverse; /* no d is too small */
            column[i] = factor;
            for (int j = k + 1; j < width; j += AT_A_TIME) { /* loads before stores */
                REAL v[AT_A_TIME];
#pragma unroll
                for (int c = 0; c < AT_A_TIME; c++)
                    v[c] = j + c < width ? panel[i + (j + c) * a.ld] : (REAL)0;
#pragma unroll
                for (int c = 0; c < AT_A_TIME; c++)
                    if (j + c < width)
                        panel[i + (j + c) * a.ld] = v[c] - factor * upper[j + c];
            }
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS)
    solve_lu_rows(const __grid_constant__ struct solve_lu_params a)
{
    const long long tiles = (a.n + TILE - 1) / TILE, item = blockIdx.x / tiles;
    const long long begin = blockIdx.x % tiles * TILE;
    const int lane = (int)threadIdx.x % 32, width = width_of(a);
    __shared__ REAL lower[TILE][TILE + 1]; /* by columns */
    REAL *m = (REAL *)(a.matrix + item * a.item_bytes);

    if (!a.go[item] || begin == a.first)
        return;
    if (threadIdx.x < TILE && begin + threadIdx.x < a.n) {
        REAL *column = m + (begin + threadIdx.x) * a.ld;
        for (int k = 0; k < width; k++) {
            const long long other = a.exchanges[item * a.n + a.first + k] - 1;
            const REAL kept = column[a.first + k];
            column[a.first + k] = column[other];
            column[other] = kept;
        }
    }
    for (int e = threadIdx.x; e < TILE * TILE; e += SOLVE_THREADS) {
        const int i = e % TILE, j = e / TILE;
        lower[j][i] = i < width && j < width ? m[a.first + i + (a.first + j) * a.ld] : (REAL)0;
    }
    __syncthreads();
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
