/*
 * vmath.h - vector functions written here: powers, 2^x and the parts of them
 *
 * Included once, after simd_<isa>.h; defines for both dtypes, as <function>_<dtype>, static inline:
 *   vmath_avx512.h, vmath_base.h   what differs between instruction sets
 *   vmath_dtype.h                  a template: what does not
 *   vmath_elementary.h             a template: exp, logarithms and the like
 *   vmath_inverse.h                a template: asin, acos, atan, erf
 *   vmath_circle.h                 sin, cos and x^y with a y in every lane
 *   vpower_avx512.h, vpower_avx2.h, vpower_base.h   |d|^q for -1 <= q < 4
 *
 * No table is read from memory in a loop, no branch depends on a number, no rounding mode and no
 * flag is touched.  NaN gives NaN everywhere.
 *
 * For templates, in a block that sets DTYPE:
 *   POWER_STATE(t)            declares what powers use, from t->power; for -1 <= q < 4 then
 *   v_power_add(acc, d)         acc + |d|^q
 *   v_signed_power(d)           sgn(d) |d|^q, for d = 0 as t->power says
 *   WIDE_POWER_STATE(t)       the same for any q:
 *   v_wide_power_add(acc, d)
 *   v_signed_wide_power(d)
 *   v_sqrt_fast(a)            the square root of a >= 0, within 1 ulp
 * Errors of powers, relative: 6 eps for denormal d and results too, plus an ulp of a denormal.
 *
 * SPDX-License-Identifier: MIT
 */
#include "power.h"
#include <math.h>

typedef uint32_t vu32 __attribute__((vector_size(VBYTES)));
typedef uint64_t vu64 __attribute__((vector_size(VBYTES)));
typedef float vf32_half __attribute__((vector_size(VBYTES / 2)));

/*
 * Coefficients of the series in vmath_dtype.h, lowest power first: Chebyshev interpolants, computed
 * with 60 digits.  The named function is interpolated at the n + 1 Chebyshev nodes of the interval,
 * n the degree, and the result expanded in powers.  "error" is the largest one that the interpolant
 * alone causes, relative to the function in whose formula it stands.
 */

/* (e^g - 1 - g) / g^2 for |g| <= 0.3467, a little more than log(2) / 2; error of e^g 8e-9. */
static const float expm1_series_f32[] = {
    0.5f, 0.16666576846f, 0.0416665544377f, 0.00836320297158f, 0.00139262134663f,
};

/* The same; error 1e-17. */
static const double expm1_series_f64[] = {
    0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d4fp-5,  0x1.11111111109adp-7,
    0x1.6c16c17893833p-10, 0x1.a01a01a7c8d47p-13, 0x1.a019b8ef67c6cp-16, 0x1.71de0d9c145d0p-19,
    0x1.2891a8c1d838dp-22, 0x1.af38d53857513p-26,
};

/* (log2(m) / s - 2 / ln 2) / s^2 as a polynomial in s^2, with s = (m - 1) / (m + 1) and
 * 3/4 <= m <= 3/2, so that s^2 <= 0.0401; error 8e-11. */
static const float log2_series_f32[] = {
    0.96179668825f,
    0.577082541292f,
    0.411637611805f,
    0.342659429801f,
};

/* The same; error 5e-19. */
static const double log2_series_f64[] = {
    0x1.ec709dc3a03fdp-1, 0x1.2776c50efa006p-1, 0x1.a61762a6a6711p-2, 0x1.484b14a482677p-2,
    0x1.0c9a369b508f3p-2, 0x1.c6af80bcd2d48p-3, 0x1.864c9ba7f35bap-3, 0x1.921907da0732ap-3,
};

/* ((atanh(s) / s - 1) / s^2 - 1/3) / s^2 in s^2 <= 0.0401; error of atanh 2e-20. */
static const double atanh_series_f64[] = {
    0x1.9999999999999p-3, 0x1.24924924929a2p-3, 0x1.c71c71c5d1859p-4, 0x1.745d1846f9df8p-4,
    0x1.3b134f48c7465p-4, 0x1.1125432cc63f7p-4, 0x1.dd4bc703ca43bp-5, 0x1.f390140ece71dp-5,
};

/* (atan(t) / t - 1) / t^2 in t^2 <= 0.1716, a little more than tan(pi / 8)^2; error of atan
 * 8e-11. */
static const float atan_series_f32[] = {
    -0.333333332792f, 0.199999772422f,   -0.142841503021f,
    0.110713484992f,  -0.0862455294024f, 0.0504782062002f,
};

/* The same; error 2e-19. */
static const double atan_series_f64[] = {
    -0x1.5555555555555p-2, 0x1.9999999999953p-3, -0x1.249249248d7d1p-3, 0x1.c71c71c3035c8p-4,
    -0x1.745d165db0b8dp-4, 0x1.3b1392d24f334p-4, -0x1.110e878213478p-4, 0x1.e19a0779858c6p-5,
    -0x1.ac7a3950dfaa5p-5, 0x1.74dc387c1923ap-5, -0x1.1b2f96cc7bc6cp-5, 0x1.0aca40aee5b44p-6,
};

/* (asin(t) / t - 1) / t^2 in t^2 <= 1/4; error of asin 6e-11. */
static const float asin_series_f32[] = {
    0.166666666861f,  0.0749999238342f, 0.0446476752171f, 0.0302689191011f,
    0.0236137142219f, 0.0105669478213f, 0.0309854604f,
};

/* The same; error 4e-18. */
static const double asin_series_f64[] = {
    0x1.5555555555556p-3, 0x1.3333333332ec4p-4, 0x1.6db6db6e3292ep-5, 0x1.f1c71c1d4aa0dp-6,
    0x1.6e8bb1d89492cp-6, 0x1.1c4d343fa57eep-6, 0x1.c9cf3759fd9d9p-7, 0x1.78246f32cffefp-7,
    0x1.524ea8b3ad906p-7, 0x1.653a8f8ce7ab1p-8, 0x1.1d661531bfbf6p-6, -0x1.e7a24f54b44b4p-7,
    0x1.d781897681dfbp-6,
};

/* erf(x) / x - 1 in x^2 <= 1; error of erf 4e-11. */
static const float erf_series_f32[] = {
    0.128379167062f,   -0.376126384677f,    0.112837824901f,    -0.0268654303852f,
    0.00522103073486f, -0.000848406328353f, 0.000112658244315f, -9.66663124392e-6f,
};

/* The same; error 2e-19. */
static const double erf_series_f64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e6p-2,  0x1.ce2f21a042b2fp-4,  -0x1.b82ce31284df1p-6,
    0x1.565bcd0dba7cep-8,  -0x1.c02db3dabced8p-11, 0x1.f9a321d4dab9dp-14, -0x1.f4d1e306e0024p-17,
    0x1.b9df21654263fp-20, -0x1.5f1ec38082bbfp-23, 0x1.f7b46724de85ep-27, -0x1.389c36ba2329cp-30,
    0x1.05fccb83ceb07p-34,
};

/* e^(x^2) (1 - erf(x)) in t = (x - 3) / (x + 3) for 1 <= x <= 4; error of erf 4e-9. */
static const float erfc_series_f32[] = {
    0.179001144506f,  -0.326233674233f,  0.245605992243f,   -0.150098342972f,
    0.0716035039077f, -0.0250796377809f, 0.00274274907086f,
};

/* The same for 1 <= x <= 6; error 5e-18. */
static const double erfc_series_f64[] = {
    0x1.6e9827d229d2dp-3,   -0x1.4e102b9cf8512p-2, 0x1.f6ff20410599bp-3,  -0x1.336ffbef08cbbp-3,
    0x1.258b13b0139fep-4,   -0x1.8fa58eb5bd68fp-6, 0x1.17c838fea5806p-8,  0x1.73101ea8fe252p-11,
    -0x1.39085a31b18abp-11, 0x1.7b9fc8eb630e9p-15, 0x1.0cb1db32e0c9fp-14, -0x1.af2329d757293p-17,
    -0x1.0cb4611cc29f6p-17, 0x1.0f9a79cee3e31p-19, 0x1.57a5fe2b9b75ep-20,
};

#if VBYTES == 64
#  include "vmath_avx512.h"
#  include "vpower_avx512.h"
#endif

#define DTYPE f64
#define real  double
#define ureal uint64_t
#define vec   vf64
#define ivec  vi64
#define uvec  vu64
#include "vmath_dtype.h"
#include "vmath_elementary.h"
#include "vmath_inverse.h"
#undef DTYPE
#undef real
#undef ureal
#undef vec
#undef ivec
#undef uvec

#if VBYTES == 32
#  define POWER_TABLES
#endif
#define DTYPE f32
#define real  float
#define ureal uint32_t
#define vec   vf32
#define ivec  vi32
#define uvec  vu32
#include "vmath_dtype.h"
#include "vmath_elementary.h"
#include "vmath_inverse.h"
#undef DTYPE
#undef real
#undef ureal
#undef vec
#undef ivec
#undef uvec

#ifdef POWER_TABLES
#  include "vpower_avx2.h"
#  undef POWER_TABLES
#endif
#include "vpower_wide.h"

#include "vmath_circle.h"

#define WIDE_POWER_STATE(t)      const struct gram_power *const wide = (t)->power;
#define POWER_STRUCT             struct CAT(power, DTYPE)
#define POWER_STATE(t)           const POWER_STRUCT power = CAT(power_load, DTYPE)((t)->power);
#define v_power_add(acc, d)      CAT(power_add, DTYPE)(&power, acc, d)
#define v_wide_power_add(acc, d) ((acc) + CAT(wide_power, DTYPE)(wide, v_abs(d)))
#define v_signed_power(d)        CAT(signed_power, DTYPE)(&power, d)
#define v_signed_wide_power(d)   CAT(copy_sign, DTYPE)(CAT(wide_power, DTYPE)(wide, v_abs(d)), d)
#define v_sqrt_fast(a)           _Generic((a), vf32 : sqrt_fast_f32, vf64 : sqrt_fast_f64)(a)
