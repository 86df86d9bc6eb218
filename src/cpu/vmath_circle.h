/*
 * vmath_circle.h - sin, cos, and x^y for vectors of x and of y; f32 computes in f64
 *
 * sin and cos: x = n pi/2 + g, |g| <= pi/4, with pi/2 in three parts, the first two of which have
 * 33 digits, so that their products with |n| < 2^20 are exact; then Taylor's series, the last terms
 * of which are below 2^-54.  Larger x go to the C library, one by one.
 *
 * SPDX-License-Identifier: MIT
 */

/* sin(x + quadrant pi / 2), within 2 eps; quadrant 0 or 1 */
static inline vf64 circle_f64(vf64 x, int quadrant)
{
    static const double s[] = {-0x1.5555555555555p-3,  0x1.1111111111111p-7,
                               -0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,
                               -0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33,
                               -0x1.ae7f3e733b81fp-41};
    static const double c[] = {-0x1p-1,
                               0x1.5555555555555p-5,
                               -0x1.6c16c16c16c17p-10,
                               0x1.a01a01a01a01ap-16,
                               -0x1.27e4fb7789f5cp-22,
                               0x1.1eed8eff8d898p-29,
                               -0x1.93974a8c07c9dp-37,
                               0x1.ae7f3e733b81fp-45};
    const double shifter = 0x1.8p52, most = 0x1p20;
    const vf64 near = clamp_f64(x, -most, most);
    const vf64 shifted = near * 0x1.45f306dc9c883p-1 + shifter, n = shifted - shifter;
    vf64 g = near - n * 0x1.921fb544p+0, r;

    g = g - n * 0x1.0b4611a6p-34;
    g = g - n * 0x1.3198a2e037073p-69;
    const vf64 z = g * g, sine = g + g * z * series_f64(z, 7, s),
               cosine = 1 + z * series_f64(z, 8, c);
    const vi64 turn = (vi64)shifted + quadrant, odd = -(turn & 1);
    r = (vf64)(((odd & (vi64)cosine) | (~odd & (vi64)sine)) ^ ((turn & 2) << 62));
    for (int i = 0; i < VBYTES / 8; i++)
        if (!(fabs(x[i]) < most))
            r[i] = quadrant ? cos(x[i]) : sin(x[i]);
    return r;
}

/* |x|^y for finite |x| > 0 becomes C's pow. */
static inline vf64 pow_special_f64(vf64 x, vf64 y, vf64 r)
{
    const vf64 zero = {0}, infinity = zero + (double)INFINITY, a = v_abs(x);
    /* above 2^51 every number counts as even */
    const vf64 whole = round_f64(clamp_f64(y, -0x1p50, 0x1p50));
    const vf64 half = round_f64(clamp_f64(y * 0.5, -0x1p50, 0x1p50));
    const vi64 large = v_abs(y) >= 0x1p50, integer = large | (whole == y);
    const vi64 odd = integer & ~large & (half + half != y), negative = x < 0;
    const vf64 at_zero = if_less_f64(y, zero, infinity, zero), at_infinity = 1 / at_zero;
    const vi64 none = negative & ~integer & (a < infinity);

    r = if_less_f64(zero, a, r, at_zero);
    r = if_less_f64(a, infinity, r, at_infinity);
    r = (vf64)((vi64)r ^ (negative & odd & INT64_MIN));
    r = (vf64)((vi64)r | none);
    /* NaN of x and y, neither compares */
    r = (vf64)((vi64)r | ~((a <= infinity) & (v_abs(y) <= infinity)));
    const vi64 one = y == 0;
    return (vf64)((one & (vi64)(zero + 1)) | (~one & (vi64)r));
}

static inline vf64 pow_f64(vf64 x, vf64 y)
{
    return pow_special_f64(x, y, wide_power_of_f64(clamp_f64(y, -0x1p70, 0x1p70), v_abs(x)));
}

static inline vf64 pow_for_f32(vf64 x, vf64 y)
{
    vf64 e, m = normalise_f64(v_abs(x), &e), q = clamp_f64(y, -0x1p70, 0x1p70);
    vf64 log = clamp_f64(q * e + q * log2_mantissa_f64(m), -2044, 2046), n = round_f64(log);

    return pow_special_f64(x, y, exp2_of_f64(n, log - n));
}

/* The two halves of a vector of f32, and back. */
static inline void widen(vf32 x, vf64 *halves)
{
    vf32_half part[2];

    __builtin_memcpy(part, &x, sizeof part);
    halves[0] = __builtin_convertvector(part[0], vf64);
    halves[1] = __builtin_convertvector(part[1], vf64);
}

static inline vf32 narrow(const vf64 *halves)
{
    const vf32_half part[2] = {__builtin_convertvector(halves[0], vf32_half),
                               __builtin_convertvector(halves[1], vf32_half)};
    vf32 x;

    __builtin_memcpy(&x, part, sizeof x);
    return x;
}

static inline vf32 circle_f32(vf32 x, int quadrant)
{
    vf64 half[2];

    widen(x, half);
    half[0] = circle_f64(half[0], quadrant);
    half[1] = circle_f64(half[1], quadrant);
    return narrow(half);
}

static inline vf32 pow_f32(vf32 x, vf32 y)
{
    vf64 base[2], exponent[2];

    widen(x, base);
    widen(y, exponent);
    base[0] = pow_for_f32(base[0], exponent[0]);
    base[1] = pow_for_f32(base[1], exponent[1]);
    return narrow(base);
}
