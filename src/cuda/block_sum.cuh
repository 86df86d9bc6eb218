/*
 * block_sum.cuh - the sum of what the threads of a block have
 *
 * Part of files that define THREADS, a power of 2.
 *
 * SPDX-License-Identifier: MIT
 */

/* To sums[0], which the first thread may read; sums has room for all threads. */
static __device__ void block_sum(double *sums, int thread, double mine)
{
    sums[thread] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            sums[thread] += sums[thread + half];
    }
}
