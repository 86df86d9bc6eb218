/*
 * solve_options.cuh - items, columns and numbers for the kernels of rcond, jitter and refine
 *
 * Part of files whose parameter is REAL, the dtype of a unless they say otherwise.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options_params.h"

#define THREADS SOLVE_THREADS
#define NAN_OF  __longlong_as_double(0x7FF8000000000000ll)
#define INF_OF  __longlong_as_double(0x7FF0000000000000ll)

#include "device_view.cuh"
#include "block_sum.cuh"

typedef struct solve_options_params params;

static __device__ long long place_of(const params &a, const struct device_view &s, long long item)
{
    return batch_offset(a.items.own_shape, a.items.ndim, s.batch_stride, a.begin + item) +
           batch_offset(a.items.shared_shape, a.items.ndim, s.batch_stride, a.shared);
}

static __device__ void put(const struct device_view &s, long long dtype, long long at, double value)
{
    if (s.data)
        store_double(dtype, s.data, at, value);
}

/* Magnitudes compare like their bits, and NaN is above all of them. */
static __device__ unsigned long long bits_of(double v)
{
    return (unsigned long long)__double_as_longlong(v != v ? NAN_OF : v);
}

/* The largest of what the threads of a block have, in all of them; NaN is infinite. */
static __device__ double block_most(double mine)
{
    __shared__ double most[THREADS];
    double all;

    most[threadIdx.x] = mine != mine ? INF_OF : mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && most[threadIdx.x + half] > most[threadIdx.x])
            most[threadIdx.x] = most[threadIdx.x + half];
    }
    __syncthreads();
    all = most[0];
    __syncthreads();
    return all;
}

/* Their sum, in all of them. */
static __device__ double block_total(double mine)
{
    __shared__ double sums[THREADS];
    double all;

    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    all = sums[0];
    __syncthreads();
    return all;
}

static __device__ double size_of(const double *v, long long n)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < n; i += THREADS) {
        const double size = fabs(v[i]);
        mine = size > mine || size != size ? (size != size ? INF_OF : size) : mine;
    }
    return block_most(mine);
}
