/*
 * vmath.h - vector functions written here: powers, 2^x and the parts of them
 *
 * Included once, after simd_<isa>.h; defines for both dtypes, as <function>_<dtype>, static inline:
 *   vmath_avx512.h, vmath_base.h   what differs between instruction sets
 *   vmath_dtype.h                  a template: what does not
 *   vmath_elementary.h             a template: exp, logarithms and the like
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
