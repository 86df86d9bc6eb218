/*
 * solve_large.cu - what large systems of equations need on the device beside cuSOLVER
 *
 * solve_copy: a strided copy, or NaN where the factorisation failed.
 *
 * solve_scan: looks for NaN in a matrix before its LU: cuSOLVER's loses it where it exchanges rows.
 *
 * solve_verdict: finds the first bad element of a diagonal, since LAPACKs differ in what they make
 * of NaN; brings pivots and info to the caller's tensors.
 *
 * Parameters (-D), set by cuda_solve.c:
 *   REAL    float or double
 *   LU      1: LU with partial pivoting; 0: Cholesky
 *   KERNEL  which of the three, as named in solve_params.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_items.cuh"

#if KERNEL == SOLVE_COPY

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_copy(const __grid_constant__ struct solve_copy_params a)
{
    const REAL *from = (const REAL *)a.from;
    REAL *to = (REAL *)a.to;
    bool bad = a.verdict && *a.verdict != 0;
    /* Neighbouring threads write neighbouring elements. */
    bool by_rows = llabs(a.to_stride[1]) <= llabs(a.to_stride[0]);
    long long length = by_rows ? a.cols : a.rows;

    if (!bad && from == to)
        return;
    for (long long e = blockIdx.x * (long long)THREADS + threadIdx.x; e < a.rows * a.cols;
         e += (long long)gridDim.x * THREADS) {
        long long slow = e / length, fast = e % length;
        long long i = by_rows ? slow : fast, j = by_rows ? fast : slow;
        if ((a.part == SOLVE_PART_LOWER && i < j) || (a.part == SOLVE_PART_UPPER && i > j))
            continue;
        to[i * a.to_stride[0] + j * a.to_stride[1]] =
            bad ? NAN_OF : from[i * a.from_stride[0] + j * a.from_stride[1]];
    }
}

#elif KERNEL == SOLVE_SCAN

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_scan(const __grid_constant__ struct solve_scan_params a)
{
    __shared__ int first[THREADS];
    const REAL *matrix = (const REAL *)a.matrix;
    const int none = 0x7FFFFFFF;
    int mine = none;

    for (long long column = blockIdx.x; column < a.n; column += gridDim.x)
        for (long long row = threadIdx.x; row < a.n; row += THREADS) {
            REAL v = matrix[column * a.ld + row];
            if (v != v && mine == none)
                mine = (int)(column + 1);
        }
    first[threadIdx.x] = mine;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            first[threadIdx.x] = min(first[threadIdx.x], first[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        a.found[blockIdx.x] = first[0] == none ? 0 : first[0];
}

#elif KERNEL == SOLVE_VERDICT

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_verdict(const __grid_constant__ struct solve_verdict_params a)
{
    __shared__ int first[THREADS], wrong[THREADS]; /* bad elements and pivots; INT_MAX: none */
    const REAL *matrix = (const REAL *)a.matrix;
    const int none = 0x7FFFFFFF;
    int code = a.code ? *a.code : 0, verdict;
    long long limit = code > 0 ? code - 1 : a.n; /* beyond it nothing was factorised */

    first[threadIdx.x] = wrong[threadIdx.x] = none;
    for (long long k = threadIdx.x; k < limit; k += THREADS)
        if (is_bad(matrix[k * (a.ld + 1)]) && first[threadIdx.x] == none)
            first[threadIdx.x] = (int)(k + 1);
#if LU
    for (long long k = threadIdx.x; k < a.scans; k += THREADS)
        if (a.found[k] && a.found[k] < first[threadIdx.x])
            first[threadIdx.x] = a.found[k];
    int *pivots = (int *)a.pivots.data;
    if (pivots)
        pivots += own_offset(a.pivots, a.items, a.own);
    for (long long k = threadIdx.x; k < a.n && pivots; k += THREADS) {
        int *mine = &pivots[k * a.pivots.col_stride];
        if (a.code) {
            *mine = (int)a.exchanges[k];
        } else {
            bool is_row = *mine >= 1 && *mine <= a.n;
            if (!is_row && wrong[threadIdx.x] == none)
                wrong[threadIdx.x] = (int)(k + 1);
            a.exchanges[k] = is_row ? *mine : k + 1; /* never a wild store */
        }
    }
#endif
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            first[threadIdx.x] = min(first[threadIdx.x], first[threadIdx.x + half]);
            wrong[threadIdx.x] = min(wrong[threadIdx.x], wrong[threadIdx.x + half]);
        }
        __syncthreads();
    }
    verdict = first[0] != none ? first[0] : code;
    if (wrong[0] != none)
        verdict = -wrong[0];
    if (threadIdx.x == 0) {
        REAL *bad = (REAL *)a.matrix + (verdict - 1) * (a.ld + 1);
        *a.verdict = verdict;
        /* A factor in which NaN was lost says so when it is given back. */
        if (a.code && verdict > 0 && !is_bad(*bad))
            *bad = NAN_OF;
    }
    report(a.info, a.items, a.own, verdict);
}

#else
#  error "solve_large.cu: KERNEL must be one of solve_params.h"
#endif
