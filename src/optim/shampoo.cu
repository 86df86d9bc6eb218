/*
 * shampoo.cu - products of f32 by parts of f16, and roots that still fit their factors
 *
 * An operand x is scaled by a power of two and cut into a high and a low f16:
 *   x scale = high + low.
 * shampoo_cut: from, of which a.squares has the sums of squares, as high, high, low, of a matrix
 * as low, high, high; and what 1 in them stands for.
 *
 * A root X for the power -k / q fits its factor L (options.skip) if
 *   |X^(q/2) (L + ridge I)^k X^(q/2) - I| <= skip sqrt(n).
 * shampoo_largest: about the largest eigenvalue of a factor, from below, by power iteration.
 * shampoo_shift: shifted = factor + ridge I.
 * shampoo_fits: is the product near I?  In these a block of threads has an item, in shampoo_shift
 * a part of all.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.cuh"

#define RUN 4 /* elements that a thread writes at once, where a plane is divisible by it */

/* The high part of v in bits 0 to 15 of x, the low one in bits 16 to 31. */
static __device__ unsigned cut(double v)
{
    const float whole = (float)v;
    const unsigned high = ptx_half_of_float(whole);
    const unsigned low = ptx_half_of_float(whole - ptx_float_of_half((unsigned short)high));

    return low << 16 | high;
}

/* One element after the other. */
static __device__ void cut_each(const params &a, const REAL *x, unsigned short *const plane[3],
                                double scale)
{
    for (long long i = first_of(a); i < last_of(a); i += THREADS) {
        const unsigned parts = cut((double)x[i] * scale);
        plane[0][i] = plane[1][i] = (unsigned short)parts;
        plane[2][i] = (unsigned short)(parts >> 16);
    }
}

static __device__ void cut_runs(const params &a, const REAL *x, unsigned short *const plane[3],
                                double scale)
{
    const long long first = blockIdx.x % a.tiles * OPTIMIZER_TILE + threadIdx.x * RUN;

    for (long long i = first; i < last_of(a); i += RUN * THREADS) {
        unsigned long long high = 0, low = 0;
#pragma unroll
        for (int u = 0; u < RUN; u++) {
            const unsigned long long parts = cut((double)x[i + u] * scale);
            high |= (parts & 0xFFFF) << 16 * u;
            low |= (parts >> 16) << 16 * u;
        }
        *(unsigned long long *)(plane[0] + i) = high;
        *(unsigned long long *)(plane[1] + i) = high;
        *(unsigned long long *)(plane[2] + i) = low;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_cut(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const bool matrix = a.cut == OPTIMIZER_CUT_MATRIX;
    const REAL *x = (const REAL *)a.from + block_of(a) * a.array;
    unsigned short *to = (unsigned short *)a.to + block_of(a) * 3 * a.array;
    unsigned short *const plane[] = {/* high, high, low */
                                     to + a.count, to + (matrix ? 2 * a.count : 0),
                                     to + (matrix ? 0 : 2 * a.count)};
    const double norm = sqrt(tiles_sum(a, a.squares, sums));
    int exponent = 15;

    if (norm > 0)
        frexp(norm, &exponent); /* below 2^exponent */
    const double scale = ldexp(1., 15 - exponent), unit = ldexp(1., exponent - 15);
    if (a.count % RUN == 0 && a.array % RUN == 0)
        cut_runs(a, x, plane, scale);
    else
        cut_each(a, x, plane, scale);
    if (blockIdx.x % a.tiles != 0 || threadIdx.x != 0)
        return;
    double *units = a.units + 2 * block_of(a);
    if (matrix)
        units[1] = unit;
    else
        units[0] = a.cut == OPTIMIZER_CUT_AGAIN ? unit * units[0] * units[1] : unit;
}

/* ---- Roots that still fit ----------------------------------------------------------------- */

#define WARP    32
#define STEPS   32

typedef struct shampoo_fit fit;

/* The norm of x, to all threads. */
static __device__ double norm_of(const REAL *x, long long n, double *sums)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < n; i += THREADS)
        mine += (double)x[i] * (double)x[i];
    __syncthreads();
    block_sum(sums, (int)threadIdx.x, mine);
    __syncthreads();
    return sqrt(sums[0]);
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_largest(const __grid_constant__ fit f)
{
    __shared__ double sums[THREADS];
    const long long n = f.n, item = blockIdx.x;
    const REAL *a = (const REAL *)f.factor + item * n * n;
    REAL *x = (REAL *)f.vectors + 2 * item * n, *y = x + n;
    double norm;

    for (long long i = threadIdx.x; i < n; i += THREADS) /* numbers without a pattern */
        x[i] = (REAL)(((unsigned)i * 2654435761u >> 8) + 1) / (REAL)(1 << 24);
    __syncthreads();
    norm = norm_of(x, n, sums);
    for (int step = 0; step < STEPS && norm > 0 && norm - norm == 0; step++) {
        REAL *other = x;
        for (long long i = threadIdx.x / WARP; i < n; i += THREADS / WARP) {
            REAL sum = 0;
            for (long long j = threadIdx.x % WARP; j < n; j += WARP)
                sum += a[i * n + j] * x[j];
            for (int lane = WARP / 2; lane > 0; lane /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, lane);
            if (threadIdx.x % WARP == 0)
                y[i] = sum / (REAL)norm;
        }
        __syncthreads();
        norm = norm_of(y, n, sums);
        x = y;
        y = other;
    }
    if (threadIdx.x == 0)
        f.largest[item] = norm;
}

/* As gram_optimizer_ridge. */
static __device__ double ridge_of(const fit &f, double largest)
{
    const double ridge = fmax(f.relative ? f.epsilon * largest : f.epsilon, f.least * largest);

    return ridge > 0 ? ridge : 1;
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_shift(const __grid_constant__ fit f)
{
    const long long square = f.n * f.n, step = (long long)gridDim.x * THREADS;
    const REAL *from = (const REAL *)f.factor;
    REAL *to = (REAL *)f.matrix;

    for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < f.items * square;
         i += step) {
        REAL v = from[i];
        if (i % square % (f.n + 1) == 0)
            v += (REAL)ridge_of(f, f.largest[i / square]);
        to[i] = v;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) shampoo_fits(const __grid_constant__ fit f)
{
    __shared__ double sums[THREADS];
    const long long square = f.n * f.n, item = blockIdx.x;
    const REAL *a = (const REAL *)f.matrix + item * square;
    double mine = 0;

    for (long long i = threadIdx.x; i < square; i += THREADS) {
        const double v = (double)(a[i] - (i % (f.n + 1) == 0 ? (REAL)1 : (REAL)0));
        mine += v * v;
    }
    block_sum(sums, (int)threadIdx.x, mine);
    if (threadIdx.x == 0)
        f.kept[item] = sqrt(sums[0]) <= f.skip * sqrt((double)f.n);
}
