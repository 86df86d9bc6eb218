/*
 * real_power.cuh - sizes of numbers and whole powers
 *
 * Part of files whose parameter REAL it uses.
 *
 * SPDX-License-Identifier: MIT
 */

static __device__ float magnitude(float x)
{
    return fabsf(x);
}
static __device__ double magnitude(double x)
{
    return fabs(x);
}

/* x^N, N >= 0 */
template <int N> static __device__ REAL product(REAL x)
{
    if (N == 0)
        return 1;
    if (N == 1)
        return x;
    REAL y = product<N / 2>(x);
    return N % 2 ? y * y * x : y * y;
}

/* 2^e for -126 <= e <= 127 */
static __device__ float power_of_two(int e)
{
    return __int_as_float((e + 127) << 23);
}
