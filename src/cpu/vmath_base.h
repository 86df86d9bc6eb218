/*
 * vmath_base.h - template: what vmath_dtype.h needs of an instruction set, by operators on vectors
 *
 * From the caller: what vmath_dtype.h has.
 *
 * SPDX-License-Identifier: MIT
 */

/* a < b ? x : y */
static inline vec CAT(if_less, DTYPE)(vec a, vec b, vec x, vec y)
{
    const ivec less = a < b;

    return (vec)((less & (ivec)x) | (~less & (ivec)y));
}

/* x no more than most; NaN stays. */
static inline vec CAT(no_more, DTYPE)(vec x, real most)
{
    return CAT(if_less, DTYPE)((vec){0} + most, x, (vec){0} + most, x);
}

/* |a| with the sign of b */
static inline vec CAT(copy_sign, DTYPE)(vec a, vec b)
{
    const uvec sign = (uvec){0} + SIGN_BIT;

    return (vec)(((uvec)a & ~sign) | ((uvec)b & sign));
}

/* x > 0, finite: x = m 2^e with sqrt(1/2) <= m < sqrt(2); for any other x anything that is finite.
 */
static inline vec CAT(normalise, DTYPE)(vec x, vec *e)
{
    const vec least = (vec){0} + LEAST_NORMAL;
    const vec normal = CAT(if_less, DTYPE)(x, least, x * TWO_TO_DIGITS, x);
    const vec added = CAT(if_less, DTYPE)(x, least, (vec){0} + (real)DIGITS, (vec){0});
    const uvec shifted = (uvec)normal + (((ureal)BIAS << DIGITS) - SQRT_HALF_BITS);

    /* The biased exponent becomes a number where it is put into the last bits of 2^DIGITS. */
    *e = (vec)((shifted >> DIGITS) | (uvec)((vec){0} + TWO_TO_DIGITS)) - (TWO_TO_DIGITS + BIAS) -
         added;
    return (vec)((shifted & (((ureal)1 << DIGITS) - 1)) + SQRT_HALF_BITS);
}

/* x 2^n for integers n, -2 BIAS + 2 <= n <= 2 BIAS, rounded once */
static inline vec CAT(scale, DTYPE)(vec x, vec n)
{
    const vec half = CAT(round, DTYPE)(n * (real)0.5);

    x *= (vec)((uvec)(half + (SHIFTER + BIAS)) << DIGITS);
    return x * (vec)((uvec)((n - half) + (SHIFTER + BIAS)) << DIGITS);
}

/* r where 0 < x < infinity, else what w says of 0 and infinity; NaN where x is NaN. */
static inline vec CAT(special, DTYPE)(const struct gram_power *w, vec x, vec r)
{
    const vec zero = {0};
    const vec least = zero + LEAST_DENORMAL, most = zero + LARGEST;

    r = CAT(if_less, DTYPE)(x, zero + (real)INFINITY, r, x);
    r = CAT(if_less, DTYPE)(most, x, zero + w->DTYPE.at_infinity, r);
    return CAT(if_less, DTYPE)(x, least, zero + w->DTYPE.at_zero, r);
}

static inline vec CAT(sqrt_fast, DTYPE)(vec a)
{
    return v_sqrt(a);
}
