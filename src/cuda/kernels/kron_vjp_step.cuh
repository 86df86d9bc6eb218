/*
 * kron_vjp_step.cuh - steps of the chains of cuda_kron_matmul_vjp.h with a small factor: what they
 * bring to shared memory
 *
 * A block brings some of S there; a thread then has one of them and KRON_VJP_EACH columns, or, for
 * the gradient, up to four of its elements, for a part of S.
 *
 * Part of files whose parameter REAL it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_vjp_params.h"

#define THREADS KRON_VJP_THREADS
#define SMALL   KRON_VJP_SMALL
#define ROWS    KRON_VJP_ROWS
#define EACH    KRON_VJP_EACH

/* to[k][c] = F[k, c], or with its indices exchanged; zeros where there is nothing. */
static __device__ void load_factor(const struct kron_vjp_step_params &a, long long group,
                                   bool exchanged, REAL (*to)[SMALL])
{
    const REAL *f = (const REAL *)a.factor + group * a.factor_stride;

    for (int e = (int)threadIdx.x; e < SMALL * SMALL; e += THREADS) {
        const int i = exchanged ? e % SMALL : e / SMALL, j = exchanged ? e / SMALL : e % SMALL;
        to[e / SMALL][e % SMALL] =
            i < a.p && j < a.q ? f[i * a.factor_row + j * a.factor_col] : (REAL)0;
    }
}

/* Rows of left, each without gaps. */
static __device__ void load_left(const REAL *left, int rows, int p, REAL (*to)[SMALL + 1])
{
    for (int e = (int)threadIdx.x; e < rows * p; e += THREADS)
        to[e / p][e % p] = left[e];
}

/* Columns of right, S of them in a row of it. */
static __device__ void load_right(const REAL *right, int rows, int q, long long s,
                                  REAL (*to)[SMALL + 1])
{
    for (int e = (int)threadIdx.x; e < ROWS * q; e += THREADS)
        if (e % ROWS < rows)
            to[e % ROWS][e / ROWS] = right[e / ROWS * s + e % ROWS];
}

/* The sums of a row of the tile with EACH columns of the factor. */
static __device__ void multiply(const REAL *row, int depth, const REAL (*factor)[SMALL], int first,
                                REAL *sum)
{
#pragma unroll
    for (int c = 0; c < EACH; c++)
        sum[c] = 0;
    for (int k = 0; k < depth; k++) {
        const REAL v = row[k];
#pragma unroll
        for (int c = 0; c < EACH; c++)
            sum[c] += v * factor[k][first + c];
    }
}
