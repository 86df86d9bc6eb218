/*
 * sample_finish.cu - what gradients of samples come to: norms, factors, sums of parts
 *
 * sample_factors: the norm of a sample from the squares of its parts, and what multiplies its
 * gradients in sums.
 * sample_reduce: sums of parts, in order, to where they are wanted.
 * sample_fill: zeros.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer_side.cuh"

#define THREADS SAMPLE_THREADS

#include "block_sum.cuh"

typedef struct sample_params params;

#define CLIP_EPSILON 1e-6 /* as in Opacus: no division by 0 */

static __device__ double factor_of(const params &a, int sample, double square)
{
    const REAL *given = (const REAL *)a.coefficients.data;

    if (a.has_coefficients)
        return a.scale * (double)given[sample * a.coefficients.sample_stride];
    if (!a.clips)
        return a.scale;
    const double norm = sqrt(square);
    return isfinite(norm) ? a.scale * fmin(1.0, a.clip / (norm + CLIP_EPSILON)) : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_factors(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const int sample = (int)block;
        double square = 0;

        for (int i = (int)threadIdx.x; i < a.square_count; i += THREADS)
            square += a.squares[(long long)sample * a.square_count + i];
        block_sum(sums, (int)threadIdx.x, square);
        if (threadIdx.x == 0) {
            square = sums[0] < 0 ? 0 : sums[0]; /* what rounding leaves of 0; NaN stays */
            a.factors[sample] = factor_of(a, sample, square);
            if (a.norms.data) {
                REAL *norm = (REAL *)a.norms.data + sample * a.norms.sample_stride;
                const double before = a.accumulate ? (double)*norm : 0;
                *norm = (REAL)sqrt(square + before * before);
            }
        }
        __syncthreads();
    }
}

/* weight: rows by columns of what partial[0] has `parts` of, bias: rows of partial[1]. */
extern "C" __global__ void __launch_bounds__(THREADS)
    sample_reduce(const __grid_constant__ params a)
{
    const int which = a.bias.data != nullptr;
    const long long size = (long long)a.l.out * a.l.in;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long e = block * THREADS + threadIdx.x;
        double sum = 0;

        if (e >= size)
            continue;
        for (int part = 0; part < a.parts; part++)
            sum += a.partial[which][part * size + e];
        put(which ? a.bias : a.weight, 0, (int)(e / a.l.in), (int)(e % a.l.in), a.add, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_fill(const __grid_constant__ params a)
{
    const long long size = (long long)a.l.in * a.l.out;

    for (long long block = blockIdx.x; block < a.blocks; block += gridDim.x) {
        const long long e = block * THREADS + threadIdx.x, sample = e / size, rest = e % size;

        if (sample < a.l.samples)
            put(a.weight, sample, (int)(rest / a.l.out), (int)(rest % a.l.out), false, 0);
    }
}
