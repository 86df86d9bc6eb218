/*
 * kron_solve_factor.cu - LU of the small factors of a Kronecker product
 *
 * P op(F) = L U in double, rounded once: op transposes where solutions are rows (triangle 0), with
 * pivots; or F is symmetric (triangle 1 or 2, the one that is read), where pivots are positive and
 * need no exchange: L and U are then those of Cholesky, but for the scales of their columns.  The
 * columns of the result come one after the other, KRON_SOLVE_STEP elements apart, with the
 * reciprocal of the pivot in its place; row k of L U is row pivots[k] of op(F).
 *
 * A block has a factor of an item at a time, in shared memory.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_params.h"

#define THREADS KRON_SOLVE_THREADS
#define MOST    KRON_SOLVE_SMALL

struct small {
    double a[MOST][MOST + 1];
    int row[MOST], chosen, failed, found;
};

/* Whether the factor has an item of its own here, not one that it shares with items before. */
static __device__ bool is_own(const struct kron_solve_params &a, const long long *stride,
                              long long item)
{
    for (int d = (int)a.ndim - 1; d >= 0; d--) {
        if (stride[d] == 0 && item % a.shape[d] != 0)
            return false;
        item /= a.shape[d];
    }
    return true;
}

static __device__ void load(struct small &s, const struct kron_solve_params &a, int f,
                            long long item)
{
    const int n = (int)a.n[f];
    const struct device_view &side = a.factor[f];
    const REAL *from =
        (const REAL *)side.data + batch_offset(a.shape, a.ndim, side.batch_stride, item);

    if (threadIdx.x == 0)
        s.failed = s.found = 0;
    __syncthreads();
    for (int e = (int)threadIdx.x; e < n * n; e += THREADS) {
        const int i = e / n, j = e % n;
        const bool turned = (a.triangle == 1 && i < j) || (a.triangle == 2 && i > j);
        const double v =
            from[(turned ? j : i) * side.row_stride + (turned ? i : j) * side.col_stride];
        s.a[a.triangle == 0 ? j : i][a.triangle == 0 ? i : j] = v;
        if (v - v != 0)
            s.found = 1;
        if (e < n)
            s.row[e] = e;
    }
    __syncthreads();
}

/* The row of the largest element of column k, which the first warp looks for. */
static __device__ void choose(struct small &s, int n, int k)
{
    double most = -1;
    int row = k;

    for (int i = k + (int)threadIdx.x; i < n; i += 32)
        if (fabs(s.a[i][k]) > most)
            most = fabs(s.a[i][k]), row = i;
    for (int half = 16; half > 0; half /= 2) {
        const double other = __shfl_xor_sync(0xFFFFFFFF, most, half);
        const int at = __shfl_xor_sync(0xFFFFFFFF, row, half);
        if (other > most || (other == most && at < row))
            most = other, row = at;
    }
    if (threadIdx.x == 0)
        s.chosen = row;
}

static __device__ void eliminate(struct small &s, int n, bool symmetric)
{
    const int t = (int)threadIdx.x;

    for (int k = 0; k < n; k++) {
        if (!symmetric) {
            if (t < 32)
                choose(s, n, k);
            __syncthreads();
            const int other = s.chosen;
            if (other != k && t < n) {
                const double kept = s.a[k][t];
                s.a[k][t] = s.a[other][t], s.a[other][t] = kept;
                if (t == 0) {
                    const int row = s.row[k];
                    s.row[k] = s.row[other], s.row[other] = row;
                }
            }
            __syncthreads();
        }
        const double pivot = s.a[k][k];
        if (t == 0 && ((REAL)pivot == 0 || (symmetric && !(pivot > 0))))
            s.failed = 1;
        const int left = n - k - 1;
        for (int i = k + 1 + t; i < n; i += THREADS)
            s.a[i][k] /= pivot;
        __syncthreads();
        for (int e = t; e < left * left; e += THREADS) {
            const int i = k + 1 + e / left, j = k + 1 + e % left;
            s.a[i][j] -= s.a[i][k] * s.a[k][j];
        }
        __syncthreads();
    }
}

static __device__ void store(const struct small &s, const struct kron_logdet_params &p, int f,
                             long long item)
{
    const struct kron_solve_params &a = p.of;
    const int n = (int)a.n[f], step = KRON_SOLVE_STEP(n);
    REAL *lu = (REAL *)p.lu[f].data + batch_offset(a.shape, a.ndim, p.lu[f].batch_stride, item);
    int *row =
        (int *)p.pivots[f].data + batch_offset(a.shape, a.ndim, p.pivots[f].batch_stride, item);
    int *code = (int *)a.code[f].data + batch_offset(a.shape, a.ndim, a.code[f].batch_stride, item);

    for (int e = (int)threadIdx.x; e < n * step; e += THREADS) {
        const int j = e / step, i = e % step;
        lu[e] = i >= n ? (REAL)0 : i == j ? (REAL)(1 / s.a[i][i]) : (REAL)s.a[i][j];
        if (e < n)
            row[e] = s.row[e];
    }
    if (threadIdx.x == 0)
        code[0] = s.failed, code[a.found] = s.found;
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_solve_factor(const __grid_constant__ struct kron_logdet_params p)
{
    __shared__ struct small s;
    const struct kron_solve_params &a = p.of;

    for (long long work = blockIdx.x; work < a.items * a.count; work += gridDim.x) {
        const long long item = work / a.count;
        const int f = (int)(work - item * a.count);
        if (!is_own(a, p.lu[f].batch_stride, item))
            continue;
        load(s, a, f, item);
        eliminate(s, (int)a.n[f], a.triangle != 0);
        store(s, p, f, item);
    }
}
