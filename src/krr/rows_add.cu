/*
 * rows_add.cu - out = keep out + scale from, out in double
 *
 * keep 0 reads no out, so that it may be undefined; from NULL counts as zeros.
 *
 * Parameters (-D): REAL.  It is the type of from.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cg_params.h"

extern "C" __global__ void __launch_bounds__(CG_THREADS)
    rows_add(const __grid_constant__ struct rows_add_params a)
{
    const REAL *from = (const REAL *)a.from;
    const long long step = (long long)gridDim.x * CG_THREADS;

    for (long long i = (long long)blockIdx.x * CG_THREADS + threadIdx.x; i < a.count; i += step) {
        const double kept = a.keep != 0 ? a.keep * a.out[i] : 0;

        a.out[i] = from ? kept + a.scale * (double)from[i] : kept;
    }
}
