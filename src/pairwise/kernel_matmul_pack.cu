/*
 * kernel_matmul_pack.cu - v as pairs of numbers of 11 digits for kernel_matmul_wide.cuh
 *
 * A number becomes hi + lo, to 2^-22 of it.  A panel has 128 rows of v and COLUMNS columns:
 * [hi, lo][group of 8 rows][even rows, odd rows][column][4 rows], with zeros behind the last row
 * and the last column.
 *
 * Parameters (-D): COLUMNS.  A thread packs four rows of a column.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kernel_matmul_params.h"
#include "ptx.cuh"
#include "device_view.cuh"

#define THREADS 256
#define TILE    SQUARE_ROWS
#define LARGEST 0x1.ffcp127f /* of 11 digits */

struct __align__(16) four
{
    unsigned at[4];
};

/* Of a number, hi and lo; what would round to infinity is cut, and NaN and infinity have no lo. */
static __device__ void split(float value, unsigned *hi, unsigned *lo)
{
    const bool finite = value - value == 0;

    *hi = finite && fabsf(value) > LARGEST ? __float_as_uint(value) & 0xffffe000u
                                           : ptx_tf32_of_float(value);
    *lo = finite ? ptx_tf32_of_float(value - __uint_as_float(*hi)) : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kernel_matmul_pack(const __grid_constant__ struct kernel_pack_params a)
{
    const long long tiles = (a.rows + TILE - 1) / TILE, units = tiles * (TILE / 4) * COLUMNS;
    const long long step = (long long)gridDim.x * THREADS, total = a.items * a.groups * units;

    for (long long at = blockIdx.x * (long long)THREADS + threadIdx.x; at < total; at += step) {
        const long long unit = at % units, group = at / units % a.groups;
        const long long item = at / units / a.groups;
        const long long column = group * COLUMNS + unit % COLUMNS, four = unit / COLUMNS;
        const float *from =
            (const float *)a.v.data +
            batch_offset(a.batch_shape, a.batch_ndim, a.v.batch_stride, a.first_item + item) +
            column * a.v.col_stride;
        char *to = a.panels + (item * a.groups + group) * tiles * WIDE_PANEL(COLUMNS) +
                   four / (TILE / 4) * WIDE_PANEL(COLUMNS) +
                   (four % (TILE / 4) * COLUMNS + unit % COLUMNS) * 16;
        struct four hi, lo;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const long long row = four / 2 * 8 + i * 2 + four % 2;
            split(row < a.rows && column < a.columns ? from[row * a.v.row_stride] : 0.0f, &hi.at[i],
                  &lo.at[i]);
        }
        *(struct four *)to = hi;
        *(struct four *)(to + WIDE_PANEL(COLUMNS) / 2) = lo;
    }
}
