/*
 * median_small.cu - medians of a few distances each: a block has an item
 *
 * As median_count.cu and median_pick.cu in turns, with what is known of an item in shared memory.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "median_key.cuh"

#define WIDTH (8 * (int)sizeof(REAL))

struct middle {
    unsigned long long count, rank[2], prefix[2];
    unsigned bins[2][MEDIAN_BINS]; /* how many go on with each digit, or with it or a lower one */
};

/* Counts those of the distances above the diagonal that begin with a prefix, by the next digit. */
static __device__ void count_digits(struct middle &s, const REAL *distances, int rows, int shift)
{
    const int above = shift + MEDIAN_DIGIT;

    for (int e = (int)threadIdx.x; e < rows * rows; e += MEDIAN_BINS) {
        const REAL x = distances[e];
        const unsigned long long key = key_of(x);
        for (int which = 0; e / rows < e % rows && x == x && which < 2; which++)
            if (above == WIDTH || key >> above == s.prefix[which])
                atomicAdd(&s.bins[which][key >> shift & (MEDIAN_BINS - 1)], 1u);
    }
    __syncthreads();
}

/* The bins become sums over themselves and those before them. */
static __device__ void add_up(struct middle &s)
{
    const int bin = (int)threadIdx.x;

    for (int apart = 1; apart < MEDIAN_BINS; apart *= 2) {
        const unsigned before[2] = {bin < apart ? 0 : s.bins[0][bin - apart],
                                    bin < apart ? 0 : s.bins[1][bin - apart]};
        __syncthreads();
        s.bins[0][bin] += before[0];
        s.bins[1][bin] += before[1];
        __syncthreads();
    }
}

/* The thread whose digit the number with the rank has makes it known. */
static __device__ void pick_digits(struct middle &s)
{
    const unsigned bin = threadIdx.x;
    unsigned long long rank[2] = {s.rank[0], s.rank[1]};

    __syncthreads();
    for (int which = 0; which < 2; which++) {
        const unsigned long long before = bin ? s.bins[which][bin - 1] : 0;
        if (before <= rank[which] && rank[which] < s.bins[which][bin]) {
            s.rank[which] = rank[which] - before;
            s.prefix[which] = s.prefix[which] << MEDIAN_DIGIT | bin;
        }
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(MEDIAN_BINS)
    median_small(const __grid_constant__ struct median_params a)
{
    __shared__ struct middle s;
    const int rows = (int)a.rows;

    for (long long item = blockIdx.x; item < a.batch.items; item += gridDim.x) {
        const REAL *distances = (const REAL *)a.distances + item * rows * rows;
        if (threadIdx.x < 2)
            s.prefix[threadIdx.x] = 0;
        for (int shift = WIDTH - MEDIAN_DIGIT; shift >= 0; shift -= MEDIAN_DIGIT) {
            s.bins[0][threadIdx.x] = s.bins[1][threadIdx.x] = 0;
            __syncthreads();
            count_digits(s, distances, rows, shift);
            add_up(s);
            if (threadIdx.x == 0 && shift == WIDTH - MEDIAN_DIGIT) {
                s.count = s.bins[0][MEDIAN_BINS - 1];
                s.rank[0] = s.count > 0 ? (s.count - 1) / 2 : 0;
                s.rank[1] = s.count / 2;
            }
            __syncthreads();
            pick_digits(s);
        }
        if (threadIdx.x == 0)
            put_median(a, item, s.count, s.prefix);
        __syncthreads(); /* the state is no longer read */
    }
}
