/*
 * vpower_base.h - template: |d|^q for -1 <= q < 4 by logarithm and exponential, on operators only
 *
 * With |d| = m 2^e: q log2 |d| = q e + q log2 m.  q e is computed without error from the head and
 * the tail of q and never rounded at its size: the integer n that is nearest to the sum is taken
 * off first.  So the result is as exact for e = 100 as for e = 1.
 *
 * From the caller: what vmath_dtype.h has, and POWER_TABLES if another file has power_of and the
 * like for the dtype, and takes from here only log_power for rare numbers.
 *
 * SPDX-License-Identifier: MIT
 */

/* |d|^q */
static inline vec CAT(log_power, DTYPE)(const struct gram_power *w, vec d)
{
    const real q = w->DTYPE.q, head = w->DTYPE.q_head, tail = w->DTYPE.q_tail;
    const vec x = v_abs(d);
    vec e, m = CAT(normalise, DTYPE)(x, &e);
    vec log2_m = q * CAT(log2_mantissa, DTYPE)(m);
    vec n = CAT(round, DTYPE)(e * head + log2_m);
    vec g = (e * head - n) + (e * tail + log2_m);

    n = CAT(clamp, DTYPE)(n, 2 - 2 * BIAS, 2 * BIAS);
    return CAT(special, DTYPE)(w, x, CAT(exp2_of, DTYPE)(n, g));
}

#ifndef POWER_TABLES
struct CAT(power, DTYPE) {
    const struct gram_power *w;
};

static inline struct CAT(power, DTYPE) CAT(power_load, DTYPE)(const struct gram_power *w)
{
    return (struct CAT(power, DTYPE)){w};
}

/* |d|^q */
static inline vec CAT(power_of, DTYPE)(const struct CAT(power, DTYPE) * power, vec d)
{
    return CAT(log_power, DTYPE)(power->w, d);
}

/* acc + |d|^q */
static inline vec CAT(power_add, DTYPE)(const struct CAT(power, DTYPE) * power, vec acc, vec d)
{
    return acc + CAT(power_of, DTYPE)(power, d);
}

/* sgn(d) |d|^q */
static inline vec CAT(signed_power, DTYPE)(const struct CAT(power, DTYPE) * power, vec d)
{
    return CAT(copy_sign, DTYPE)(CAT(power_of, DTYPE)(power, d), d);
}
#endif
