/*
 * kron_mma.cuh - products of 16 by 8 by 8 of f32 or f64 by tensor cores; fragments as in ptx.cuh
 *
 * f32: a number is the sum of two with 11 bits each, and three of the four products are added: what
 * is left out is 2^-24 of a product.  The low part of an infinite number is NaN, and so is the
 * result.
 *
 * Part of files whose parameters it uses:
 *   REAL      float or double
 *   DOUBLES   1: REAL is double
 *
 * SPDX-License-Identifier: MIT
 */
#include "ptx.cuh"

#if DOUBLES

typedef double fragment;

template <int COUNT> static __device__ void split(fragment (&)[2][COUNT])
{
}

/* c[j] += a b[j]; the k of the fragments in the order of the f32 ones. */
template <int A_PARTS, int B_PARTS, int TILES>
static __device__ void multiply(double (&c)[TILES][4], const fragment (&a)[2][4],
                                const fragment (&b)[TILES][2][2])
{
#  pragma unroll
    for (int j = 0; j < TILES; j++) {
#  if __CUDA_ARCH__ == 900 /* twice as fast as the others */
        ptx_mma_f64_wide(c[j], a[0], b[j][0]);
#  else
        ptx_mma_f64(c[j], a[0][0], b[j][0][0]);
        ptx_mma_f64(c[j] + 2, a[0][1], b[j][0][0]);
        ptx_mma_f64(c[j], a[0][2], b[j][0][1]);
        ptx_mma_f64(c[j] + 2, a[0][3], b[j][0][1]);
#  endif
    }
}

static __device__ fragment fragment_of(REAL v)
{
    return v;
}

#else

typedef unsigned fragment;

/* The nearest number with 11 bits, and what is left; the last 13 bits of a fragment do not count.
 */
template <int COUNT> static __device__ void split(fragment (&v)[2][COUNT])
{
#  pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const unsigned high = (v[0][i] + 0x1000) & 0xffffe000u;
        v[1][i] = __float_as_uint(__uint_as_float(v[0][i]) - __uint_as_float(high));
        v[0][i] = high;
    }
}

/* c[j] += a b[j].  Tensor cores cut sums off where additions round: they add the products of eight
 * k alone.  Products that wait for each other are apart. */
template <int A_PARTS, int B_PARTS, int TILES>
static __device__ void multiply(float (&c)[TILES][4], const fragment (&a)[2][4],
                                const fragment (&b)[TILES][2][2])
{
    float sum[TILES][4] = {};

#  pragma unroll
    for (int j = 0; A_PARTS == 2 && j < TILES; j++)
        ptx_mma_tf32(sum[j], a[1], b[j][0]);
#  pragma unroll
    for (int j = 0; B_PARTS == 2 && j < TILES; j++)
        ptx_mma_tf32(sum[j], a[0], b[j][1]);
#  pragma unroll
    for (int j = 0; j < TILES; j++)
        ptx_mma_tf32(sum[j], a[0], b[j][0]);
#  pragma unroll
    for (int i = 0; i < TILES * 4; i++)
        c[i / 4][i % 4] += sum[i / 4][i % 4];
}

static __device__ fragment fragment_of(REAL v)
{
    return __float_as_uint(v);
}

#endif
