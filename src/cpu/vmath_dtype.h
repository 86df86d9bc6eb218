/*
 * vmath_dtype.h - template: 2^x, logarithm and e^x - 1 of vectors, from what the instruction set
 * has
 *
 * From the caller: DTYPE, real, ureal, vec, ivec, uvec (see vmath.h).
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES  ((int)(VBYTES / sizeof(real)))
#define SINGLE (sizeof(real) == 4)

/* Of the format: digits after the point, the exponent's bias, and a number so large that adding it
 * rounds to integers and puts them into the last bits. */
#define DIGITS         (SINGLE ? 23 : 52)
#define BIAS           (SINGLE ? 127 : 1023)
#define SHIFTER        ((real)(INT64_C(3) << (DIGITS - 1)))
#define TWO_TO_DIGITS  ((real)(INT64_C(1) << DIGITS))
#define LEAST_NORMAL   ((real)(SINGLE ? 0x1p-126 : 0x1p-1022))
#define LEAST_DENORMAL ((real)(SINGLE ? 0x1p-149 : 0x1p-1074))
#define LARGEST        ((real)(SINGLE ? 0x1.fffffep127 : 0x1.fffffffffffffp1023))
#define SIGN_BIT       ((ureal)1 << (SINGLE ? 31 : 63))
#define SQRT_HALF_BITS ((ureal)(SINGLE ? 0x3f3504f3 : 0x3fe6a09e667f3bcd))
#define LN_2           ((real)0x1.62e42fefa39efp-1)

#define SERIES(x, c) CAT(series, DTYPE)(x, sizeof(c) / sizeof *(c), c)

/* c[0] + c[1] x + ... */
static inline vec CAT(series, DTYPE)(vec x, int n, const real *c)
{
    vec y = (vec){0} + c[n - 1];

    UNROLL_FOR (k, n - 1)
        y = y * x + c[n - 2 - k];
    return y;
}

/* The integer nearest to x, |x| < 2^(DIGITS - 1) */
static inline vec CAT(round, DTYPE)(vec x)
{
    return (x + SHIFTER) - SHIFTER;
}

#if VBYTES != 64
#  include "vmath_base.h"
#endif

/* x no less than least, no more than most; NaN stays. */
static inline vec CAT(clamp, DTYPE)(vec x, real least, real most)
{
    x = CAT(if_less, DTYPE)(x, (vec){0} + least, (vec){0} + least, x);
    return CAT(if_less, DTYPE)((vec){0} + most, x, (vec){0} + most, x);
}

/* e^g - 1 for |g| <= 0.3467, with a small relative error */
static inline vec CAT(expm1_small, DTYPE)(vec g)
{
    return g + g * g * SERIES(g, CAT(expm1_series, DTYPE));
}

/* 2^(n + g) for integers n that scale() takes and |g| <= 1/2 */
static inline vec CAT(exp2_of, DTYPE)(vec n, vec g)
{
    return CAT(scale, DTYPE)(CAT(expm1_small, DTYPE)(g * LN_2) + 1, n);
}

#if VBYTES != 64
/* 2^x, with a relative error of at most 2 eps */
static inline vec CAT(exp2, DTYPE)(vec x)
{
    x = CAT(clamp, DTYPE)(x, 2 - 2 * BIAS, 2 * BIAS);
    const vec n = CAT(round, DTYPE)(x);

    return CAT(exp2_of, DTYPE)(n, x - n);
}

/* 2^(scale s), where exp2_of() takes the integer nearest to scale s */
static inline vec CAT(exp2_scaled, DTYPE)(vec s, real scale)
{
    const vec n = CAT(round, DTYPE)(s * scale);

    return CAT(exp2_of, DTYPE)(n, s * scale - n);
}
#endif

/* log2(m) for 3/4 <= m <= 3/2, with a small relative error */
static inline vec CAT(log2_mantissa, DTYPE)(vec m)
{
    const vec s = (m - 1) / (m + 1), z = s * s;

    return s * (real)0x1.71547652b82fep+1 + s * z * SERIES(z, CAT(log2_series, DTYPE));
}

#if VBYTES != 64
#  include "vpower_base.h"
#endif

#undef LANES
#undef SINGLE
#undef DIGITS
#undef BIAS
#undef SHIFTER
#undef TWO_TO_DIGITS
#undef LEAST_NORMAL
#undef LEAST_DENORMAL
#undef LARGEST
#undef SIGN_BIT
#undef SQRT_HALF_BITS
#undef LN_2
#undef SERIES
