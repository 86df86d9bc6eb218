/*
 * power.h - an exponent q, prepared once for the many vector powers |d|^q of vpower_*.h
 *
 * Tables (AVX-512, and f32 on AVX2): with |d| = m 2^e, 1 <= m < 2, and i = floor(16 (m - 1)),
 *   |d|^q = centre[i] (1 + f)^q 2^(q e),   f = m inverse[i] - 1,   centre[i] = inverse[i]^-q,
 * |f| <= 1/33, (1 + f)^q a polynomial in f, and 2^(q e) a product of table entries, one for each
 * group of e's bits.  The entry of the topmost bits is a square root, multiplied in twice: so no
 * factor leaves the range of its dtype where the result does not.  inverse[0] and centre[0] are
 * chosen so that 1^q is exactly 1.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_POWER_H
#define GRAM_POWER_H
#include "core/view.h"

struct gram_power {
    _Alignas(64) struct {
        float inverse[16], centre[16];
        float low[32];        /* 2^(q (i - 16)) */
        float high[16];       /* 2^(16 q i), i from -8; index modulo 16 */
        _Alignas(64) struct { /* AVX2: the same with eight entries, i = floor(8 (m - 1)) */
            float inverse[8], centre[8];
            float low[8];    /* 2^(q (i - 7)) */
            float middle[8]; /* 2^(4 q (i - 7)), a square root like that of high */
            float high[8];   /* 2^(32 q (i % 4 - 1)) */
            float c[5];
        } eight;
        float c[4];              /* of f^0 .. f^3; c[0] = 1 */
        float q, q_head, q_tail; /* q; its first 16 bits, so that e q_head is exact; the rest */
        float at_zero, at_infinity;
    } f32;
    _Alignas(64) struct {
        double inverse[16], centre[16];
        double low[16];    /* 2^(q (i - 8)) */
        double middle[16]; /* 2^(16 q (i - 8)) */
        double high[16];   /* 2^(128 q i), i from -8; index modulo 16 */
        double c[9];
        double q, q_head, q_tail; /* 42 bits in the head */
        double at_zero, at_infinity;
    } f64;
    int32_t special; /* what VFIXUPIMM gives for NaN, zero and infinity */
};

/*
 * True where only the wide functions may be used, which serve every q, more slowly: where |d|^q
 * needs its logarithm more exactly than to the dtype's precision, or 2^(32 q) is not finite in f32.
 */
static inline bool gram_power_is_wide(double q)
{
    return q < -1 || q > 3.99;
}

/*
 * Prepares q, finite, for arithmetic in dtype (GRAM_F32 or GRAM_F64).  at_zero is what 0^q gives:
 * 0, 1 or INFINITY; a gradient takes 0 for a tie, whatever q.
 */
void gram_power_prepare(struct gram_power *w, gram_dtype dtype, double q, double at_zero);
#endif
