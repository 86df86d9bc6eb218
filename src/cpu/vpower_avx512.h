/*
 * vpower_avx512.h - |d|^q for -1 <= q < 4 by tables in registers; power.h has the formula
 *
 * f32: 20 instructions, 9 of them on the multipliers, bound by their ports: 13 cycles a vector on
 * Zen 4.  Adding 3 2^k with rounding down leaves floor(x / 2^j) in the last bits, where
 * permutations take their index; they ignore the bits above.  For d = 0 or infinity e is infinite,
 * which leaves zeros there: all factors stay finite until VFIXUPIMM puts in the right answer.
 *
 * SPDX-License-Identifier: MIT
 */
#define ROUND_DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)

struct power_f32 {
    __m512 inverse, centre, low_0, low_16, high, c[4];
    __m512i special;
};

struct power_f64 {
    __m512d inverse_0, inverse_8, centre_0, centre_8;
    __m512d low_0, low_8, middle_0, middle_8, high_0, high_8, c[9];
    __m512i special;
};

static inline struct power_f32 power_load_f32(const struct gram_power *w)
{
    struct power_f32 power = {
        .inverse = _mm512_load_ps(w->f32.inverse),
        .centre = _mm512_load_ps(w->f32.centre),
        .low_0 = _mm512_load_ps(w->f32.low),
        .low_16 = _mm512_load_ps(w->f32.low + 16),
        .high = _mm512_load_ps(w->f32.high),
        .special = _mm512_set1_epi32(w->special),
    };

    UNROLL_FOR (k, 4)
        power.c[k] = _mm512_set1_ps(w->f32.c[k]);
    return power;
}

static inline struct power_f64 power_load_f64(const struct gram_power *w)
{
    struct power_f64 power = {
        .inverse_0 = _mm512_load_pd(w->f64.inverse),
        .inverse_8 = _mm512_load_pd(w->f64.inverse + 8),
        .centre_0 = _mm512_load_pd(w->f64.centre),
        .centre_8 = _mm512_load_pd(w->f64.centre + 8),
        .low_0 = _mm512_load_pd(w->f64.low),
        .low_8 = _mm512_load_pd(w->f64.low + 8),
        .middle_0 = _mm512_load_pd(w->f64.middle),
        .middle_8 = _mm512_load_pd(w->f64.middle + 8),
        .high_0 = _mm512_load_pd(w->f64.high),
        .high_8 = _mm512_load_pd(w->f64.high + 8),
        .special = _mm512_set1_epi64(w->special),
    };

    UNROLL_FOR (k, 9)
        power.c[k] = _mm512_set1_pd(w->f64.c[k]);
    return power;
}

/* |d|^q is the product of what is returned and of *root. */
static inline __m512 power_parts_f32(const struct power_f32 *w, __m512 d, __m512 *root)
{
    const __m512 m = _mm512_getmant_ps(d, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
    const __m512 e = _mm512_getexp_ps(d);
    const __m512i i = (__m512i)_mm512_add_round_ps(m, _mm512_set1_ps(0x1.8p19f), ROUND_DOWN);
    const __m512i low = (__m512i)_mm512_add_ps(e, _mm512_set1_ps(0x1.8p23f + 16));
    const __m512i high = _mm512_srli_epi32(low, 5);
    const __m512 f = _mm512_fmsub_ps(m, _mm512_permutexvar_ps(i, w->inverse), w->c[0]);
    __m512 y = _mm512_fmadd_ps(w->c[3], f, w->c[2]);

    *root = _mm512_permutexvar_ps(high, w->high);
    y = _mm512_fmadd_ps(_mm512_fmadd_ps(y, f, w->c[1]), f, w->c[0]);
    y = _mm512_mul_ps(y, *root);
    y = _mm512_mul_ps(y, _mm512_mul_ps(_mm512_permutexvar_ps(i, w->centre),
                                       _mm512_permutex2var_ps(w->low_0, low, w->low_16)));
    return _mm512_fixupimm_ps(y, d, w->special, 0);
}

static inline __m512d power_parts_f64(const struct power_f64 *w, __m512d d, __m512d *root)
{
    const __m512d m = _mm512_getmant_pd(d, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
    const __m512d e = _mm512_getexp_pd(d);
    const __m512i i = (__m512i)_mm512_add_round_pd(m, _mm512_set1_pd(0x1.8p48), ROUND_DOWN);
    const __m512i low = (__m512i)_mm512_add_pd(e, _mm512_set1_pd(0x1.8p52 + 8 + 16 * 8));
    const __m512i middle = _mm512_srli_epi64(low, 4), high = _mm512_srli_epi64(low, 8);
    const __m512d inverse = _mm512_permutex2var_pd(w->inverse_0, i, w->inverse_8);
    const __m512d f = _mm512_fmsub_pd(m, inverse, w->c[0]);
    __m512d y = w->c[8];

    UNROLL_FOR (k, 8)
        y = _mm512_fmadd_pd(y, f, w->c[7 - k]);
    *root = _mm512_permutex2var_pd(w->high_0, high, w->high_8);
    y = _mm512_mul_pd(y, _mm512_permutex2var_pd(w->centre_0, i, w->centre_8));
    y = _mm512_mul_pd(y, _mm512_mul_pd(_mm512_permutex2var_pd(w->low_0, low, w->low_8),
                                       _mm512_permutex2var_pd(w->middle_0, middle, w->middle_8)));
    y = _mm512_mul_pd(y, *root);
    return _mm512_fixupimm_pd(y, d, w->special, 0);
}

#undef ROUND_DOWN

/* |d|^q */
static inline vf32 power_of_f32(const struct power_f32 *power, vf32 d)
{
    __m512 root, part = power_parts_f32(power, (__m512)d, &root);

    return (vf32)part * (vf32)root;
}

static inline vf64 power_of_f64(const struct power_f64 *power, vf64 d)
{
    __m512d root, part = power_parts_f64(power, (__m512d)d, &root);

    return (vf64)part * (vf64)root;
}

/* acc + |d|^q */
static inline vf32 power_add_f32(const struct power_f32 *power, vf32 acc, vf32 d)
{
    __m512 root, part = power_parts_f32(power, (__m512)d, &root);

    return (vf32)_mm512_fmadd_ps(part, root, (__m512)acc);
}

static inline vf64 power_add_f64(const struct power_f64 *power, vf64 acc, vf64 d)
{
    __m512d root, part = power_parts_f64(power, (__m512d)d, &root);

    return (vf64)_mm512_fmadd_pd(part, root, (__m512d)acc);
}

/* sgn(d) |d|^q */
static inline vf32 signed_power_f32(const struct power_f32 *power, vf32 d)
{
    return copy_sign_f32(power_of_f32(power, d), d);
}

static inline vf64 signed_power_f64(const struct power_f64 *power, vf64 d)
{
    return copy_sign_f64(power_of_f64(power, d), d);
}
