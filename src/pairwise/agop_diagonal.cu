/*
 * agop_diagonal.cu - squared lengths of gradients: part[n] = or += sum over columns of g[n]^2
 *
 * A block does 32 features over one chunk of the columns, of which each of AGOP_SHARES threads of a
 * feature takes its share.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "agop_params.h"

extern "C" __global__ void __launch_bounds__(32 * AGOP_SHARES)
    agop_diagonal(const __grid_constant__ struct agop_params a)
{
    __shared__ double sums[AGOP_SHARES][32];
    const int lane = (int)threadIdx.x % 32, share = (int)threadIdx.x / 32;
    const long long groups = (a.features + 31) / 32;

    for (long long at = blockIdx.x; at < a.items * groups * a.chunks; at += gridDim.x) {
        const long long item = at / (groups * a.chunks), part_of = at / groups;
        const long long n = at % groups * 32 + lane;
        const long long first = part_of % a.chunks * a.chunk_columns;
        const long long last =
            a.columns - first < a.chunk_columns ? a.columns : first + a.chunk_columns;
        const REAL *g = (const REAL *)a.gradients + item * a.columns * a.ld + n;
        REAL *part = (REAL *)a.parts + part_of * a.features + n;
        double sum = 0;

#pragma unroll 4
        for (long long k = first + share; n < a.features && k < last; k += AGOP_SHARES)
            sum += (double)g[k * a.ld] * (double)g[k * a.ld];
        sums[share][lane] = sum;
        __syncthreads();
        if (share == 0 && n < a.features) {
            for (int s = 1; s < AGOP_SHARES; s++)
                sum += sums[s][lane];
            *part = a.first ? (REAL)sum : *part + (REAL)sum;
        }
        __syncthreads();
    }
}
