/*
 * median_key.cuh - distances as whole numbers: no distance is negative, so that their bits are in
 * order
 *
 * SPDX-License-Identifier: MIT
 */

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
