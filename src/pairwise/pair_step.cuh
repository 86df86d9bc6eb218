/*
 * pair_step.cuh - what one coordinate adds to a sum, and the arithmetic for it
 *
 * Part of cdist.cu, whose parameters it uses.
 *
 * SPDX-License-Identifier: MIT
 */

#include "real_power.cuh"

static __device__ double root(double x) { return sqrt(x); }

/* Denormal numbers have roots too. */
static __device__ float root(float x) { return ptx_sqrt(x); }

static __device__ double root_of_normal(double x) { return sqrt(x); }
static __device__ float root_of_normal(float x) { return ptx_sqrt_of_normal(x); }

static __device__ double largest(double a, double b) { return b > a || b != b ? b : a; }

static __device__ float largest(float a, float b) { return ptx_largest(a, b); }

/* x^e, with all digits of e: a float's exponent is off by up to 2^-24 of itself. */
static __device__ double power(double x, double e) { return pow(x, e); }

static __device__ float power(float x, double e)
{
    float head = (float)e, tail = (float)(e - (double)head), y = powf(x, head);

    if (tail != 0 && x > 0 && x <= 0x1.fffffep127f && y > 0 && y <= 0x1.fffffep127f)
        y = fmaf(y, tail * 0.693147181f * ptx_log2(x < 0x1p-126f ? 0x1p-126f : x), y);
    return y;
}

/* |d|^fraction in f32, 0 < fraction < 1, for denormal d too: d = m 2^e, and e fraction is split
 * into an integer n and a rest, exactly.  fraction + tail has all digits. */
static __device__ float fractional(float d, float fraction, float tail)
{
    const float magic = 12582912; /* 3 2^22: its last bit is worth 1 */
    const bool small = d < 0x1p-126f;
    const int bits = __float_as_int(small ? d * 0x1p24f : d);
    const float m = __int_as_float((bits & 0x7fffff) | 0x3f800000);
    const float e = __int_as_float(0x4b400000 + (bits >> 23) - (small ? 151 : 127)) - magic;
    const float head = __int_as_float(__float_as_int(fraction) & 0xffff8000); /* 9 bits */
    const float product = e * head, rounded = product + magic;
    const int n = __float_as_int(rounded) - 0x4b400000, half = n >> 1;
    const float rest = fmaf(e, tail, fmaf(e, fraction - head, product - (rounded - magic)));
    const float y = ptx_exp2(fmaf(ptx_log2(m), fraction, rest));
    const float scaled = y * __int_as_float((half + 127) << 23) *
                         __int_as_float((n - half + 127) << 23);

    return d > 0 && d <= 0x1.fffffep127f ? scaled : d; /* 0, infinity and NaN stay */
}

#if TABLED
#  include "pair_power.cuh"
#endif
#if !MIX
#  define MIXED(diagonal, k) false
static __device__ REAL special_power(REAL acc, REAL, REAL)
{
    return acc;
}
#endif

/* 1 where x and y differ; NaN differs from all and stays NaN. */
static __device__ REAL differs(REAL x, REAL y)
{
    REAL sum = x + y;

    return x == y ? 0 : x != x || y != y ? sum : 1;
}

static __device__ REAL any_power(REAL acc, REAL x, REAL y, double p)
{
    REAL d = magnitude(x - y);

    if (p == 1)
        return acc + d;
    if (p == 2)
        return acc + d * d;
    if (p == 0)
        return acc + differs(x, y);
    if (p > 0x1.fffffffffffffp1023)
        return largest(acc, d);
    return acc + power(d, p);
}

static __device__ REAL step(REAL acc, REAL x, REAL y, const struct pair_map *map, REAL fraction,
                            const struct pair_power *power = 0)
{
    const REAL d = x - y, a = magnitude(d);

    switch (STEP) {
    case PAIR_ZERO:
        return acc + differs(x, y);
    case PAIR_HALF:
        return acc + root(a);
    case PAIR_ONE:
        return acc + a;
    case PAIR_THREE_HALVES:
        return acc + a * root_of_normal(a);
    case PAIR_TWO:
        return acc + d * d;
    case PAIR_INFINITY:
        return largest(acc, a);
    case PAIR_DOT:
        return acc + x * y;
    case PAIR_POWER:
        if (!FRACTION)
            return acc + product<WHOLE>(a);
#if TABLED
        return add_power(acc, d, power);
#else
        return acc + (REAL)fractional((float)a, (float)fraction,
                                      (float)(map->fraction - (double)fraction));
#endif
    default:
        return any_power(acc, x, y, map->p);
    }
}
