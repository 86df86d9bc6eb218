/*
 * grad_step.cuh - the term of a gradient: sgn(t) |t|^(p-1)
 *
 * Part of cdist_grad.cu, whose parameters it uses.  quick_term() takes it that the coordinates are
 * finite, and 0 or at least 2^-100 in size: no difference is denormal then, and a sum that is not
 * finite tells of everything else that needs care.  careful_term() takes anything.
 *
 * SPDX-License-Identifier: MIT
 */

#include "real_power.cuh"

static __device__ float signed_as(float size, float sign)
{
    return copysignf(size, sign);
}
static __device__ double signed_as(double size, double sign)
{
    return copysign(size, sign);
}
static __device__ float quick_root(float x)
{
    return ptx_sqrt_of_normal(x);
}
static __device__ double quick_root(double x)
{
    return sqrt(x);
}
static __device__ float power(float x, double e)
{
    return powf(x, (float)e);
}
static __device__ double power(double x, double e)
{
    return pow(x, e);
}

/* 1 for t > 0, 0 for t < 0 and 1/2 for 0, so that 2 s - 1 is the sign, that of a tie too. */
static __device__ float above(float t)
{
    return __saturatef(fmaf(t, 0x1p127f, 0.5f));
}
static __device__ double above(double t)
{
    return t > 0 ? 1 : t < 0 ? 0 : 0.5;
}

/* 2^(log fraction) by a polynomial of degree 4 (the minimax one on [-1/2, 1/2]), within 2.6e-6: the
 * special functions are the narrower way, so that most elements take only one of their two there.
 */
static __device__ float exp2_by_polynomial(float log, float fraction)
{
    const float magic = 12582912; /* 3 2^22: its last bit is worth 1 */
    const float rounded = fmaf(log, fraction, magic), n = rounded - magic;
    const float r = fmaf(log, fraction, -n);
    float y = fmaf(0.0095701019f, r, 0.0559178603f);

    y = fmaf(y, r, 0.2402474483f);
    y = fmaf(y, r, 0.6931218147f);
    y = fmaf(y, r, 0.9999992614f);
    return __int_as_float(__float_as_int(y) + (int)((unsigned)__float_as_int(rounded) << 23));
}

/* |t|^fraction; 0 counts as 2^-126. */
template <bool POLYNOMIAL> static __device__ REAL quick_power(REAL size, REAL fraction)
{
    const float log = ptx_log2(fmaxf((float)size, 0x1p-126f));

    return POLYNOMIAL ? exp2_by_polynomial(log, (float)fraction) : ptx_exp2(log * (float)fraction);
}

template <bool POLYNOMIAL> static __device__ REAL quick_term(REAL t, REAL fraction)
{
    const REAL size = magnitude(t);

    switch (STEP) {
    case GRAD_SIGN:
        return 2 * above(t) - 1;
    case GRAD_ROOT:
        return signed_as(quick_root(size), t);
    case GRAD_WHOLE:
        return t * product<WHOLE>(size);
    default:
        return t == 0 ? 0 : signed_as(quick_power<POLYNOMIAL>(size, fraction), t);
    }
}

static __device__ REAL careful_term(REAL t, double exponent)
{
    const REAL size = magnitude(t);

    if (!(size > 0))
        return t; /* 0 or NaN */
    if (STEP == GRAD_SIGN || exponent == 0)
        return signed_as((REAL)1, t);
    if (exponent == 1)
        return t;
    if (STEP == GRAD_ROOT)
        return signed_as((REAL)sqrt(size), t);
    if (STEP == GRAD_WHOLE)
        return t * product<WHOLE>(size);
    return signed_as(power(size, exponent), t);
}

/* True if quick_term does not do for x. */
static __device__ bool needs_care(float x)
{
    const unsigned bits = (unsigned)__float_as_int(x) << 1;

    /* 27: the exponent of 2^-100; without a branch */
    return (int)(bits >= 0xff000000u) | (int)(bits - 1 < (27u << 24) - 1);
}

static __device__ bool needs_care(double x)
{
    return !(fabs(x) <= 0x1.fffffffffffffp1023);
}
