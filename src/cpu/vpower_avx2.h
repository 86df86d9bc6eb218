/*
 * vpower_avx2.h - |d|^q in f32 for -1 <= q < 4 by tables in registers; power.h has the formula
 *
 * The biased exponent's bits 0-2, 3-5 and 6-7 choose one of eight entries each; permutations ignore
 * what is above the three bits.  Denormals, infinities and NaN are rare: a vector that has one goes
 * the way of vpower_base.h.  Ties (d = 0) are not rare.
 *
 * SPDX-License-Identifier: MIT
 */
struct power_f32 {
    __m256 inverse, centre, low, middle, high, c[5];
    const struct gram_power *w;
};

static inline struct power_f32 power_load_f32(const struct gram_power *w)
{
    struct power_f32 power = {
        .inverse = _mm256_load_ps(w->f32.eight.inverse),
        .centre = _mm256_load_ps(w->f32.eight.centre),
        .low = _mm256_load_ps(w->f32.eight.low),
        .middle = _mm256_load_ps(w->f32.eight.middle),
        .high = _mm256_load_ps(w->f32.eight.high),
        .w = w,
    };

    UNROLL_FOR (k, 5)
        power.c[k] = _mm256_set1_ps(w->f32.eight.c[k]);
    return power;
}

/* The bits of |d|; true if all are of zeros and of normal numbers, zero then tells which. */
static inline bool power_is_plain(vf32 d, __m256i *bits, __m256i *zero)
{
    const __m256i first = _mm256_set1_epi32(0x00800000); /* of the least normal number */

    *bits = _mm256_and_si256((__m256i)d, _mm256_set1_epi32(INT32_MAX));
    *zero = _mm256_cmpeq_epi32(*bits, _mm256_setzero_si256());
    /* Adding it takes infinity and NaN below zero, and denormals to less than twice it. */
    return _mm256_testc_si256(
        *zero, _mm256_cmpgt_epi32(_mm256_slli_epi32(first, 1), _mm256_add_epi32(*bits, first)));
}

/* |d|^q of normal numbers is the product of what is returned and of *root. */
static inline __m256 power_parts_f32(const struct power_f32 *w, __m256i bits, __m256 *root)
{
    const __m256i one = _mm256_set1_epi32(0x3f800000);
    const __m256i mantissa = _mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff));
    const __m256i i = _mm256_srli_epi32(bits, 20), low = _mm256_srli_epi32(bits, 23);
    const __m256i middle = _mm256_srli_epi32(bits, 26), high = _mm256_srli_epi32(bits, 29);
    const __m256 m = (__m256)_mm256_or_si256(mantissa, one);
    const __m256 f = _mm256_fmsub_ps(m, _mm256_permutevar8x32_ps(w->inverse, i), w->c[0]);
    __m256 y = w->c[4];

    UNROLL_FOR (k, 4)
        y = _mm256_fmadd_ps(y, f, w->c[3 - k]);
    *root = _mm256_mul_ps(_mm256_permutevar8x32_ps(w->middle, middle),
                          _mm256_permutevar8x32_ps(w->high, high));
    y = _mm256_mul_ps(y, _mm256_permutevar8x32_ps(w->centre, i));
    return _mm256_mul_ps(y, _mm256_mul_ps(_mm256_permutevar8x32_ps(w->low, low), *root));
}

/* |d|^q */
static inline vf32 power_of_f32(const struct power_f32 *power, vf32 d)
{
    __m256i bits, zero;
    __m256 root, part;

    if (__builtin_expect(!power_is_plain(d, &bits, &zero), 0))
        return log_power_f32(power->w, d);
    part = power_parts_f32(power, bits, &root);
    return (vf32)_mm256_blendv_ps(_mm256_mul_ps(part, root), _mm256_set1_ps(power->w->f32.at_zero),
                                  (__m256)zero);
}

/* acc + |d|^q, 0^q = 0 */
static inline vf32 power_add_f32(const struct power_f32 *power, vf32 acc, vf32 d)
{
    __m256i bits, zero;
    __m256 root, part;

    if (__builtin_expect(!power_is_plain(d, &bits, &zero), 0))
        return acc + log_power_f32(power->w, d);
    part = _mm256_andnot_ps((__m256)zero, power_parts_f32(power, bits, &root));
    return (vf32)_mm256_fmadd_ps(part, root, (__m256)acc);
}

/* sgn(d) |d|^q */
static inline vf32 signed_power_f32(const struct power_f32 *power, vf32 d)
{
    return copy_sign_f32(power_of_f32(power, d), d);
}
