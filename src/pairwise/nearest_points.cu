/*
 * nearest_points.cu - the nearest neighbours of each row by the distances of p = 2, from the points
 * themselves
 *
 *   nearest_begin     makes bounds of the neighbours in a first part of y
 *   nearest_improve   goes through the candidates that cdist_mma.cu has left of another part
 *   nearest_end       stores what was found; where the candidates of a row did not fit, or there
 *                     was no first part, it goes through all of y
 *
 * Column c of a part is row first + c step of y.  A block has a row, and a warp sums distances.
 *
 * Parameters (-D): STORED, the type in which x and y are stored.
 *
 * SPDX-License-Identifier: MIT
 */
#define REAL float
#include "nearest_list.cuh"
#include "stored.cuh"

#define TOGETHER 4 /* distances that a warp sums at once */

typedef stored_as<STORED>::type element;

/* Rows of y whose distances a block sums, in shared memory. */
struct fresh {
    float value[NEAREST_THREADS];
    int row[NEAREST_THREADS];
};

/* The distances of x to rows of y, NEAREST_THREADS or fewer: each thread names one and gets that
 * of its own.  row < 0: none, which is at infinity. */
static __device__ float distance(const struct nearest_points_params &a, struct fresh &f,
                                 const element *x, long long row)
{
    const int lane = (int)threadIdx.x % 32;

    f.row[threadIdx.x] = (int)row;
    f.value[threadIdx.x] = infinity();
    __syncthreads();
    for (int t = (int)threadIdx.x / 32 * TOGETHER; t < NEAREST_THREADS; t += WARPS * TOGETHER) {
        const element *y[TOGETHER];
        float sum[TOGETHER] = {};
        bool any = false;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            const int at = f.row[t + i];
            any = any || at >= 0;
            y[i] = (const element *)a.y.data + (at < 0 ? 0 : at) * a.y.row_stride;
        }
        if (!any)
            continue;
#pragma unroll 2
        for (long long k = lane; k < a.depth; k += 32) {
            const float of_x = real_of<STORED>(x[k * a.x.col_stride]);
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                const float d = of_x - real_of<STORED>(y[i][k * a.y.col_stride]);
                sum[i] = fmaf(d, d, sum[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            for (int apart = 16; apart > 0; apart /= 2)
                sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], apart);
            if (lane == i && f.row[t + i] >= 0)
                f.value[t + i] = sqrtf(sum[i]);
        }
    }
    __syncthreads();
    return f.value[threadIdx.x];
}

/* Offers columns to the list: those of candidates, or all rows of y (candidates NULL).  Parts do
 * not come in the order of y, so of equal distances the lower row counts. */
static __device__ void offer(const struct nearest_points_params &a, struct list &l, struct fresh &f,
                             long long at, const int *candidates, long long columns)
{
    const element *x = (const element *)a.x.data + (a.nearest.panel.i + at) * a.x.row_stride;
    const long long self =
        a.nearest.exclude_self ? a.nearest.self + a.nearest.panel.i + at : -1;

    for (long long c = threadIdx.x; c - (int)threadIdx.x < columns; c += NEAREST_THREADS) {
        long long row = -1;
        if (c < columns)
            row = candidates ? a.first + a.step * candidates[c] : c;
        row = row == self ? -1 : row;
        const float value = distance(a, f, x, row);
        const bool mine =
            value < l.limit || (l.held >= l.count && value == l.limit && value < infinity() &&
                                (int)row < l.place[l.count - 1]);
        if (!__syncthreads_or(mine))
            continue;
        append(l, mine, value, (int)row);
        if (l.held + NEAREST_THREADS > a.nearest.capacity)
            sort(l);
    }
}

/* What an element of a row whose last neighbour is at limit must not exceed to be a candidate: a
 * square, a little too large, since the sums of tensor cores and those of this file are rounded. */
static __device__ float bound_of(const struct nearest_points_params &a, float limit)
{
    return limit * limit * a.slack;
}

extern "C" __global__ void __launch_bounds__(NEAREST_THREADS)
    nearest_begin(const __grid_constant__ struct nearest_points_params a)
{
    const struct nearest_params &n = a.nearest;
    const long long at = blockIdx.x * (long long)NEAREST_THREADS + threadIdx.x;

    if (at >= n.panel.rows)
        return;
    const float *values = (const float *)n.values + at * n.count;
    a.filter.bound[at] =
        n.state[at].stored < n.count ? infinity() : bound_of(a, values[n.count - 1]);
    a.filter.count[at] = 0;
}

extern "C" __global__ void __launch_bounds__(NEAREST_THREADS, 4)
    nearest_improve(const __grid_constant__ struct nearest_points_params a)
{
    extern __shared__ __align__(16) REAL memory[];
    __shared__ struct fresh fresh;
    const struct nearest_params &n = a.nearest;
    struct list l = open_list(n, memory);

    for (long long at = blockIdx.x; at < n.panel.rows; at += gridDim.x) {
        const int count = a.filter.count[at];
        __syncthreads(); /* all threads know it, and the last list is no longer read */
        if (count == 0)
            continue;
        if (count > a.filter.capacity) {
            if (threadIdx.x == 0) /* nothing more is a candidate: the end looks at all of y */
                a.filter.bound[at] = -infinity();
            continue;
        }
        load_list(n, l, at);
        offer(a, l, fresh, at, a.filter.place + at * a.filter.capacity, count);
        sort(l);
        keep_list(n, l, at, l.held);
        if (threadIdx.x == 0) {
            a.filter.bound[at] = bound_of(a, l.limit);
            a.filter.count[at] = 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(NEAREST_THREADS, 4)
    nearest_end(const __grid_constant__ struct nearest_points_params a)
{
    extern __shared__ __align__(16) REAL memory[];
    __shared__ struct fresh fresh;
    const struct nearest_params &n = a.nearest;
    struct list l = open_list(n, memory);

    for (long long at = blockIdx.x; at < n.panel.rows; at += gridDim.x) {
        l.held = 0, l.limit = infinity();
        if (n.panel.begin || a.filter.count[at] > a.filter.capacity)
            offer(a, l, fresh, at, nullptr, a.rows);
        else
            load_list(n, l, at);
        sort(l);
        store(n, l, 0, n.panel.i + at, l.held);
        __syncthreads(); /* the list is no longer read */
    }
}
