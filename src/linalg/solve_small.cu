/*
 * solve_small.cu - small systems of equations on the device, whole
 *
 * A block factorises one matrix in shared memory and solves for its right-hand sides, SOLVE_WIDTH
 * at a time (in scratch if it is larger); the blocks of one matrix in y share them out.  Its
 * dynamic shared memory and its threads are as many as solve_params.h says for n. The buffer holds
 * what LAPACK would see in the caller's factor, so that small and large items leave the same
 * factors: Cholesky always its lower triangle L (of the transpose for GRAM_UPPER), LU the matrix
 * or, where it is stored by rows, its transpose.
 *
 * Parameters (-D), set by cuda_solve.c:
 *   REAL    float or double
 *   LU      1: LU with partial pivoting; 0: Cholesky
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_items.cuh"

#undef THREADS
#define THREADS ((int)blockDim.x)
#define LD      m.ld
#define LOOK    8 /* threads that look for a pivot */

/* A factorisation in shared memory. */
struct small {
    REAL *s; /* column-major */
    REAL *rhs;
    int *pivots, *best;
    int ld; /* odd: columns and rows are read without bank conflicts */
};

extern __shared__ __align__(16) char memory[];

/* A matrix that does not fit shared memory lies in scratch, one a block. */
static __device__ struct small lay_out(int n, char *scratch)
{
    const int ld = n | 1;
    const long long block = blockIdx.x + blockIdx.y * (long long)gridDim.x;
    REAL *rhs = (REAL *)memory + (scratch ? 0 : n * ld);
    REAL *s = scratch ? (REAL *)scratch + block * n * ld : (REAL *)memory;
    int *numbers = (int *)(rhs + SOLVE_WIDTH * ld);

    return {s, rhs, numbers, numbers + n, ld};
}

#define S(i, j) (m.s[(j)*LD + (i)])

static __device__ void load(const struct solve_small_params &a, long long own, struct small &m)
{
    const REAL *from = (const REAL *)a.a.data + own_offset(a.a, a.items, own);
    int n = (int)a.n;

    for (int e = threadIdx.x; e < n * n; e += THREADS) {
        int i = e / n, j = e % n; /* of the caller's matrix */
        int row = a.flip ? j : i, col = a.flip ? i : j;
        if (LU || row >= col)
            S(row, col) = from[i * a.a.row_stride + j * a.a.col_stride];
    }
    __syncthreads();
}

static __device__ void store(const struct solve_small_params &a, long long own,
                             const struct small &m)
{
    REAL *to = (REAL *)a.factor.data + own_offset(a.factor, a.items, own);
    int n = (int)a.n;

    for (int e = threadIdx.x; e < n * n; e += THREADS) {
        int i = e / n, j = e % n;
        int row = a.flip ? j : i, col = a.flip ? i : j;
        if (LU || row >= col)
            to[i * a.factor.row_stride + j * a.factor.col_stride] = S(row, col);
    }
}

/* What is left of the matrix once column k is final. */
static __device__ void update(struct small &m, int n, int k)
{
    int left = n - k - 1;

    for (int e = threadIdx.x; e < left * left; e += THREADS) {
        int i = k + 1 + e % left, j = k + 1 + e / left;
        if (LU)
            S(i, j) -= S(i, k) * S(k, j);
        else if (i >= j)
            S(i, j) -= S(i, k) * S(j, k);
    }
    __syncthreads();
}

#if LU
/* The row of the largest element of column k from the diagonal on, the first of several; NaN is
 * never larger. */
static __device__ int find_pivot(struct small &m, int n, int k)
{
    int best = k;

    if (threadIdx.x < LOOK) {
        int mine = -1;
        for (int i = k + threadIdx.x; i < n; i += LOOK)
            if (S(i, k) == S(i, k) && (mine < 0 || fabs(S(i, k)) > fabs(S(mine, k))))
                mine = i;
        m.best[threadIdx.x] = mine;
    }
    __syncthreads();
    for (int t = 0; t < LOOK; t++) {
        int i = m.best[t];
        if (i < 0)
            continue;
        REAL was = fabs(S(best, k)), is = fabs(S(i, k));
        if (was != was || is > was || (is == was && i < best))
            best = i;
    }
    __syncthreads();
    return best;
}

static __device__ int factorise(struct small &m, int n)
{
    int bad = 0;

    for (int k = 0; k < n; k++) {
        int p = find_pivot(m, n, k);
        for (int j = threadIdx.x; p != k && j < n; j += THREADS) {
            REAL kept = S(k, j);
            S(k, j) = S(p, j);
            S(p, j) = kept;
        }
        if (threadIdx.x == 0)
            m.pivots[k] = p;
        __syncthreads();
        REAL d = S(k, k);
        if (is_bad(d) && !bad)
            bad = k + 1;
        if (d == 0)
            continue; /* as LAPACK: the column below is zero too */
        for (int i = k + 1 + threadIdx.x; i < n; i += THREADS)
            S(i, k) /= d;
        __syncthreads();
        update(m, n, k);
    }
    return bad;
}
#else
static __device__ int factorise(struct small &m, int n)
{
    for (int k = 0; k < n; k++) {
        REAL d = S(k, k);
        if (is_bad(d))
            return k + 1;
        d = sqrt(d);
        __syncthreads(); /* all have read it */
        for (int i = k + threadIdx.x; i < n; i += THREADS)
            S(i, k) = i == k ? d : S(i, k) / d;
        __syncthreads();
        update(m, n, k);
    }
    return 0;
}
#endif

/* The first bad element of a given factor's diagonal; pivots that are none are as bad. */
static __device__ int inspect(const struct solve_small_params &a, long long own, struct small &m)
{
    int n = (int)a.n, bad = 0;

    for (int k = n - 1; k >= 0; k--)
        if (is_bad(S(k, k)))
            bad = k + 1;
#if LU
    const int *from = (const int *)a.pivots.data + own_offset(a.pivots, a.items, own);
    for (int k = n - 1; k >= 0; k--) {
        int p = from[k * a.pivots.col_stride];
        if (p < 1 || p > n)
            bad = -(k + 1);
        if (threadIdx.x == 0)
            m.pivots[k] = p - 1;
    }
    __syncthreads();
#endif
    return bad;
}

/* Right-hand sides to the solution of a triangular system: the lower triangle of the buffer or of
 * its transpose forwards, the upper one backwards. */
static __device__ void sweep(struct small &m, int n, int width, bool forward, bool transposed,
                             bool unit)
{
    for (int step = 0; step < n; step++) {
        int k = forward ? step : n - 1 - step, rest = n - 1 - step;
        if (!unit) {
            for (int c = threadIdx.x; c < width; c += THREADS)
                m.rhs[c * LD + k] /= S(k, k);
            __syncthreads();
        }
        for (int e = threadIdx.x; e < rest * width; e += THREADS) {
            int i = forward ? k + 1 + e % rest : e % rest, c = e / rest;
            m.rhs[c * LD + i] -= (transposed ? S(k, i) : S(i, k)) * m.rhs[c * LD + k];
        }
        __syncthreads();
    }
}

#if LU
static __device__ void exchange(struct small &m, int n, int width, bool forward)
{
    for (int c = threadIdx.x; c < width; c += THREADS)
        for (int step = 0; step < n; step++) {
            int k = forward ? step : n - 1 - step, p = m.pivots[k];
            REAL kept = m.rhs[c * LD + k];
            m.rhs[c * LD + k] = m.rhs[c * LD + p];
            m.rhs[c * LD + p] = kept;
        }
    __syncthreads();
}
#endif

static __device__ void solve(struct small &m, int n, int width, bool flip)
{
#if LU
    if (!flip)
        exchange(m, n, width, true);
    sweep(m, n, width, true, flip, !flip);
    sweep(m, n, width, false, flip, flip);
    if (flip)
        exchange(m, n, width, false);
#else
    (void)flip;
    sweep(m, n, width, true, false, false);
    sweep(m, n, width, false, true, false);
#endif
}

/* One group of right-hand sides of a matrix: columns from first on of item shared. */
static __device__ void solve_group(const struct solve_small_params &a, long long own,
                                   long long shared, long long first, int bad, struct small &m)
{
    const REAL *b = (const REAL *)a.b.data + item_offset(a.b, a.items, own, shared);
    REAL *x = (REAL *)a.x.data + item_offset(a.x, a.items, own, shared);
    int n = (int)a.n;
    int width = a.columns - first < SOLVE_WIDTH ? (int)(a.columns - first) : SOLVE_WIDTH;

    for (int e = threadIdx.x; !bad && e < n * width; e += THREADS) {
        int i = e / width, c = e % width;
        m.rhs[c * LD + i] = b[i * a.b.row_stride + (first + c) * a.b.col_stride];
    }
    __syncthreads();
    if (!bad)
        solve(m, n, width, a.flip);
    for (int e = threadIdx.x; e < n * width; e += THREADS) {
        int i = e / width, c = e % width;
        x[i * a.x.row_stride + (first + c) * a.x.col_stride] = bad ? NAN_OF : m.rhs[c * LD + i];
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(SOLVE_MOST_THREADS, 2)
    solve_small(const __grid_constant__ struct solve_small_params a)
{
    int n = (int)a.n;
    struct small m = lay_out(n, a.scratch);
    long long groups = (a.columns + SOLVE_WIDTH - 1) / SOLVE_WIDTH;

    for (long long own = blockIdx.x; own < a.items.own; own += gridDim.x) {
        load(a, own, m);
        int bad = a.factored ? inspect(a, own, m) : factorise(m, n);
        if (blockIdx.y == 0) {
            report(a.info, a.items, own, bad);
            if (a.factor.data)
                store(a, own, m);
#if LU
            int *to = (int *)a.pivots.data;
            if (to && !a.factored)
                for (int k = threadIdx.x; k < n; k += THREADS)
                    to[own_offset(a.pivots, a.items, own) + k * a.pivots.col_stride] =
                        m.pivots[k] + 1;
#endif
        }
        for (long long at = blockIdx.y; at < a.items.shared * groups; at += gridDim.y)
            solve_group(a, own, at / groups, at % groups * SOLVE_WIDTH, bad, m);
        __syncthreads();
    }
}
