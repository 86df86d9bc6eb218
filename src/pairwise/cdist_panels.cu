/*
 * cdist_panels.cu - the rows of x and y in the order in which cdist.cu reads them
 *
 * A panel of PANEL_ROWS rows is [column / GROUP][place of a row][GROUP]: GROUP columns of a row are
 * 8 bytes, those of rows r and r + 16 lie side by side, so that a read of 16 bytes fetches two of
 * the rows, 16 apart, that a thread of cdist.cu has.  In f32 the two columns of y change places, as
 * in cdist.cu.  Zeros fill up rows and columns.
 *
 * Parameters (-D): REAL, IS_DOUBLE and STORED as in cdist.cu.
 *
 * SPDX-License-Identifier: MIT
 */
#define HYPERS 0 /* of no interest here */
#include "ptx.cuh"
#include "pair_params.h"

#define THREADS 256
#define GROUP   (IS_DOUBLE ? 1 : 2)
#define LD      (PANEL_ROWS + 1) /* spreads columns over the banks */

#include "stored.cuh"

typedef stored_as<STORED>::type element;

/* The row of a panel in a place. */
static __device__ int row_in(int place)
{
    return place / 32 * 32 + place % 2 * 16 + place % 32 / 2;
}

/* Columns to shared memory: neighbouring threads read what lies near. */
static __device__ void read(const struct panel_params *a, int which, long long first, long long k,
                            REAL *to)
{
    const struct device_view *side = &a->side[which];
    const bool by_rows = side->row_stride == 1 && side->col_stride != 1;

#pragma unroll 4
    for (int at = (int)threadIdx.x; at < PANEL_ROWS * PANEL_COLS; at += THREADS) {
        const int row = by_rows ? at % PANEL_ROWS : at / PANEL_COLS;
        const int col = by_rows ? at / PANEL_ROWS : at % PANEL_COLS;
        const bool there = first + row < a->rows[which] && k + col < a->depth;
        to[col * LD + row] = there ? real_of<STORED>(((const element *)
                                                   side->data)[(first + row) * side->row_stride +
                                                               (k + col) * side->col_stride])
                                   : (REAL)0;
    }
}

/* A block does PANEL_COLS columns of a panel. */
extern "C" __global__ void __launch_bounds__(THREADS)
    cdist_panels(const __grid_constant__ struct panel_params a)
{
    __shared__ REAL columns[PANEL_COLS * LD];

    for (long long at = blockIdx.x; at < (a.tiles[0] + a.tiles[1]) * a.chunks; at += gridDim.x) {
        const int which = at >= a.tiles[0] * a.chunks, swap = which && GROUP == 2;
        const long long chunk = at - (which ? a.tiles[0] * a.chunks : 0);
        REAL *to = (REAL *)a.panels[which] + chunk * (PANEL_ROWS * PANEL_COLS);
        read(&a, which, chunk / a.chunks * PANEL_ROWS, chunk % a.chunks * PANEL_COLS,
             columns);
        __syncthreads();
#pragma unroll 4
        for (int i = (int)threadIdx.x; i < PANEL_ROWS * PANEL_COLS; i += THREADS) {
            const int col = i / (PANEL_ROWS * GROUP) * GROUP + (i % GROUP ^ swap);
            to[i] = columns[col * LD + row_in(i / GROUP % PANEL_ROWS)];
        }
        __syncthreads();
    }
}
