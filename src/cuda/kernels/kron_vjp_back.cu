/*
 * kron_vjp_back.cu - out = alpha right^T F^T, S by p
 *
 * Parameters (-D): REAL, float or double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_vjp_step.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_vjp_back(const __grid_constant__ struct kron_vjp_step_params a)
{
    __shared__ REAL tile[ROWS][SMALL + 1], factor[SMALL][SMALL];
    const long long tiles = (a.s + ROWS - 1) / ROWS;
    const int p = (int)a.p, q = (int)a.q;
    const int mine = (int)threadIdx.x % ROWS, column = (int)threadIdx.x / ROWS * EACH;
    const REAL alpha = (REAL)a.alpha;
    long long loaded = -1;

    for (long long t = blockIdx.x; t < tiles * a.groups; t += gridDim.x) {
        const long long group = t / tiles, first = (t - group * tiles) * ROWS;
        const int rows = (int)min((long long)ROWS, a.s - first);
        REAL *out = (REAL *)a.out + group * a.out_stride + first * p;
        const bool works = mine < rows && column < p;
        REAL sum[EACH] = {};
        __syncthreads();
        load_right((const REAL *)a.right + group * a.right_stride + first, rows, q, a.s, tile);
        if (group != loaded)
            load_factor(a, group, true, factor);
        loaded = group;
        __syncthreads();
        if (works)
            multiply(tile[mine], q, factor, column, sum);
        __syncthreads(); /* what was read makes room for what is written */
#pragma unroll
        for (int c = 0; c < EACH; c++)
            if (works && column + c < p)
                tile[mine][column + c] = alpha * sum[c];
        __syncthreads();
        for (int e = (int)threadIdx.x; e < rows * p; e += THREADS)
            out[e] = tile[e / p][e % p];
    }
}
