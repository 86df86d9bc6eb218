/*
 * kron_solve.cu - what solves with a Kronecker product need beside factorisations and products
 *
 * kron_solve_scan: whether factor 0, of the items that it has, has an element that is not finite.
 * kron_solve_divide: rows in the basis of eigenvectors by the eigenvalues of the product.
 * kron_solve_store: solutions by columns to x.
 * kron_solve_finish: info of every item, and NaN where it failed.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_params.h"

#define TILE KRON_SOLVE_TILE
#define STEP (KRON_SOLVE_THREADS / TILE)

static __device__ int *code_of(const struct kron_solve_params &a, int f, long long item)
{
    return (int *)a.code[f].data + batch_offset(a.shape, a.ndim, a.code[f].batch_stride, item);
}

extern "C" __global__ void __launch_bounds__(KRON_SOLVE_THREADS)
    kron_solve_scan(const __grid_constant__ struct kron_solve_params a)
{
    const long long n = a.n[0], parts = (n * n + KRON_SOLVE_PART - 1) / KRON_SOLVE_PART;

    for (long long work = blockIdx.x; work < a.items * parts; work += gridDim.x) {
        const long long item = work / parts, first = work % parts * KRON_SOLVE_PART;
        const REAL *from = (const REAL *)a.factor[0].data +
                           batch_offset(a.shape, a.ndim, a.factor[0].batch_stride, item);
        bool finite = true;
        for (long long e = first + threadIdx.x; e < first + KRON_SOLVE_PART && e < n * n;
             e += KRON_SOLVE_THREADS) {
            const long long i = e / n, j = e % n;
            if ((a.triangle == 1 && i < j) || (a.triangle == 2 && i > j))
                continue;
            const REAL v = from[i * a.factor[0].row_stride + j * a.factor[0].col_stride];
            finite = finite && v - v == 0;
        }
        if (!finite)
            atomicOr(code_of(a, 0, item) + a.found, 1);
    }
}

/* The eigenvalue of the product, plus the shift, that belongs to an index. */
static __device__ double eigenvalue(const struct kron_solve_params &a, long long item, long long k)
{
    double value = 1;

    for (int f = (int)a.count - 1; f >= 0; f--) {
        const long long rest = k / a.n[f];
        value *= ((const REAL *)a.values[f]
                      .data)[batch_offset(a.shape, a.ndim, a.values[f].batch_stride, item) + k -
                             rest * a.n[f]];
        k = rest;
    }
    return value + number_at(a.shape, a.ndim, a.shift, item);
}

extern "C" __global__ void __launch_bounds__(KRON_SOLVE_THREADS)
    kron_solve_divide(const __grid_constant__ struct kron_solve_params a)
{
    const long long across = (a.order + KRON_SOLVE_THREADS - 1) / KRON_SOLVE_THREADS;
    const long long down = (a.row_count + KRON_SOLVE_ROWS - 1) / KRON_SOLVE_ROWS;

    for (long long work = blockIdx.x; work < a.items * down * across; work += gridDim.x) {
        const long long item = work / across / down;
        const long long first = work / across % down * KRON_SOLVE_ROWS;
        const long long k = work % across * KRON_SOLVE_THREADS + threadIdx.x;
        REAL *z = (REAL *)a.rows + item * a.row_count * a.order + k;
        if (k >= a.order)
            continue;
        const double value = eigenvalue(a, item, k);
        if (value == 0)
            atomicOr(&a.singular[item], 1);
        for (long long r = first; r < first + KRON_SOLVE_ROWS && r < a.row_count; r++)
            z[r * a.order] = (REAL)((double)z[r * a.order] / value);
    }
}

extern "C" __global__ void __launch_bounds__(KRON_SOLVE_THREADS)
    kron_solve_store(const __grid_constant__ struct kron_solve_params a)
{
    __shared__ REAL tile[TILE][TILE + 1];
    const long long down = (a.group_rows + TILE - 1) / TILE, across = (a.order + TILE - 1) / TILE;
    const bool along = llabs(a.x.col_stride) <= llabs(a.x.row_stride);
    const int fast = (int)threadIdx.x % TILE, slow = (int)threadIdx.x / TILE;

    for (long long t = blockIdx.x; t < a.groups * down * across; t += gridDim.x) {
        const long long group = t / across / down;
        const long long row = t / across % down * TILE, col = t % across * TILE;
        const REAL *from = (const REAL *)a.rows + group * a.group_rows * a.order;
        for (int k = slow; k < TILE; k += STEP)
            if (row + fast < a.group_rows && col + k < a.order)
                tile[fast][k] = from[(col + k) * a.group_rows + row + fast];
        __syncthreads();
        for (int k = slow; k < TILE; k += STEP) {
            const int i = along ? k : fast, j = along ? fast : k;
            const long long number = group * a.group_rows + row + i, item = number / a.row_count;
            if (row + i < a.group_rows && col + j < a.order)
                ((REAL *)a.x.data)[batch_offset(a.shape, a.ndim, a.x.batch_stride, item) +
                                   (number - item * a.row_count) * a.x.row_stride +
                                   (col + j) * a.x.col_stride] = tile[i][j];
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(KRON_SOLVE_THREADS)
    kron_solve_finish(const __grid_constant__ struct kron_solve_params a)
{
    const long long elements = a.row_count * a.order;
    const long long parts = (elements + KRON_SOLVE_PART - 1) / KRON_SOLVE_PART;

    for (long long work = blockIdx.x; work < a.items * parts; work += gridDim.x) {
        const long long item = work / parts, first = work % parts * KRON_SOLVE_PART;
        REAL *x = (REAL *)a.x.data + batch_offset(a.shape, a.ndim, a.x.batch_stride, item);
        int failed = a.singular && a.singular[item] ? (int)a.count + 1 : 0;
        for (int f = (int)a.count - 1; f >= 0; f--) {
            const int *code = code_of(a, f, item);
            if (code[0] != 0 || code[a.found] != 0)
                failed = f + 1;
        }
        if (a.info.data && first == 0 && threadIdx.x == 0)
            ((int *)a.info.data)[batch_offset(a.shape, a.ndim, a.info.batch_stride, item)] = failed;
        for (long long e = first + threadIdx.x;
             failed && e < first + KRON_SOLVE_PART && e < elements; e += KRON_SOLVE_THREADS)
            x[e / a.order * a.x.row_stride + e % a.order * a.x.col_stride] =
                (REAL)__int_as_float(0x7fc00000);
    }
}
