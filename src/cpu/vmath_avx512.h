/*
 * vmath_avx512.h - what vmath_dtype.h needs of AVX-512, and 2^x and square roots of its own
 *
 * SPDX-License-Identifier: MIT
 */

/* a < b ? x : y */
static inline vf32 if_less_f32(vf32 a, vf32 b, vf32 x, vf32 y)
{
    __mmask16 less = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);

    return (vf32)_mm512_mask_blend_ps(less, (__m512)y, (__m512)x);
}

static inline vf64 if_less_f64(vf64 a, vf64 b, vf64 x, vf64 y)
{
    __mmask8 less = _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);

    return (vf64)_mm512_mask_blend_pd(less, (__m512d)y, (__m512d)x);
}

/* x no more than most; NaN stays. */
static inline vf32 no_more_f32(vf32 x, float most)
{
    return (vf32)_mm512_min_ps(_mm512_set1_ps(most), (__m512)x);
}

static inline vf64 no_more_f64(vf64 x, double most)
{
    return (vf64)_mm512_min_pd(_mm512_set1_pd(most), (__m512d)x);
}

/* |a| with the sign of b */
static inline vf32 copy_sign_f32(vf32 a, vf32 b)
{
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);

    return (vf32)_mm512_ternarylogic_epi32(sign, (__m512i)a, (__m512i)b, 0xac);
}

static inline vf64 copy_sign_f64(vf64 a, vf64 b)
{
    const __m512i sign = _mm512_set1_epi64(INT64_MIN);

    return (vf64)_mm512_ternarylogic_epi64(sign, (__m512i)a, (__m512i)b, 0xac);
}

/* x > 0, finite: x = m 2^e with 3/4 <= m < 3/2 */
static inline vf32 normalise_f32(vf32 x, vf32 *e)
{
    __m512 m = _mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);

    *e = (vf32)_mm512_getexp_ps((__m512)x) - (vf32)_mm512_getexp_ps(m);
    return (vf32)m;
}

static inline vf64 normalise_f64(vf64 x, vf64 *e)
{
    __m512d m = _mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);

    *e = (vf64)_mm512_getexp_pd((__m512d)x) - (vf64)_mm512_getexp_pd(m);
    return (vf64)m;
}

/* x 2^floor(n), rounded once */
static inline vf32 scale_f32(vf32 x, vf32 n)
{
    return (vf32)_mm512_scalef_ps((__m512)x, (__m512)n);
}

static inline vf64 scale_f64(vf64 x, vf64 n)
{
    return (vf64)_mm512_scalef_pd((__m512d)x, (__m512d)n);
}

/* r where 0 < |x| < infinity, else what w says of 0 and infinity; NaN where x is NaN */
static inline vf32 special_f32(const struct gram_power *w, vf32 x, vf32 r)
{
    const __m512i answers = _mm512_set1_epi32(w->special);

    return (vf32)_mm512_fixupimm_ps((__m512)r, (__m512)x, answers, 0);
}

static inline vf64 special_f64(const struct gram_power *w, vf64 x, vf64 r)
{
    const __m512i answers = _mm512_set1_epi64(w->special);

    return (vf64)_mm512_fixupimm_pd((__m512d)r, (__m512d)x, answers, 0);
}

/*
 * 2^x, x = n + g with n a multiple of 1/16: a table of 2^(i/16) and, for |g| <= 1/32, Chebyshev
 * interpolants as in vmath.h (errors 1e-9 and 7e-18).  Adding the shifter rounds to sixteenths
 * and leaves i in the last four bits.
 */
#define EXP2_SHIFTER_F32 0x1.8p19f
#define EXP2_SHIFTER_F64 0x1.8p48

static inline vf32 exp2_of_sixteenths_f32(vf32 shifted, vf32 n, vf32 g)
{
    const __m512 table = {
        0x1p+0f,        0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f,
        0x1.306fep+0f,  0x1.3dea64p+0f, 0x1.4bfdaep+0f, 0x1.5ab07ep+0f,
        0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
        0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f,
    };
    const vf32 root = (vf32)_mm512_permutexvar_ps((__m512i)shifted, table);
    const vf32 y = ((0x1.c6b34ap-5f * g + 0x1.ec00dp-3f) * g + 0x1.62e43p-1f) * g + 1;

    return scale_f32(root * y, n);
}

static inline vf32 exp2_f32(vf32 x)
{
    x = (vf32)_mm512_max_ps(_mm512_set1_ps(-1024), (__m512)x);
    x = (vf32)_mm512_min_ps(_mm512_set1_ps(1024), (__m512)x);
    const vf32 shifted = x + EXP2_SHIFTER_F32, n = shifted - EXP2_SHIFTER_F32;

    return exp2_of_sixteenths_f32(shifted, n, x - n);
}

static inline vf64 exp2_of_sixteenths_f64(vf64 shifted, vf64 n, vf64 g)
{
    const __m512d table_0 = {
        0x1p+0,
        0x1.0b5586cf9890fp+0,
        0x1.172b83c7d517bp+0,
        0x1.2387a6e756238p+0,
        0x1.306fe0a31b715p+0,
        0x1.3dea64c123422p+0,
        0x1.4bfdad5362a27p+0,
        0x1.5ab07dd485429p+0,
    };
    const __m512d table_8 = {
        0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f09p+0,
        0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0,
    };
    const vf64 root = (vf64)_mm512_permutex2var_pd(table_0, (__m512i)shifted, table_8);
    vf64 y = 0x1.430a4a00117cdp-13 * g + 0x1.5d89bf317993bp-10;

    y = y * g + 0x1.3b2ab6fb0913ep-7;
    y = y * g + 0x1.c6b08d6e886d0p-5;
    y = y * g + 0x1.ebfbdff82c594p-3;
    y = y * g + 0x1.62e42fefa39fdp-1;
    return scale_f64(root * (y * g + 1), n);
}

static inline vf64 exp2_f64(vf64 x)
{
    x = (vf64)_mm512_max_pd(_mm512_set1_pd(-4096), (__m512d)x);
    x = (vf64)_mm512_min_pd(_mm512_set1_pd(4096), (__m512d)x);
    const vf64 shifted = x + EXP2_SHIFTER_F64, n = shifted - EXP2_SHIFTER_F64;

    return exp2_of_sixteenths_f64(shifted, n, x - n);
}

/* 2^(scale s), |scale s| <= 4096 */
static inline vf32 exp2_scaled_f32(vf32 s, float scale)
{
    const vf32 shifted = s * scale + EXP2_SHIFTER_F32, n = shifted - EXP2_SHIFTER_F32;

    return exp2_of_sixteenths_f32(shifted, n, s * scale - n);
}

static inline vf64 exp2_scaled_f64(vf64 s, double scale)
{
    const vf64 shifted = s * scale + EXP2_SHIFTER_F64, n = shifted - EXP2_SHIFTER_F64;

    return exp2_of_sixteenths_f64(shifted, n, s * scale - n);
}

/*
 * Square roots, wrong by 0.8 eps at most, at half the cost of VSQRT or less: from an estimate r of
 * 1 / sqrt(a) with 14 digits, by steps that double the digits of r and of y = a r together:
 *   y + y (1 - y r) / 2.
 * NaN, 0 and infinity stay as they are.
 */
enum {
    AS_OPERAND = 1 << 0 | 1 << 4 | 1 << 8 | 1 << 20,
};

static inline vf32 sqrt_fast_f32(vf32 a)
{
    const __m512i answers = _mm512_set1_epi32(AS_OPERAND);
    const vf32 r = (vf32)_mm512_rsqrt14_ps((__m512)a);
    vf32 y = a * r;

    y = y + 0.5f * y * (1 - y * r);
    return (vf32)_mm512_fixupimm_ps((__m512)y, (__m512)a, answers, 0);
}

static inline vf64 sqrt_fast_f64(vf64 a)
{
    const __m512i answers = _mm512_set1_epi64(AS_OPERAND);
    vf64 r = (vf64)_mm512_rsqrt14_pd((__m512d)a), y = a * r, error = 0.5 - 0.5 * y * r;

    y = y + y * error;
    r = r + r * error;
    y = y + 0.5 * y * (1 - y * r);
    return (vf64)_mm512_fixupimm_pd((__m512d)y, (__m512d)a, answers, 0);
}
