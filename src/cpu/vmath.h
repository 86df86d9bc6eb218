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
#include "vmath_series.h"
#include <math.h>

typedef uint32_t vu32 __attribute__((vector_size(VBYTES)));
typedef uint64_t vu64 __attribute__((vector_size(VBYTES)));
typedef float vf32_half __attribute__((vector_size(VBYTES / 2)));

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
