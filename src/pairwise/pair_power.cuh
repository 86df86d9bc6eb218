/*
 * pair_power.cuh - |d|^p added to a sum, p > 1 and not whole
 *
 * |d|^g, 1 < g < 2, is inv^-g P^g, where inv is about 1 / |d|: the exponent of d and its first
 * three bits after the point, all turned over, and no further bits.  So P = |d| inv lies in
 * [3.75, 4.5], where a polynomial gives P^g, and inv^-g comes from a table in shared memory.
 * Neighbours there lie in different banks, and numbers of like size are neighbours.
 * cuda_cdist_power.c has the numbers.
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
 *
 * Part of cdist.cu, whose parameters it uses.
 *
 * SPDX-License-Identifier: MIT
 */

/* value 2^-(g n) */
static __device__ double scaled(const struct pair_power *power, double value, int n)
{
    const double *factor = n < 0 ? power->grow : power->shrink;

    for (int bit = 0, left = n < 0 ? -n : n; left; bit++, left >>= 1)
        value *= left & 1 ? factor[bit] : 1;
    return value;
}

#if IS_DOUBLE
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

#pragma unroll
    for (int i = PAIR_POWER_TERMS - 2; i >= 0; i--)
        q = fma(q, r, power->f64[i]);
    return fma(product<WHOLE - 1>(a) * scale, q, acc);
}
#else
static __shared__ float powers[256 * 8]; /* of 2, times (1 + m / 8)^-g */

static __device__ void fill_powers(const struct pair_power *power)
{
    const int e = (int)threadIdx.x; /* of inv: 2^(e - 127) */
    const double value = scaled(power, power->f32_most, e - 127);

    for (int m = 0; m < 8; m++)
        powers[8 * e + m] = e == 0     ? __int_as_float(0x7fc00000)
                            : e == 255 ? 0
                                       : (float)(value * power->mantissa[m]);
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
#endif

#if MIX
/* Three of every eight neighbours. */
#  define MIXED(diagonal, k) (((diagonal) % 4 * 2 + (k) % 2) * 3 % 8 >= 5)

/* exponent: f, or f / 2 where it goes with d^2 */
static __device__ float special_power(float acc, float d, float exponent)
{
    const float a = fabsf(d);
#if MIX == 1
    return acc + product<WHOLE>(a) * ptx_exp2(exponent * ptx_log2(a));
#else
    const float t = fmaf(d, d, 0x1p-126f), e = ptx_exp2(exponent * ptx_log2(t));
    /* in this order nothing underflows but the term */
    return WHOLE == 1 ? fmaf(t, e, acc) : fmaf(product<WHOLE>(a) * e, a, acc);
#endif
}
#endif

/* No number, infinite perhaps too early; or made of differences outside of 2^-48 .. 2^48. */
static __device__ bool is_doubtful(REAL sum, long long depth, double p)
{
    if (!(sum <= LARGEST))
        return true;
#if MIX
    return sum != 0 && (sum < (float)depth * 8 * exp2f((float)p * -48) ||
                        sum > exp2f((float)p * 48));
#endif
    return false;
}
