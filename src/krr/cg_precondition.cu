/*
 * cg_precondition.cu - z = (r - keep C^T w) / lambda, C rank by n and w rank by columns
 *
 * A thread computes CG_TILE columns of one row: C is read once for them, neighbouring threads read
 * neighbouring words.  Sums are in double.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cg_params.h"

extern "C" __global__ void __launch_bounds__(CG_THREADS)
    cg_precondition(const __grid_constant__ struct cg_precondition_params a)
{
    const REAL *rows = (const REAL *)a.rows, *r = (const REAL *)a.r;
    REAL *z = (REAL *)a.z;
    const long long step = (long long)gridDim.x * CG_THREADS;

    for (long long i = (long long)blockIdx.x * CG_THREADS + threadIdx.x; i < a.n; i += step)
        for (long long j = 0; j < a.columns; j += CG_TILE) {
            const int tile = a.columns - j < CG_TILE ? (int)(a.columns - j) : CG_TILE;
            double sum[CG_TILE] = {};

#pragma unroll 8
            for (long long k = 0; k < a.rank; k++) {
                const double c = (double)rows[k * a.n + i];
#pragma unroll
                for (int t = 0; t < CG_TILE; t++)
                    sum[t] += t < tile ? c * a.weight[(j + t) * a.rank + k] : 0;
            }
#pragma unroll
            for (int t = 0; t < CG_TILE; t++)
                if (t < tile) {
                    const long long at = (j + t) * a.n + i;
                    z[at] = (REAL)(((double)r[at] - a.keep * sum[t]) / a.lambda);
                }
        }
}
