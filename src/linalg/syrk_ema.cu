/*
 * syrk_ema.cu - averages of Gram matrices: what is finite, and a product added to its average
 *
 * syrk_ema_check_finite: sums of the squares of parts of x.
 * syrk_ema_add: l = beta l + weight product, both triangles or the packed upper one; and info.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matmul_params.h"

#define THREADS EMA_THREADS

#include "device_view.cuh"
#include "block_sum.cuh"

typedef struct ema_params params;

extern "C" __global__ void __launch_bounds__(THREADS)
    syrk_ema_check_finite(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const long long item = blockIdx.x / a.parts, part = blockIdx.x % a.parts;
    const bool by_rows = llabs(a.x.col_stride) <= llabs(a.x.row_stride);
    const long long fast = by_rows ? a.cols : a.rows, size = a.rows * a.cols;
    const REAL *x =
        (const REAL *)a.x.data + batch_offset(a.shape, a.ndim, a.x.batch_stride, a.begin + item);
    double sum = 0;

    for (long long e = part * THREADS + threadIdx.x; e < size; e += a.parts * THREADS) {
        const long long i = by_rows ? e / fast : e % fast, j = by_rows ? e % fast : e / fast;
        const double v = (double)x[i * a.x.row_stride + j * a.x.col_stride];
        sum += v * v;
    }
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.squares[item * a.parts + part] = sums[0];
}

/* Whether the sum of all squares is finite as a REAL. */
static __device__ bool finite_item(const params &a, long long item)
{
    double sum = 0;

    for (int i = 0; i < (int)a.parts && a.checked; i++)
        sum += a.squares[item * a.parts + i];
    return isfinite((REAL)sum);
}

static __device__ REAL *place(const params &a, REAL *l, long long i, long long j)
{
    if (!a.packed)
        return l + i * a.l.row_stride + j * a.l.col_stride;
    return l + (i * (2 * a.rows - i - 1) / 2 + j) * a.l.col_stride;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    syrk_ema_add(const __grid_constant__ params a)
{
    const long long item = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks, n = a.rows;
    const bool finite = finite_item(a, item);
    const double keep = number_at(a.shape, a.ndim, a.beta, a.begin + item);
    const double alpha = number_at(a.shape, a.ndim, a.alpha, a.begin + item);
    const REAL beta = (REAL)keep, weight = (REAL)(a.sum ? alpha : (1 - keep) * alpha);
    REAL *l = (REAL *)a.l.data + batch_offset(a.shape, a.ndim, a.l.batch_stride, a.begin + item);
    const REAL *product = a.product ? (const REAL *)a.product + item * n * n : nullptr;

    if (a.info.data && block == 0 && threadIdx.x == 0)
        ((int *)a.info.data)[batch_offset(a.shape, a.ndim, a.info.batch_stride, a.begin + item)] =
            !finite;
    if (!finite && a.keep)
        return;
    for (long long e = block * THREADS + threadIdx.x; e < n * n; e += a.blocks * THREADS) {
        const long long i = e / n, j = e - i * n;
        if (i > j)
            continue;
        REAL *to = place(a, l, i, j);
        REAL value = product ? weight * product[e] : (REAL)0;
        if (beta != 0)
            value += beta * *to;
        *to = value;
        if (!a.packed && i < j)
            *place(a, l, j, i) = value;
    }
}
