/*
 * median_count.cu - counts how the distances above the diagonal go on that begin with a prefix
 *
 * Counts are whole numbers: the order in which threads add does not matter.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "median_key.cuh"

extern "C" __global__ void __launch_bounds__(256)
    median_count(const __grid_constant__ struct median_params a)
{
    __shared__ unsigned bins[2][MEDIAN_BINS];
    const int thread = (int)threadIdx.x, above = (int)a.shift + MEDIAN_DIGIT;
    const bool all = above == 8 * (int)sizeof(REAL);
    const long long item = blockIdx.x / a.blocks, first = blockIdx.x % a.blocks;
    const REAL *distances = (const REAL *)a.distances + item * a.rows * a.rows;
    struct median_state *s = a.state + item;
    const unsigned long long prefix[2] = {s->prefix[0], s->prefix[1]};

    bins[0][thread] = bins[1][thread] = 0;
    __syncthreads();
    for (long long i = first; i < a.rows; i += a.blocks)
        for (long long j = i + 1 + thread; j < a.rows; j += blockDim.x) {
            const REAL x = distances[i * a.rows + j];
            const unsigned long long key = key_of(x);
            for (int which = 0; x == x && which < 2; which++)
                if (all || key >> above == prefix[which])
                    atomicAdd(&bins[which][key >> a.shift & (MEDIAN_BINS - 1)], 1u);
        }
    __syncthreads();
    for (int which = 0; which < 2; which++)
        if (bins[which][thread] > 0)
            atomicAdd(&s->bins[which][thread], (unsigned long long)bins[which][thread]);
}
