/*
 * shampoo_cut.cu - operands of products in parts of f16
 *
 * shampoo_cut: from, of which a.squares has the sums of squares, times a power of two as high and
 * low f16: high, high, low, of a matrix low, high, high; and what 1 in them stands for.
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
