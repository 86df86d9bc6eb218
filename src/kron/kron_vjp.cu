/*
 * kron_vjp.cu - what the gradients of a product with Kronecker factors need beside matrix products
 *
 * kron_vjp_load: rows of a tensor to a buffer without gaps, by rows or by columns.
 * kron_vjp_add: rows of a buffer to a tensor, summed over the items that share them.
 * kron_vjp_sum: adds up the pieces of a gradient.
 * kron_vjp_sums: the same for several factors.
 * kron_vjp_store: the gradient of one of several joined factors, summed over items.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_vjp_params.h"

#define TILE    KRON_VJP_TILE
#define STEP    (KRON_VJP_THREADS / TILE)
#define AT_ONCE KRON_VJP_AT_ONCE

/* Element 0 of a row of the tensor, whose number counts the rows of all items. */
static __device__ long long row_offset(const struct kron_vjp_move_params &a, long long row)
{
    const long long item = row / a.item_rows;

    return batch_offset(a.shape, a.ndim, a.side.batch_stride, item) +
           (row - item * a.item_rows) * a.side.row_stride;
}

extern "C" __global__ void __launch_bounds__(KRON_VJP_THREADS)
    kron_vjp_load(const __grid_constant__ struct kron_vjp_move_params a)
{
    __shared__ REAL tile[TILE][TILE + 1];
    const long long down = (a.count + TILE - 1) / TILE, across = (a.cols + TILE - 1) / TILE;
    const REAL *from = (const REAL *)a.side.data;
    const bool along = llabs(a.side.col_stride) <= llabs(a.side.row_stride);
    const int fast = (int)threadIdx.x % TILE, slow = (int)threadIdx.x / TILE;

    for (long long t = blockIdx.x; t < a.groups * down * across; t += gridDim.x) {
        const long long group = t / across / down;
        const long long row = t / across % down * TILE, col = t % across * TILE;
        REAL *to = (REAL *)a.buffer + group * a.count * a.cols;
        for (int k = slow; k < TILE; k += STEP) {
            const int i = along ? k : fast, j = along ? fast : k;
            if (row + i < a.count && col + j < a.cols)
                tile[i][j] = from[row_offset(a, group * a.row_count + a.first + row + i) +
                                  (col + j) * a.side.col_stride];
        }
        __syncthreads();
        for (int k = slow; k < TILE; k += STEP) {
            const int i = a.by_columns ? fast : k, j = a.by_columns ? k : fast;
            if (row + i < a.count && col + j < a.cols)
                to[a.by_columns ? (col + j) * a.count + row + i : (row + i) * a.cols + col + j] =
                    tile[i][j];
        }
        __syncthreads();
    }
}

/* The item with digits of own along the tensor's dimensions and of shared along those that it is
 * broadcast to. */
static __device__ long long item_with(const long long *shape, long long ndim,
                                      const struct device_view &side, long long own,
                                      long long shared)
{
    long long item = 0, step = 1;

    for (int d = (int)ndim - 1; d >= 0; d--) {
        const bool is_shared = side.batch_stride[d] == 0;
        const long long digits = is_shared ? shared : own, rest = digits / shape[d];
        item += (digits - rest * shape[d]) * step;
        shared = is_shared ? rest : shared;
        own = is_shared ? own : rest;
        step *= shape[d];
    }
    return item;
}

static __device__ long long items_of(const long long *shape, long long ndim,
                                     const struct device_view &side, bool own)
{
    long long count = 1;

    for (int d = 0; d < ndim; d++)
        if ((side.batch_stride[d] != 0) == own)
            count *= shape[d];
    return count;
}

/* The items that share a row come in their order, maybe in several launches: the first one stores,
 * the others add. */
extern "C" __global__ void __launch_bounds__(KRON_VJP_THREADS)
    kron_vjp_add(const __grid_constant__ struct kron_vjp_move_params a)
{
    const long long own = items_of(a.shape, a.ndim, a.side, true);
    const long long shared = items_of(a.shape, a.ndim, a.side, false);
    const REAL *from = (const REAL *)a.buffer;

    for (long long e = blockIdx.x * (long long)KRON_VJP_THREADS + threadIdx.x;
         e < own * a.item_rows * a.cols; e += (long long)gridDim.x * KRON_VJP_THREADS) {
        const long long col = e % a.cols, row = e / a.cols % a.item_rows;
        const long long mine = e / a.cols / a.item_rows;
        REAL sum = 0, *to = (REAL *)a.side.data;
        bool any = false;
        to += batch_offset(a.shape, a.ndim, a.side.batch_stride,
                           item_with(a.shape, a.ndim, a.side, mine, 0)) +
              row * a.side.row_stride + col * a.side.col_stride;
        for (long long k = 0; k < shared; k++) {
            const long long item = item_with(a.shape, a.ndim, a.side, mine, k);
            const long long number = item * a.item_rows + row, group = number / a.row_count;
            const long long at = number - group * a.row_count - a.first;
            if (at < 0 || at >= a.count)
                continue;
            if (!any && k > 0)
                sum = *to;
            any = true;
            sum += (REAL)number_at(a.shape, a.ndim, a.alpha, item) *
                   from[(group * a.count + at) * a.cols + col];
        }
        if (any)
            *to = sum;
    }
}

extern "C" __global__ void __launch_bounds__(KRON_VJP_THREADS)
    kron_vjp_sum(const __grid_constant__ struct kron_vjp_sum_params a)
{
    __shared__ double parts[KRON_VJP_THREADS];
    const int lanes = (int)a.lanes, each = KRON_VJP_THREADS / lanes;
    const int mine = (int)threadIdx.x % each, lane = (int)threadIdx.x / each;
    const long long all = a.groups * a.elements;

    for (long long first = (long long)blockIdx.x * each; first < all;
         first += (long long)gridDim.x * each) {
        const long long e = first + mine, group = e / a.elements;
        REAL *sums = (REAL *)a.sums + group * a.slots * a.elements + (e - group * a.elements);
        double sum = 0;
        for (long long k = lane; e < all && k < a.slots; k += AT_ONCE * lanes) {
            REAL v[AT_ONCE]; /* reads that do not wait for each other */
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                v[i] = k + i * lanes < a.slots ? sums[(k + i * lanes) * a.elements] : (REAL)0;
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                sum += v[i];
        }
        parts[threadIdx.x] = sum;
        for (int half = lanes / 2; half > 0; half /= 2) {
            __syncthreads();
            if (lane < half)
                parts[threadIdx.x] += parts[threadIdx.x + half * each];
        }
        if (e < all && lane == 0) {
            if (a.direct)
                sums = (REAL *)a.out.data + e / a.cols * a.out.row_stride +
                       e % a.cols * a.out.col_stride;
            sums[0] = (REAL)(a.direct ? (double)(REAL)number_at(0, 0, a.alpha, 0) * parts[mine]
                                      : parts[mine]);
        }
        __syncthreads();
    }
}

/* A block has some neighbours of one factor at a time. */
extern "C" __global__ void __launch_bounds__(KRON_VJP_THREADS)
    kron_vjp_sums(const __grid_constant__ struct kron_vjp_sums_params a)
{
    constexpr int BESIDE = KRON_VJP_BESIDE, LANES = KRON_VJP_THREADS / BESIDE;
    __shared__ double parts[KRON_VJP_THREADS];
    const int mine = (int)threadIdx.x % BESIDE, lane = (int)threadIdx.x / BESIDE;
    long long work = blockIdx.x;

    for (int f = 0; f < a.count; f++) {
        const long long n = a.n[f], all = n * n;
        for (; work * BESIDE < all; work += gridDim.x) {
            const long long e = work * BESIDE + mine;
            const REAL *sums = (const REAL *)a.sums[f] + e;
            double sum = 0;
#pragma unroll 4
            for (long long k = lane; k < a.slots[f]; k += LANES)
                sum += sums[k * all];
            parts[threadIdx.x] = sum;
            for (int half = LANES / 2; half > 0; half /= 2) {
                __syncthreads();
                if (lane < half)
                    parts[threadIdx.x] += parts[threadIdx.x + half * BESIDE];
            }
            if (lane == 0)
                ((REAL *)a.out[f].data)[e / n * a.out[f].row_stride + e % n * a.out[f].col_stride] =
                    (REAL)((double)(REAL)number_at(0, 0, a.alpha, 0) * parts[mine]);
            __syncthreads();
        }
        work -= all / BESIDE;
    }
}

/* One term: an element of the gradient of the joined factors times those of the other factors. */
static __device__ double term_of(const struct kron_vjp_store_params &a, long long item, long long p,
                                 long long q, long long rest)
{
    long long row = 0, col = 0, row_step = 1, col_step = 1;
    double value = 1;

    for (int k = (int)a.count - 1; k >= 0; k--) {
        long long i = p, j = q;
        if (k != a.which) {
            i = rest % a.p[k], rest /= a.p[k];
            j = rest % a.q[k], rest /= a.q[k];
            value *= ((const REAL *)a.factor[k]
                          .data)[batch_offset(a.shape, a.ndim, a.factor[k].batch_stride, item) +
                                 i * a.factor[k].row_stride + j * a.factor[k].col_stride];
        }
        row += i * row_step, col += j * col_step;
        row_step *= a.p[k], col_step *= a.q[k];
    }
    return value * ((const REAL *)a.sums)[item * a.group_stride + row * col_step + col];
}

extern "C" __global__ void __launch_bounds__(KRON_VJP_THREADS)
    kron_vjp_store(const __grid_constant__ struct kron_vjp_store_params a)
{
    const long long own = items_of(a.shape, a.ndim, a.out, true);
    const long long shared = items_of(a.shape, a.ndim, a.out, false);
    const long long outs = own * a.rows * a.cols, each = KRON_VJP_THREADS / a.lanes;
    const int lane = (int)threadIdx.x % (int)a.lanes;
    long long others = a.count > 0;

    for (int k = 0; k < a.count; k++)
        if (k != a.which)
            others *= a.p[k] * a.q[k];
    /* Threads of a warp go round together, since they exchange their sums. */
    for (long long first = blockIdx.x * each; first < outs; first += gridDim.x * each) {
        const long long e = first + threadIdx.x / a.lanes;
        const long long q = e % a.cols, p = e / a.cols % a.rows, mine = e / a.cols / a.rows;
        double sum = 0;
        for (long long k = lane; e < outs && k < shared * others; k += a.lanes) {
            const long long item = item_with(a.shape, a.ndim, a.out, mine, k / others);
            sum += (double)(REAL)number_at(a.shape, a.ndim, a.alpha, item) *
                   term_of(a, item, p, q, k % others);
        }
        for (int half = (int)a.lanes / 2; half > 0; half /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, half);
        if (e < outs && lane == 0)
            ((REAL *)a.out.data)[batch_offset(a.shape, a.ndim, a.out.batch_stride,
                                              item_with(a.shape, a.ndim, a.out, mine, 0)) +
                                 p * a.out.row_stride + q * a.out.col_stride] = (REAL)sum;
    }
}
