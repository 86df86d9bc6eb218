/*
 * soap_basis.cu - SOAP's bases on the device: what becomes of them, and of the moments with them
 *
 * soap_basis: bases of a wave to scratch.
 * soap_load: bases of items that are due.
 * soap_check_finite: items with a number that is not finite have failed.
 * soap_still_fits: does the old basis still fit?
 * soap_estimate, soap_rank: eigenvalues q . q L, and the vectors by falling ones.
 * soap_sort: the rows of Q L in this order.
 * soap_count_outcome: what became of each is counted; a thread has an item.
 * soap_load_moments: the first moment to scratch, the second one with its vectors in their new
 * order.
 * soap_commit, soap_store: moments, and bases, to the state where there are new ones.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

#define WARP 32

typedef struct soap_batch turn;

/* A block of threads has a tile of a matrix of an item: its number and its elements. */
struct part {
    long long item, first, last;
};

static __device__ struct part part_of(long long n)
{
    const long long parts = (n * n + OPTIMIZER_TILE - 1) / OPTIMIZER_TILE;
    const long long first = blockIdx.x % parts * OPTIMIZER_TILE, end = first + OPTIMIZER_TILE;

    return {blockIdx.x / parts, first + threadIdx.x, end < n * n ? end : n * n};
}

static __device__ const struct optimizer_entry &entry_of(const turn &s, long long item)
{
    return s.r.a.entry[s.r.item[item]];
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_basis(const __grid_constant__ params a)
{
    const struct part p = part_of(a.n);
    const char *root = a.state + a.entry[p.item].root[a.k];
    REAL *to = (REAL *)a.matrix + p.item * a.n * a.n;

    for (long long i = p.first; i < p.last; i += THREADS)
        to[i] = load_real(a.matrix_type, root, i);
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_load(const __grid_constant__ turn s)
{
    const params &a = s.r.a;
    const struct part p = part_of(a.n);
    const char *root = a.state + entry_of(s, p.item).root[a.k];
    REAL *to = (REAL *)s.q + p.item * a.n * a.n;

    for (long long i = p.first; i < p.last; i += THREADS)
        to[i] = load_real(a.matrix_type, root, i);
    if (p.first == 0)
        s.outcome[p.item] = SOAP_REFRESHED;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    soap_check_finite(const __grid_constant__ turn s)
{
    const struct part p = part_of(s.r.a.n);
    const REAL *x = (const REAL *)s.checked + p.item * s.r.a.n * s.r.a.n;
    bool finite = true;

#pragma unroll 4
    for (long long i = p.first; i < p.last; i += THREADS)
        finite = finite && x[i] - x[i] == 0;
    if (!finite && s.outcome[p.item] == SOAP_REFRESHED)
        s.outcome[p.item] = SOAP_FAILED;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    soap_still_fits(const __grid_constant__ turn s)
{
    __shared__ double sums[2][THREADS];
    const long long item = blockIdx.x, n = s.r.a.n;
    const REAL *fit = (const REAL *)s.next + item * n * n; /* Q L Q^T */
    double off = 0, all = 0;

    for (long long i = threadIdx.x; i < n * n; i += THREADS) {
        const double v = (double)fit[i] * (double)fit[i];
        all += v;
        off += i % (n + 1) == 0 ? 0 : v;
    }
    block_sum(sums[0], (int)threadIdx.x, off);
    block_sum(sums[1], (int)threadIdx.x, all);
    if (threadIdx.x == 0 && s.outcome[item] == SOAP_REFRESHED &&
        sums[0][0] <= s.skip * s.skip * sums[1][0])
        s.outcome[item] = SOAP_KEPT;
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_estimate(const __grid_constant__ turn s)
{
    const long long n = s.r.a.n, blocks = (n + THREADS / WARP - 1) / (THREADS / WARP);
    const long long item = blockIdx.x / blocks;
    const long long j = blockIdx.x % blocks * (THREADS / WARP) + threadIdx.x / WARP;
    const REAL *q = (const REAL *)s.q + (item * n + j) * n;
    const REAL *product = (const REAL *)s.product + (item * n + j) * n;
    double sum = 0;

    for (long long i = threadIdx.x % WARP; j < n && i < n; i += WARP)
        sum += (double)q[i] * (double)product[i];
    for (int lane = WARP / 2; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (j < n && threadIdx.x % WARP == 0)
        s.values[item * n + j] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_rank(const __grid_constant__ turn s)
{
    const long long n = s.r.a.n, blocks = (n + THREADS - 1) / THREADS;
    const long long item = blockIdx.x / blocks, j = blockIdx.x % blocks * THREADS + threadIdx.x;
    const double *values = s.values + item * n;
    long long rank = 0;

    if (j >= n)
        return;
    for (long long i = 0; i < n; i++)
        rank += values[i] > values[j] || (values[i] == values[j] && i < j);
    if (s.outcome[item] != SOAP_REFRESHED)
        rank = j;
    s.order[item * n + rank] = (int)j;
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_sort(const __grid_constant__ turn s)
{
    const long long n = s.r.a.n;
    const struct part p = part_of(n);
    const REAL *from = (const REAL *)s.product + p.item * n * n;
    REAL *to = (REAL *)s.r.a.matrix + p.item * n * n;

    for (long long i = p.first; i < p.last; i += THREADS)
        to[i] = from[s.order[p.item * n + i / n] * n + i % n];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    soap_count_outcome(const __grid_constant__ turn s)
{
    const params &a = s.r.a;
    const long long item = blockIdx.x * (long long)THREADS + threadIdx.x;
    unsigned long long *count = (unsigned long long *)&a.counts->refreshed;

    if (item >= s.r.items)
        return;
    const struct optimizer_entry &e = entry_of(s, item);
    if (s.first && s.r.info[item])
        s.outcome[item] = SOAP_FAILED;
    if (a.now[e.parameter].rests) {
        s.outcome[item] = SOAP_KEPT;
        return;
    }
    if (s.outcome[item] == SOAP_KEPT)
        count = (unsigned long long *)&a.counts->kept;
    if (s.outcome[item] == SOAP_FAILED) {
        count = (unsigned long long *)&a.counts->failed;
        a.failed[e.number] = 1;
    }
    atomicAdd(count, 1ull);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    soap_load_moments(const __grid_constant__ turn s)
{
    const params &a = s.r.a;
    const struct optimizer_entry &e = entry_of(s, block_of(a));
    const int *order = s.order + block_of(a) * a.n;
    REAL *moment = (REAL *)s.moment + block_of(a) * a.array;
    REAL *second = (REAL *)s.second + block_of(a) * a.array;

    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        const long long inner = i % a.after, outer = i / a.after;
        const long long j = order[outer % a.n], first = outer / a.n;
        moment[i] = load_real(a.moment_type, a.state + e.moment, i);
        second[i] =
            load_real(a.second_type, a.state + e.second, (first * a.n + j) * a.after + inner);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_commit(const __grid_constant__ turn s)
{
    const params &a = s.r.a;
    const struct optimizer_entry &e = entry_of(s, block_of(a));
    const REAL *moment = (const REAL *)s.moment + block_of(a) * a.array;
    const REAL *second = (const REAL *)s.second + block_of(a) * a.array;

    if (s.outcome[block_of(a)] != SOAP_REFRESHED)
        return;
    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        store_real(a.moment_type, a.state + e.moment, i, moment[i]);
        store_real(a.second_type, a.state + e.second, i, second[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) soap_store(const __grid_constant__ turn s)
{
    const params &a = s.r.a;
    const struct part p = part_of(a.n);
    const REAL *from = (const REAL *)s.next + p.item * a.n * a.n;
    char *root = a.state + entry_of(s, p.item).root[a.k];

    if (s.outcome[p.item] != SOAP_REFRESHED)
        return;
    for (long long i = p.first; i < p.last; i += THREADS)
        store_real(a.matrix_type, root, i, from[i]);
}
