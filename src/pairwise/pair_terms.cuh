/*
 * pair_terms.cuh - what a pair's result is made of: the term of one coordinate, and the function of
 * the finished sum
 *
 * Part of cdist.cu, cdist_mma.cu, cdist_reduce.cu, kernel_matmul.cu and kernel_matmul_tensor.cu,
 * whose parameters it uses.
 * NORMS: 1 where an expression has |x| or |y|, which mapped() then gets; SUMS: the same of the sums
 * of |x_k - y_k| and (x_k - y_k)^2 beside s.
 * INVERSE_ROOT: 1 where the slope of a power is that of a square root, s^(-1/2).
 * QUICK: 1 where e^-t of f32 is left to the special-function unit; its error is then (t + 3) eps.
 *
 * SPDX-License-Identifier: MIT
 */
#include "real_power.cuh"

#ifndef NORMS
#  define NORMS 0
#endif
#ifndef INVERSE_ROOT
#  define INVERSE_ROOT 0
#endif
#ifndef SUMS
#  define SUMS 0
#endif

/* ---- Arithmetic ----------------------------------------------------------------------------- */

static __device__ double root(double x) { return sqrt(x); }

/* Denormal numbers have roots too. */
static __device__ float root(float x) { return ptx_sqrt(x); }

static __device__ double root_of_normal(double x) { return sqrt(x); }
static __device__ float root_of_normal(float x) { return ptx_sqrt_of_normal(x); }

static __device__ double reciprocal(double x) { return 1 / x; }
static __device__ float reciprocal(float x) { return ptx_reciprocal(x); }

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
/* ---- |d|^p added to a sum, p > 1 and not whole ---------------------------------------------- */

/*
 * |d|^g, 1 < g < 2, is inv^-g P^g, where inv is about 1 / |d|: the exponent of d and its first
 * three bits after the point, all turned over, and no further bits.  So P = |d| inv lies in
 * [3.75, 4.5], where a polynomial gives P^g, and inv^-g comes from a table in shared memory.
 * Neighbours there lie in different banks, and numbers of like size are neighbours.
 * cuda_cdist_grad.c has the numbers.
 *
 * In f32 the polynomial is of degree 3 and under 1: within 1.9 eps of P^g, and a term within 4 eps
 * (test_cuda_power), whatever the size of d.  |d| under 2^-126 counts as 0; P is no number then,
 * which saturation turns into 0.  In f64 the degree is 9.  Infinity and NaN give NaN; a sum
 * overflows up to a factor of 1.44 too early.
 *
 * With MIX 3 of 8 steps of f32 are |d|^n 2^(f log2 |d|), n a whole number near p and f = p - n, by
 * special functions, whose units would have nothing to do: so 7.8 instructions a step instead of
 * 9.3, and 252 ms instead of 294 for 30000 x 30000 x 1024 on an H200 (256 with 4 of 8, 263 with 2).
 * The steps are chosen alike for (i, j) and (j, i).  With L = |log2 |d||, the error is
 * |f| L / 3 eps of the logarithm, |f| L / 3.6 eps at most of the product's rounding, and 3 eps of
 * the rest.  For |f| <= 0.34 that is under 8 eps for L < 20 and under 14 eps for L < 48; sums that
 * could have come of others are doubtful.
 * MIX is 1 where n = WHOLE < p.  It is 2 where n = WHOLE + 1 > p: there t = d^2 + 2^-126 takes the
 * place of d^2, so that the logarithm of 0 is a number; what that adds to a sum which is not
 * doubtful is less than 2^-27 of it.
 */
/* value 2^-(g n) */
static __device__ double scaled(const struct pair_power *power, double value, int n)
{
    const double *factor = n < 0 ? power->grow : power->shrink;

    for (int bit = 0, left = n < 0 ? -n : n; left; bit++, left >>= 1)
        value *= left & 1 ? factor[bit] : 1;
    return value;
}

#  if IS_DOUBLE
static __shared__ double powers[2048 + 8]; /* of 2; of 1 + m / 8 */

static __device__ void fill_powers(const struct pair_power *power)
{
    for (int e = (int)threadIdx.x; e < 2048; e += THREADS) /* e of inv: 2^(e - 1023) */
        powers[e] = e == 0      ? __longlong_as_double(0x7ff8000000000000)
                    : e == 2047 ? 0
                                : scaled(power, 1, e - 1023);
    if (threadIdx.x < 8)
        powers[2048 + threadIdx.x] = power->mantissa[threadIdx.x];
}

static __device__ double add_power(double acc, double d, const struct pair_power *power)
{
    const double a = __longlong_as_double(__double_as_longlong(d) & 0x7fffffffffffffff);
    const int high = (int)(__double_as_longlong(a) >> 32);
    const int inv = ~(high < 0x100000 ? 0x100000 : high) & 0x7ffe0000;
    const double scale = powers[high < 0x100000 ? 2047 : inv >> 20] *
                         powers[2048 + (inv >> 17 & 7)];
    const double r = fma(a, __longlong_as_double((long long)inv << 32), -PAIR_POWER_MIDDLE);
    double q = power->f64[PAIR_POWER_TERMS - 1];

#  pragma unroll
    for (int i = PAIR_POWER_TERMS - 2; i >= 0; i--)
        q = fma(q, r, power->f64[i]);
    return fma(product<WHOLE - 1>(a) * scale, q, acc);
}
#  else
static __shared__ float powers[256 * 8]; /* of 2, times (1 + m / 8)^-g */

static __device__ void fill_powers(const struct pair_power *power)
{
    for (int e = (int)threadIdx.x; e < 256; e += THREADS) { /* of inv: 2^(e - 127) */
        const double value = scaled(power, power->f32_most, e - 127);
        for (int m = 0; m < 8; m++)
            powers[8 * e + m] = e == 0     ? __int_as_float(0x7fc00000)
                                : e == 255 ? 0
                                           : (float)(value * power->mantissa[m]);
    }
}

static __device__ float add_power(float acc, float d, const struct pair_power *power)
{
    const unsigned inv = ~__float_as_uint(d) & 0x7ff00000;
    const float scale = *(const float *)((const char *)powers + (inv >> 18));
    const float p = fabsf(d) * __uint_as_float(inv);
    const float q = fmaf(fmaf(power->f32[3], p, power->f32[2]), p, power->f32[1]);

    return fmaf(product<WHOLE - 1>(fabsf(d)) * scale,
                ptx_fma_saturated(q, p, power->f32[0]), acc);
}
#  endif

#  if MIX
/* Three of every eight neighbours. */
#    define MIXED(diagonal, k) (((diagonal) % 4 * 2 + (k) % 2) * 3 % 8 >= 5)

/* exponent: f, or f / 2 where it goes with d^2 */
static __device__ float special_power(float acc, float d, float exponent)
{
    const float a = fabsf(d);
#  if MIX == 1
    return acc + product<WHOLE>(a) * ptx_exp2(exponent * ptx_log2(a));
#  else
    const float t = fmaf(d, d, 0x1p-126f), e = ptx_exp2(exponent * ptx_log2(t));
    /* in this order nothing underflows but the term */
    return WHOLE == 1 ? fmaf(t, e, acc) : fmaf(product<WHOLE>(a) * e, a, acc);
#  endif
}
#  endif

/* No number, infinite perhaps too early; or made of differences outside of 2^-48 .. 2^48. */
static __device__ bool is_doubtful(REAL sum, long long depth, double p)
{
    if (!(sum <= LARGEST))
        return true;
#  if MIX
    return sum != 0 && (sum < (float)depth * 8 * exp2f((float)p * -48) ||
                        sum > exp2f((float)p * 48));
#  endif
    return false;
}
#endif
#if !MIX
#  define MIXED(diagonal, k) false
static __device__ REAL special_power(REAL acc, REAL, REAL)
{
    return acc;
}
#endif

/* ---- The term of one coordinate ------------------------------------------------------------- */

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

/* ---- What becomes of a finished sum: value, weight or derivative ---------------------------- */

static __device__ REAL raised(const struct pair_raise *r, int kind, REAL x)
{
    switch (kind == PAIR_RUN_TIME ? (int)r->kind : kind) {
    case PAIR_SAME:
        return x;
    case PAIR_UNIT:
        return 1;
    case PAIR_SQRT:
        return root(x);
    default:
        return power(x, r->e);
    }
}

/* log2 e times the scale of e^-(scale t), which is a number of REAL. */
static __device__ REAL binary_rate(const struct pair_map *map)
{
    const double steep = map->scale * 1.4426950408889634;

    return (REAL)(steep < (double)LARGEST ? steep : (double)LARGEST);
}

/* e^-t */
static __device__ REAL decay(REAL t)
{
#if QUICK
    return ptx_exp2(t * -1.44269504f);
#else
    return exp(-t);
#endif
}

/* (c[0] + c[1] t + c[2] t^2 + c[3] t^3) e^-t */
static __device__ REAL damped(const struct pair_map *map, REAL t)
{
    t = t > 2000 ? (REAL)2000 : t < -2000 ? (REAL)-2000 : t; /* e^-2000 = 0 */
    REAL sum = map->c[0];
    if (FUNCTION == PAIR_MATERN32 || FUNCTION == PAIR_MATERN52 || OUTPUT != PAIR_VALUE)
        sum = (((REAL)map->c[3] * t + (REAL)map->c[2]) * t + (REAL)map->c[1]) * t + sum;
    return sum * decay(t);
}

/* (c[0] + c[1] t) (1 + t)^e */
static __device__ REAL rational(const struct pair_map *map, REAL t)
{
    REAL base;

    t = t > LARGEST / 4 ? LARGEST / 4 : t;
    if (t > (REAL)-0.5)
        base = exp((REAL)map->raise.e * log1p(t));
    else
        base = power(1 + t, map->raise.e);
    return ((REAL)map->c[0] + (REAL)map->c[1] * t) * base;
}

/* Written by cuda_expression.c: expression_constants() and expression_of(). */
#if FUNCTION == PAIR_EXPRESSION
#  include "pair_expression.cuh"
#endif

/* What an expression may have beside s. */
struct beside {
    REAL x, y, sum, squares;
};

static __device__ REAL form(const struct pair_map *map, REAL t, const struct beside &b)
{
    const REAL factor = (REAL)map->factor;

    if (FUNCTION == PAIR_IDENTITY || FUNCTION == PAIR_COSINE)
        return OUTPUT == PAIR_VALUE ? t : t != t ? t : factor;
#if FUNCTION == PAIR_EXPRESSION
#  if NORMS && SUMS
    const REAL value = expression_of(map->constant, t, b.x, b.y, b.sum, b.squares);
#  elif NORMS
    const REAL value = expression_of(map->constant, t, b.x, b.y);
#  elif SUMS
    const REAL value = expression_of(map->constant, t, b.sum, b.squares);
#  else
    const REAL value = expression_of(map->constant, t);
#  endif
    return OUTPUT == PAIR_VALUE ? value : factor * value;
#endif
    if (FUNCTION <= PAIR_MATERN52)
        return damped(map, t);
    if (FUNCTION == PAIR_RATIONAL_QUADRATIC)
        return rational(map, t);
    if (OUTPUT == PAIR_BANDWIDTH_DERIVATIVE || factor == 0)
        return t != t ? t : (REAL)0;
    if (FUNCTION == PAIR_POLYNOMIAL)
        return factor * raised(&map->raise, PAIR_RUN_TIME, t);
    if (OUTPUT == PAIR_VALUE)
        return tanh(t);
    const REAL c = cosh(t);
    return factor / c / c;
}

/* The factor s^(o-1) of a weight: 0 where points coincide. */
static __device__ REAL slope_of(const struct pair_map *map, REAL s)
{
    const REAL slope = INVERSE_ROOT ? reciprocal(root(s)) : raised(&map->slope, SLOPE, s);

    return s > 0 ? (slope > LARGEST ? LARGEST : slope) : 0 * s;
}

static __device__ REAL mapped(const struct pair_map *map, REAL s, const struct beside &b = {})
{
    REAL slope = 1, t;

    if (FUNCTION == PAIR_IDENTITY && OUTPUT == PAIR_VALUE)
        return raised(&map->base, BASE, s);
    if (OUTPUT == PAIR_WEIGHT && map->sloped) {
        slope = slope_of(map, s);
        if (FUNCTION == PAIR_EXPRESSION && slope == 0)
            return 0; /* whose own slope need not be finite */
    }
    t = (REAL)map->scale * raised(&map->base, BASE, s) + (REAL)map->shift;
    return slope * form(map, t, b);
}
