/*
 * solve.cu - systems of equations on the device: small ones whole, and what large ones need beside
 * cuSOLVER
 *
 * solve_small: a block factorises one matrix of order n <= SOLVE_MOST in shared memory and solves
 * for its right-hand sides, SOLVE_WIDTH at a time; the blocks of one matrix in y share them out.
 * The buffer holds what LAPACK would see in the caller's factor, so that small and large items
 * leave the same factors: Cholesky always its lower triangle L (of the transpose for GRAM_UPPER),
 * LU the matrix or, where it is stored by rows, its transpose.
 *
 * solve_copy: a strided copy, or NaN where the factorisation failed.
 *
 * solve_scan: looks for NaN in a matrix before its LU: cuSOLVER's loses it where it exchanges rows.
 *
 * solve_verdict: finds the first bad element of a diagonal, since LAPACKs differ in what they make
 * of NaN; brings pivots and info to the caller's tensors.
 *
 * Parameters (-D), set by cuda_solve.c; the values are named in solve_params.h:
 *   REAL    float or double
 *   LU      1: LU with partial pivoting; 0: Cholesky
 *   KERNEL  which of the four
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_params.h"

#define THREADS SOLVE_THREADS
#define NAN_OF  ((REAL)__longlong_as_double(0x7FF8000000000000ll))

/* Offset in elements of an item that changes with the matrix, or of one that shares it. */
static __device__ long long offset_of(const struct solve_side &s, const long long *shape,
                                      long long ndim, long long item)
{
    long long offset = 0;

    for (long long d = ndim - 1; d >= 0; d--) {
        offset += item % shape[d] * s.batch_stride[d];
        item /= shape[d];
    }
    return offset;
}

static __device__ long long own_offset(const struct solve_side &s, const struct solve_items &items,
                                       long long own)
{
    return offset_of(s, items.own_shape, items.ndim, own);
}

static __device__ long long item_offset(const struct solve_side &s, const struct solve_items &items,
                                        long long own, long long shared)
{
    return own_offset(s, items, own) + offset_of(s, items.shared_shape, items.ndim, shared);
}

static __device__ void report(const struct solve_side &info, const struct solve_items &items,
                              long long own, int verdict)
{
    if (info.data)
        for (long long j = threadIdx.x; j < items.shared; j += THREADS)
            ((int *)info.data)[item_offset(info, items, own, j)] = verdict;
}

/* A diagonal that cannot be divided by. */
static __device__ bool is_bad(REAL d)
{
#if LU
    return d == 0 || d != d;
#else
    return !(d > 0);
#endif
}

#if KERNEL == SOLVE_SMALL

#define LD   (SOLVE_MOST + 1) /* odd: columns and rows are read without bank conflicts */
#define LOOK 8                /* threads that look for a pivot */

/* A factorisation in shared memory. */
struct small {
    REAL s[SOLVE_MOST * LD]; /* column-major */
    REAL rhs[SOLVE_WIDTH * LD];
    int pivots[SOLVE_MOST], best[LOOK];
};

#define S(i, j) (m.s[(j) * LD + (i)])

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

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_small(const __grid_constant__ struct solve_small_params a)
{
    __shared__ struct small m;
    int n = (int)a.n;
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

#elif KERNEL == SOLVE_COPY

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
#  error "solve.cu: KERNEL must be one of solve_params.h"
#endif
