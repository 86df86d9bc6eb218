/*
 * kron_vjp_gradient.cu - the sums of left^T right^T over a slice of S, p by q, each in a place of
 * its own
 *
 * Parameters (-D): REAL, float or double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_vjp_step.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_vjp_gradient(const __grid_constant__ struct kron_vjp_step_params a)
{
    __shared__ REAL left[ROWS][SMALL + 1], right[ROWS][SMALL + 1], sums[THREADS];
    const int p = (int)a.p, q = (int)a.q, down = (p + 1) / 2, across = (q + 1) / 2;
    const int active = down * across, parts = THREADS / active;
    const int part = (int)threadIdx.x / active, mine = (int)threadIdx.x - part * active;
    const int i = mine / across, j = mine - i * across;

    for (long long t = blockIdx.x; t < a.slots * a.groups; t += gridDim.x) {
        const long long group = t / a.slots, slot = t - group * a.slots;
        const int length = (int)min(a.slice, a.s - slot * a.slice); /* negative: nothing is left */
        const REAL *from_left = (const REAL *)a.left + group * a.left_stride + slot * a.slice * a.p;
        const REAL *from_right = (const REAL *)a.right + group * a.right_stride + slot * a.slice;
        REAL sum[4] = {0, 0, 0, 0};
        for (int first = 0; first < length; first += ROWS) {
            const int rows = min(ROWS, length - first);
            __syncthreads();
            load_left(from_left + (long long)first * p, rows, p, left);
            load_right(from_right + first, rows, q, a.s, right);
            __syncthreads();
            for (int k = part < parts ? part : rows; k < rows; k += parts) {
                const REAL u = left[k][i], v = left[k][i + down < p ? i + down : i];
                const REAL x = right[k][j], y = right[k][j + across < q ? j + across : j];
                sum[0] += u * x, sum[1] += u * y;
                sum[2] += v * x, sum[3] += v * y;
            }
        }
        REAL *out = (REAL *)a.out + t * p * q;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int row = i + k / 2 * down, col = j + k % 2 * across;
            __syncthreads();
            sums[threadIdx.x] = sum[k];
            __syncthreads();
            if (part == 0 && row < p && col < q) {
                REAL all = a.accumulate ? out[row * q + col] : (REAL)0;
#pragma unroll 1
                for (int n = (int)threadIdx.x; n < parts * active; n += active)
                    all += sums[n];
                out[row * q + col] = all;
            }
        }
    }
}
