/*
 * vmath_elementary.h - template: exp, logarithms, sin, cos and what comes from them, for
 * expressions
 *
 * Errors: 4 eps, relative, over the whole range (sinh and cosh: |x| eps more).  Arguments outside
 * of a function's domain give what C says.
 *
 * From the caller: what vmath_dtype.h has, after it.
 *
 * SPDX-License-Identifier: MIT
 */
#define SINGLE (sizeof(real) == 4)
#define LN_2   ((real)0x1.62e42fefa39efp-1)
#define FN(f)  CAT(f, DTYPE)

/* x - n ln 2: the first part of ln 2 has so few digits that its product with n is exact. */
static inline vec FN(reduce_exp)(vec x, vec *n)
{
    const real head = (real)(SINGLE ? 0x1.62e4p-1 : 0x1.62e42feep-1);
    const real tail = (real)(SINGLE ? 0x1.7f7d1cf79abcap-20 : 0x1.a39ef35793c76p-33);

    *n = FN(round)(x * (real)0x1.71547652b82fep+0);
    return (x - *n * head) - *n * tail;
}

static inline vec FN(exp)(vec x)
{
    vec n;

    x = FN(clamp)(x, SINGLE ? -175 : -1400, SINGLE ? 175 : 1400); /* 0 and infinity, in scale() */
    const vec g = FN(reduce_exp)(x, &n);
    return FN(scale)(FN(expm1_small)(g) + 1, n);
}

/* e^x - 1 = 2^n (e^g - 1) + (2^n - 1); from 2^30 on 1 does not count, and 2^n may be infinite. */
static inline vec FN(expm1)(vec x)
{
    vec n;
    const vec all = FN(exp)(x);
    const vec g = FN(reduce_exp)(FN(clamp)(x, -40, 60), &n);
    const vec power = FN(scale)((vec){0} + 1, n);

    return FN(if_less)((vec){0} + 40, x, all, power * FN(expm1_small)(g) + (power - 1));
}

/* What a logarithm is where x has none or is infinite, else r. */
static inline vec FN(log_special)(vec x, vec r)
{
    const vec zero = {0};

    r = FN(if_less)(zero, x, r, zero - (real)INFINITY);
    r = FN(if_less)(x, zero, zero + (real)NAN, r);
    return FN(if_less)(x, zero + (real)INFINITY, r, x);
}

static inline vec FN(log2)(vec x)
{
    vec e, m = FN(normalise)(x, &e);

    return FN(log_special)(x, e + FN(log2_mantissa)(m));
}

static inline vec FN(log)(vec x)
{
    vec e, m = FN(normalise)(x, &e);

    return FN(log_special)(x, e * LN_2 + FN(log2_mantissa)(m) * LN_2);
}

/* log u + (x - (u - 1)) / u with u = 1 + x, rounded. */
static inline vec FN(log1p)(vec x)
{
    const vec u = 1 + x, r = FN(log)(u), lost = (x - (u - 1)) / u;
    const vec small = (vec){0} + (real)(SINGLE ? 0x1p20 : 0x1p50);

    return FN(if_less)((vec){0} - 1, x, FN(if_less)(x, small, r + lost, r), r);
}

/* From m = e^|x| - 1: (m + m / (m + 1)) / 2; for large |x| the half of e^|x|, in two steps, since
 * it may be finite where e^|x| is not. */
static inline vec FN(sinh)(vec x)
{
    const vec a = v_abs(x), m = FN(expm1)(a), half = FN(exp)(a * (real)0.5);
    const vec r =
        FN(if_less)(a, (vec){0} + 40, (real)0.5 * (m + m / (m + 1)), (real)0.5 * half * half);

    return FN(copy_sign)(r, x);
}

static inline vec FN(cosh)(vec x)
{
    const vec a = v_abs(x), e = FN(exp)(a), half = FN(exp)(a * (real)0.5);

    return FN(if_less)(a, (vec){0} + 40, (real)0.5 * (e + 1 / e), (real)0.5 * half * half);
}

static inline vec FN(fmin)(vec a, vec b)
{
    const vec least = FN(if_less)(b, a, b, a);

    const ivec nan = a != a; /* NOLINT(misc-redundant-expression) */
    return (vec)((nan & (ivec)b) | (~nan & (ivec)least));
}

static inline vec FN(fmax)(vec a, vec b)
{
    return -FN(fmin)(-a, -b);
}

#undef SINGLE
#undef LN_2
#undef FN
