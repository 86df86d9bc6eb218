/*
 * median_pick.cu - finds the next digit of the middle two distances, and in the end the median
 *
 * A block of MEDIAN_BINS threads has an item.  Before the first pass it clears the state; a pass
 * later the distances that are numbers have been counted, and so the ranks are known.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "median_key.cuh"

#define WIDTH (8 * (int)sizeof(REAL))

/* The digit of the number with the rank, which becomes its rank among those with that digit. */
static __device__ void pick(struct median_state *s, int which)
{
    const unsigned long long *bins = s->bins[which];
    int digit = 0;

    while (digit < MEDIAN_BINS - 1 && s->rank[which] >= bins[digit])
        s->rank[which] -= bins[digit++];
    s->prefix[which] = s->prefix[which] << MEDIAN_DIGIT | (unsigned long long)digit;
}

static __device__ void rank(struct median_state *s)
{
    for (int digit = 0; digit < MEDIAN_BINS; digit++)
        s->count += s->bins[0][digit];
    s->rank[0] = s->count > 0 ? (s->count - 1) / 2 : 0;
    s->rank[1] = s->count / 2;
}

extern "C" __global__ void __launch_bounds__(MEDIAN_BINS)
    median_pick(const __grid_constant__ struct median_params a)
{
    struct median_state *s = a.state + blockIdx.x;

    if (threadIdx.x == 0 && a.shift == WIDTH)
        s->count = s->rank[0] = s->rank[1] = s->prefix[0] = s->prefix[1] = 0;
    if (threadIdx.x == 0 && a.shift == WIDTH - MEDIAN_DIGIT)
        rank(s);
    __syncthreads();
    if (threadIdx.x < 2 && a.shift < WIDTH)
        pick(s, (int)threadIdx.x);
    __syncthreads();
    s->bins[0][threadIdx.x] = s->bins[1][threadIdx.x] = 0;
    if (threadIdx.x == 0 && a.shift == 0)
        put_median(a, blockIdx.x, s->count, s->prefix);
}
