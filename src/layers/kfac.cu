/*
 * kfac.cu - the passes of gram_kfac on the device: what the host does with numbers on the CPU
 *
 * Whether new numbers are taken is decided here: kfac_check_finite sets bad where something is not
 * finite, and factorisations set info.
 *
 * Parameters (-D): REAL.  It is the type of the object's numbers; what is done with them is done
 * in double.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_params.h"

#define THREADS KFAC_THREADS

#include "block_sum.cuh"
#include "device_view.cuh"

typedef struct kfac_params params;

/* What layer.counts holds: see enum kfac_count. */
#define A_UPDATES 0
#define B_UPDATES 1
#define CORRECTED 2
#define READY     3

static const double pi_most = 1e4; /* how far apart the damping of A and B may be */

#define FOR_EACH(i, count)                                                       \
  for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < (count); \
       i += (long long)gridDim.x * THREADS)

/* Number i of the object's. */
static __device__ double real_at(const void *numbers, long long i)
{
    return (double)((const REAL *)numbers)[i];
}

/* A new number. */
static __device__ double number_of(const params &a, long long i)
{
    return load_double(a.dtype, a.from, i);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kfac_check_finite(const __grid_constant__ params a)
{
    double sum = 0;

    FOR_EACH(i, a.count)
    sum += 0 * (double)(REAL)number_of(a, i);
    if (sum != 0)
        a.found->bad = 1;
}

/* An average moves, unless something was not finite; with only_ready, if the layer is ready. */
extern "C" __global__ void __launch_bounds__(THREADS)
    kfac_move_average(const __grid_constant__ params a)
{
    const double keep = fmin(1 - 1 / (double)(a.counts[a.updates] + 1), a.decay);

    REAL *to = (REAL *)a.to;

    if (a.found->bad || (a.only_ready && !a.counts[READY]))
        return;
    FOR_EACH(i, a.count)
    to[i] =
        (REAL)(keep == 0 ? number_of(a, i) : keep * (double)to[i] + (1 - keep) * number_of(a, i));
}

/* moved is a sum of 1 for A, 2 for B and 4 for corrections, which move if the layer is ready. */
extern "C" __global__ void __launch_bounds__(THREADS)
    kfac_count_update(const __grid_constant__ params a)
{
    if (threadIdx.x > 0)
        return;
    if (a.found->bad) {
        a.found->skipped++;
    } else {
        a.counts[A_UPDATES] += (a.moved & 1) != 0;
        a.counts[B_UPDATES] += (a.moved & 2) != 0;
        a.counts[CORRECTED] += (a.moved & 4) != 0 && a.counts[READY];
    }
    a.found->bad = 0;
}

/* The mean of the diagonals of matrices, or of count diagonals, to all threads. */
static __device__ double mean_diagonal(const void *a, long long count, long long n, bool diagonals,
                                       double *sums)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < count * n; i += THREADS)
        mine += real_at(a, diagonals ? i : i * n + i % n);
    __syncthreads();
    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    return sums[0] / (double)(count * n);
}

/* The damping of A and of B, not below `least` times all traces:
 *   pi sqrt(lambda) and sqrt(lambda) / pi,   pi^2 = mean diagonal of A / mean diagonal of B. */
extern "C" __global__ void __launch_bounds__(THREADS)
    kfac_split_damping(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const double of_a = mean_diagonal(a.x, a.groups, a.cols, a.diagonal, sums);
    const double of_b = mean_diagonal(a.y, a.groups, a.rows, false, sums);
    double pi = 1;

    if (threadIdx.x > 0)
        return;
    if (of_a > 0 && of_b > 0)
        pi = fmin(fmax(sqrt(of_a / of_b), 1 / pi_most), pi_most);
    a.found->shift[0] =
        fmax(pi * sqrt(a.lambda), a.least * of_a * (double)(a.diagonal ? 0 : a.groups * a.cols));
    a.found->shift[1] = fmax(sqrt(a.lambda) / pi, a.least * of_b * (double)(a.groups * a.rows));
}

/* to = x + shift I, and from, which is written here, the identity. */
extern "C" __global__ void __launch_bounds__(THREADS)
    kfac_add_damping(const __grid_constant__ params a)
{
    const double shift = a.found->shift[a.side];
    REAL *to = (REAL *)a.to, *identity = (REAL *)a.from;

    FOR_EACH(i, a.count)
    {
        const bool is_diagonal = i / a.rows % a.rows == i % a.rows;
        to[i] = (REAL)(real_at(a.x, i) + (is_diagonal ? shift : 0));
        identity[i] = is_diagonal;
    }
}

/* Whether what was made of both factors of a layer is right; there are factors. */
static __device__ bool is_right(const params &a)
{
    if (a.found->bad)
        return false;
    for (int side = 0; side < 2; side++)
        for (long long i = 0; a.info[side] && i < a.groups; i++)
            if (a.info[side][i] != 0)
                return false;
    return true;
}

static __device__ bool has_factors(const params &a)
{
    return a.counts[A_UPDATES] > 0 && a.counts[B_UPDATES] > 0;
}

/* The column of A that number i of M meets. */
static __device__ long long column_of(const params &a, long long i)
{
    return i % a.cols + i / a.cols / a.rows * a.cols;
}

/* Matrices are rows by rows, M is rows by cols. */
extern "C" __global__ void __launch_bounds__(THREADS) kfac_store(const __grid_constant__ params a)
{
    const long long n = a.rows;
    REAL *to = (REAL *)a.to;

    if (!has_factors(a) || !is_right(a))
        return;
    if (a.store == KFAC_PRODUCTS) {
        FOR_EACH(i, a.count)
        to[i] = (REAL)(real_at(a.x, column_of(a, i)) * real_at(a.y, i / a.cols));
        return;
    }
    FOR_EACH(i, a.count)
    {
        double now = real_at(a.x, i);
        if (a.store == KFAC_SYMMETRIC) {
            const long long row = i / n % n, col = i % n;
            now = (now + real_at(a.x, i + (col - row) * (n - 1))) / 2;
        } else if (a.store == KFAC_INVERSE) {
            now = 1 / (fmax(now, 0.0) + a.found->shift[0]);
        } else if (a.store == KFAC_NOT_BELOW_0) {
            now = fmax(now, 0.0);
        }
        to[i] = (REAL)now;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) kfac_commit(const __grid_constant__ params a)
{
    if (threadIdx.x > 0)
        return;
    if (has_factors(a)) {
        if (is_right(a))
            a.counts[READY] = 1, a.counts[CORRECTED] = 0;
        else
            a.found->failed++;
    }
    a.found->bad = 0;
}

/* Element e of a tensor: its place, and its number's. */
static __device__ long long place_of(const params &a, long long e)
{
    long long at = 0;

    for (int d = (int)a.ndim - 1; d >= 0; d--) {
        at += e % a.shape[d] * a.stride[d];
        e /= a.shape[d];
    }
    return at;
}

static __device__ long long place_in(const params &a, long long e)
{
    return e / a.inner * a.outer_step + e % a.inner * a.inner_step;
}

extern "C" __global__ void __launch_bounds__(THREADS) kfac_gather(const __grid_constant__ params a)
{
    FOR_EACH(e, a.count)
    {
        const long long at = place_of(a, e);
        ((REAL *)a.to)[place_in(a, e)] = (REAL)load_double(a.dtype, a.data, at);
    }
}

/* Numbers times nu; where nu is 0 they may be anything. */
extern "C" __global__ void __launch_bounds__(THREADS) kfac_scatter(const __grid_constant__ params a)
{
    const double nu = a.found->nu;

    FOR_EACH(e, a.count)
    {
        const long long at = place_of(a, e);
        const double value = nu == 0 ? 0 : nu * real_at(a.x, place_in(a, e));
        store_double(a.dtype, a.data, at, value);
    }
}

/* KFAC_COLUMNS_TIMES: to[i] *= x[column];
 * KFAC_FACTORS:       to[i] /= x[column] y[row] + lambda;
 * KFAC_VALUES:        to[i] /= x[i] + lambda. */
extern "C" __global__ void __launch_bounds__(THREADS) kfac_scale(const __grid_constant__ params a)
{
    REAL *to = (REAL *)a.to;

    FOR_EACH(i, a.count)
    {
        const double x = real_at(a.x, a.scale == KFAC_VALUES ? i : column_of(a, i));
        if (a.scale == KFAC_COLUMNS_TIMES)
            to[i] = (REAL)((double)to[i] * x);
        else
            to[i] =
                (REAL)((double)to[i] /
                       ((a.scale == KFAC_FACTORS ? real_at(a.y, i / a.cols) * x : x) + a.lambda));
    }
}

/* to = factor times the sum of the squares of `groups` vectors x; with adds, added to `to`.  A
 * block makes 32 numbers, each by THREADS / 32 threads that share out the groups. */
extern "C" __global__ void __launch_bounds__(THREADS) kfac_squares(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS / KFAC_COLUMNS][KFAC_COLUMNS];
    const int column = (int)threadIdx.x % KFAC_COLUMNS, part = (int)threadIdx.x / KFAC_COLUMNS;
    REAL *to = (REAL *)a.to;

    for (long long first = (long long)blockIdx.x * KFAC_COLUMNS; first < a.count;
         first += (long long)gridDim.x * KFAC_COLUMNS) {
        const long long i = first + column;
        double sum = 0;
        for (long long g = part; i < a.count && g < a.groups; g += THREADS / KFAC_COLUMNS) {
            const double x = real_at(a.x, g * a.count + i);
            sum += x * x;
        }
        sums[part][column] = sum;
        __syncthreads();
        if (part == 0 && i < a.count) {
            for (int p = 1; p < THREADS / KFAC_COLUMNS; p++)
                sum += sums[p][column];
            to[i] = (REAL)(a.factor * sum + (a.adds ? (double)to[i] : 0));
        }
        __syncthreads();
    }
}

/* to, the gradient, becomes the direction x, if there are inverses; parts of <direction, gradient>.
 */
extern "C" __global__ void __launch_bounds__(THREADS)
    kfac_take_direction(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const bool ready = a.counts[READY] != 0;
    REAL *to = (REAL *)a.to;
    double mine = 0;

    FOR_EACH(i, a.count)
    {
        const double gradient = (double)to[i], v = ready ? real_at(a.x, i) : gradient;
        mine += v * gradient;
        to[i] = (REAL)v;
    }
    block_sum(sums, (int)threadIdx.x, mine);
    if (threadIdx.x == 0)
        a.found->part[blockIdx.x] = sums[0];
}

/* Adds up parts 0 .. count of <V, M>; with clips, makes nu of the sum instead:
 *   nu = min(1, sqrt(most / |sum rate^2|)). */
extern "C" __global__ void __launch_bounds__(THREADS) kfac_clip(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    struct kfac_found *f = a.found;

    if (!a.clips) {
        block_sum(sums, (int)threadIdx.x, threadIdx.x < a.count ? f->part[threadIdx.x] : 0.0);
        if (threadIdx.x == 0)
            f->sum += sums[0];
        return;
    }
    if (threadIdx.x > 0)
        return;
    const double sum = fabs(f->sum * a.rate * a.rate);
    f->nu = f->bad ? 0 : a.most > 0 && sum > a.most ? sqrt(a.most / sum) : 1;
    f->skipped += f->bad != 0;
    f->bad = 0;
    f->sum = 0;
}
