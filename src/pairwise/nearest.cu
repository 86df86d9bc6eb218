/*
 * nearest.cu - the nearest neighbours of each row, from panels of distances
 *
 *   nearest_take    goes through a panel: a block has a row, whose neighbours so far it improves
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "nearest_list.cuh"

#define AHEAD 4 /* distances that a thread reads at once */

/* The row of y of a column of a panel. */
static __device__ int row_of_y(const struct nearest_params &a, long long column)
{
    return (int)((a.panel.j + column) * a.step);
}

/* Offers the distances of a row of a panel to the list; gives how many neighbours this thread has
 * seen. */
static __device__ long long go_through(const struct nearest_params &a, struct list &l,
                                       const REAL *row, long long self)
{
    long long within = 0;

    for (long long c = 0; c < a.panel.cols; c += AHEAD * NEAREST_THREADS) {
        REAL value[AHEAD];
        bool any = false;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const long long at = c + i * NEAREST_THREADS + threadIdx.x;
            value[i] = at < a.panel.cols ? row[at] : infinity();
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const long long column = c + i * NEAREST_THREADS + threadIdx.x;
            const bool is = value[i] < infinity() && (double)value[i] <= a.radius &&
                            row_of_y(a, column) != self;
            within += is;
            value[i] = is && l.count > 0 ? value[i] : infinity();
            any = any || value[i] < l.limit;
        }
        if (!__syncthreads_or(any))
            continue;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const bool mine = value[i] < l.limit;
            if (!__syncthreads_or(mine))
                continue;
            append(l, mine, value[i], row_of_y(a, c + i * NEAREST_THREADS + threadIdx.x));
            if (l.held + NEAREST_THREADS > a.capacity)
                sort(l);
        }
    }
    return within;
}

/* The sum of a number of each thread, for all of them. */
static __device__ long long sum_of_block(const struct list &l, long long mine)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    long long sum = 0;

    /* A panel has fewer than 2^31 columns. */
    for (int apart = 16; apart > 0; apart /= 2)
        mine += __shfl_xor_sync(0xffffffffu, (int)mine, apart);
    if (lane == 0)
        l.warps[warp] = (int)mine;
    __syncthreads();
    for (int w = 0; w < WARPS; w++)
        sum += l.warps[w];
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(NEAREST_THREADS, 2)
    nearest_take(const __grid_constant__ struct nearest_params a)
{
    extern __shared__ __align__(16) REAL memory[];
    struct list l = open_list(a, memory);

    for (long long at = blockIdx.x; at < a.panel.items * a.panel.rows; at += gridDim.x) {
        const long long item = at / a.panel.rows, row = at - item * a.panel.rows;
        long long within = a.panel.begin ? 0 : a.state[at].within, seen;
        l.held = 0, l.limit = infinity();
        if (!a.panel.begin)
            load_list(a, l, at);
        seen = go_through(a, l, (const REAL *)a.panel.values + at * a.panel.cols,
                          a.exclude_self ? a.self + a.panel.i + row : -1);
        if (a.counts.data)
            within += sum_of_block(l, seen);
        sort(l);
        if (a.panel.end)
            store(a, l, item, a.panel.i + row, within);
        else
            keep_list(a, l, at, within);
        __syncthreads(); /* the list is no longer read */
    }
}
