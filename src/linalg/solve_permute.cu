/*
 * solve_permute.cu - exchanges of rows of a batch
 *
 * solve_permute: rows of right-hand sides in another order, a block a column.
 *
 * solve_permutation: the order of rows that exchanges make, a block an item.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options_params.h"

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS)
    solve_permute(const __grid_constant__ struct solve_permute_params a)
{
    const long long item = blockIdx.x / a.columns, column = blockIdx.x % a.columns;
    REAL *x = (REAL *)(a.x + item * a.x_bytes) + column * a.ldx;
    REAL *other = (REAL *)(a.other + item * a.x_bytes) + column * a.ldx;
    const int *p = a.permutation + item * a.n;

    if (!a.go[item])
        return;
    for (long long i = threadIdx.x; i < a.n; i += SOLVE_THREADS)
        other[i] = x[i];
    __syncthreads();
    for (long long i = threadIdx.x; i < a.n; i += SOLVE_THREADS)
        x[a.back ? p[i] : i] = other[a.back ? i : p[i]];
}

static __device__ void order_rows(int *p, const int *exchanges, long long n)
{
    for (long long k = threadIdx.x; k < n; k += SOLVE_THREADS)
        p[k] = (int)k;
    __syncthreads();
    for (long long k = 0; k < n && threadIdx.x == 0; k++) {
        const int other = exchanges[k] - 1, kept = p[k];
        p[k] = p[other];
        p[other] = kept;
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(SOLVE_THREADS)
    solve_permutation(const __grid_constant__ struct solve_options_params a)
{
    __shared__ int order[SOLVE_PERMUTED];
    const long long item = blockIdx.x;
    int *p = a.permutation + item * a.n;

    if (!a.go[item])
        return;
    if (a.n > SOLVE_PERMUTED) {
        order_rows(p, a.exchanges + item * a.n, a.n);
        return;
    }
    order_rows(order, a.exchanges + item * a.n, a.n);
    for (long long k = threadIdx.x; k < a.n; k += SOLVE_THREADS)
        p[k] = order[k];
}
