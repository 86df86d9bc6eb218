/*
 * kron_vjp_contract.cu - out = F^T left^T, q by S
 *
 * Parameters (-D): REAL, float or double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_vjp_step.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_vjp_contract(const __grid_constant__ struct kron_vjp_step_params a)
{
    __shared__ REAL tile[ROWS][SMALL + 1], factor[SMALL][SMALL];
    const long long tiles = (a.s + ROWS - 1) / ROWS;
    const int p = (int)a.p, q = (int)a.q;
    const int mine = (int)threadIdx.x % ROWS, column = (int)threadIdx.x / ROWS * EACH;
    long long loaded = -1;

    for (long long t = blockIdx.x; t < tiles * a.groups; t += gridDim.x) {
        const long long group = t / tiles, first = (t - group * tiles) * ROWS;
        const int rows = (int)min((long long)ROWS, a.s - first);
        REAL sum[EACH];
        REAL *out = (REAL *)a.out + group * a.out_stride + first;
        __syncthreads();
        load_left((const REAL *)a.left + group * a.left_stride + first * p, rows, p, tile);
        if (group != loaded)
            load_factor(a, group, false, factor);
        loaded = group;
        __syncthreads();
        if (mine >= rows || column >= q)
            continue;
        multiply(tile[mine], p, factor, column, sum);
#pragma unroll
        for (int c = 0; c < EACH; c++)
            if (column + c < q)
                out[(column + c) * a.s + mine] = sum[c];
    }
}
