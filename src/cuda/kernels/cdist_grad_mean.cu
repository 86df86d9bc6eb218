/*
 * cdist_grad_mean.cu - sums of the rows of b, for p = 2 (see grad_square.cuh)
 *
 * A block sums GRAD_MEAN_CENTRES centres of GRAD_MEAN_ROWS features, which cdist_grad.cu adds up:
 * the same sum for every tile, whatever the order in which blocks run.
 *
 * Parameters (-D): REAL; NEAR: 1 where neighbouring centres are nearer than neighbouring features.
 *
 * SPDX-License-Identifier: MIT
 */
#include "grad_params.h"

#define LANES 8 /* threads that share a feature */
#define ROWS  GRAD_MEAN_ROWS

extern "C" __global__ void __launch_bounds__(LANES *ROWS)
    cdist_grad_mean(const __grid_constant__ struct grad_params a)
{
    __shared__ double sums[LANES][ROWS];
    const int thread = (int)threadIdx.x, lane = NEAR ? thread % LANES : thread / ROWS,
              row = NEAR ? thread / LANES : thread % ROWS;
    const long long parts = (a.centres + GRAD_MEAN_CENTRES - 1) / GRAD_MEAN_CENTRES;
    const long long tiles = (a.features + ROWS - 1) / ROWS;

    for (long long at = blockIdx.x; at < tiles * parts * a.items; at += gridDim.x) {
        const long long n = at % tiles * ROWS + row, part = at / tiles % parts;
        const long long item = at / tiles / parts, first = part * GRAD_MEAN_CENTRES;
        const long long last =
            a.centres - first < GRAD_MEAN_CENTRES ? a.centres : first + GRAD_MEAN_CENTRES;
        const REAL *b = (const REAL *)a.b.data + n * a.b.row_stride;
        double sum = 0;
        long long rest = item;

        for (int i = (int)a.batch_ndim - 1; i >= 0; i--) {
            b += rest % a.batch_shape[i] * a.b.batch_stride[i];
            rest /= a.batch_shape[i];
        }
#pragma unroll 8
        for (long long k = first + lane; n < a.features && k < last; k += LANES)
            sum += (double)b[k * a.b.col_stride];
        sums[lane][row] = sum;
        __syncthreads();
        if (lane == 0 && n < a.features) {
            for (int l = 1; l < LANES; l++)
                sum += sums[l][row];
            a.means[(part * a.items + item) * a.features + n] = sum;
        }
        __syncthreads();
    }
}
