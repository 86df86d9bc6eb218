/*
 * vmath_inverse.h - template: asin, acos, atan and erf, for expressions
 *
 * Errors: 4 eps, relative, over the whole range.  Arguments outside of a function's domain give
 * what C says.  Each function is a series on the part of the line that it is brought to.
 *
 * From the caller: what vmath_dtype.h has, after vmath_elementary.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define SINGLE       (sizeof(real) == 4)
#define FN(f)        CAT(f, DTYPE)
#define SERIES(x, c) FN(series)(x, sizeof(c) / sizeof *(c), c)

/* pi / 2 is the sum of the two. */
#define HALF_PI      ((real)0x1.921fb54442d18p+0)
#define HALF_PI_TAIL ((real)(SINGLE ? -0x1.777a5cf72cecep-25 : 0x1.1a62633145c07p-54))

/* asin(t) for |t| <= 1/2 */
static inline vec FN(asin_small)(vec t)
{
    const vec z = t * t;

    return t + t * z * SERIES(z, FN(asin_series));
}

/* What asin and acos have in common: with a = |x|, the asin of a where a <= 1/2, else that of
 * sqrt((1 - a) / 2), which is (pi / 2 - asin(a)) / 2.  1 - a is exact there. */
static inline vec FN(asin_part)(vec a)
{
    const vec half = (vec){0} + (real)0.5;

    return FN(asin_small)(FN(if_less)(half, a, v_sqrt((1 - a) * (real)0.5), a));
}

static inline vec FN(asin)(vec x)
{
    const vec a = v_abs(x), half = (vec){0} + (real)0.5, part = FN(asin_part)(a);
    const vec r = FN(if_less)(half, a, HALF_PI - (2 * part - HALF_PI_TAIL), part);

    return FN(copy_sign)(r, x);
}

static inline vec FN(acos)(vec x)
{
    const vec zero = {0}, a = v_abs(x), half = zero + (real)0.5, part = FN(asin_part)(a);
    const vec middle = HALF_PI - (FN(copy_sign)(part, x) - HALF_PI_TAIL);
    const vec end = FN(if_less)(x, zero, 2 * HALF_PI - (2 * part - 2 * HALF_PI_TAIL), 2 * part);

    return FN(if_less)(half, a, end, middle);
}

/* atan(a) = base + atan(t), |t| <= tan(pi / 8): t = a, (a - 1) / (a + 1) or -1 / a */
static inline vec FN(atan)(vec x)
{
    const vec a = v_abs(x), zero = {0};
    const vec low = zero + (real)0x1.a827999fcef32p-2, high = zero + (real)0x1.3504f333f9de6p+1;
    const vec above = FN(if_less)(high, a, -1 / a, (a - 1) / (a + 1));
    const vec t = FN(if_less)(low, a, above, a), z = t * t;
    const vec turns = FN(if_less)(low, a, FN(if_less)(high, a, zero + 1, zero + (real)0.5), zero);
    const vec small = t + (t * z * SERIES(z, FN(atan_series)) + turns * HALF_PI_TAIL);

    return FN(copy_sign)(turns * HALF_PI + small, x);
}

/* Beyond 1 from e^(x^2) (1 - erf(x)), which is smooth; beyond 4 in f32 and 6 in f64 erf is 1. */
static inline vec FN(erf)(vec x)
{
    const vec a = v_abs(x), z = a * a, near = a + a * SERIES(z, FN(erf_series));
    const vec b = FN(clamp)(a, 1, SINGLE ? 4 : 6), t = (b - 3) / (b + 3);
    const vec far = 1 - FN(exp)(-b * b) * SERIES(t, FN(erfc_series));

    return FN(copy_sign)(FN(if_less)(a, (vec){0} + 1, near, far), x);
}

#undef SINGLE
#undef FN
#undef SERIES
#undef HALF_PI
#undef HALF_PI_TAIL
