/*
 * median_key.cuh - distances as whole numbers (no distance is negative, so that their bits are in
 * order), and the median that the middle two of them give
 *
 * SPDX-License-Identifier: MIT
 */
#include "median_params.h"

#include "batch.cuh"

static __device__ unsigned long long key_of(float x) { return (unsigned)__float_as_int(x); }
static __device__ unsigned long long key_of(double x)
{
    return (unsigned long long)__double_as_longlong(x);
}

static __device__ void number_of(unsigned long long key, float *x)
{
    *x = __int_as_float((int)(unsigned)key);
}
static __device__ void number_of(unsigned long long key, double *x)
{
    *x = __longlong_as_double((long long)key);
}

/* The median of count distances, or NaN, to the item's place. */
static __device__ void put_median(const struct median_params &a, long long item,
                                  unsigned long long count, const unsigned long long middle[2])
{
    REAL below, above;

    number_of(middle[0], &below);
    number_of(middle[1], &above);
    above = above == below ? above : (REAL)((double)below / 2 + (double)above / 2);
    ((REAL *)a.out)[batch_offset(a.batch.shape, a.batch.ndim, a.batch_stride, item)] =
        count > 0 ? above : (REAL)__int_as_float(0x7fc00000);
}
