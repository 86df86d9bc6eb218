/*
 * each_dtype.h - template: includes TEMPLATE once for each dtype
 *
 * Parameters, undefined again at the end:
 *   TEMPLATE  the header, in quotes
 *   HALVES    1: for f16 and bf16 too, besides f32 and f64
 *   INTEGERS  1: for i32 and i64 too
 *
 * What TEMPLATE finds defined, and what is undefined again after it:
 *   SOURCE     f32, f64, i32, i64, f16 or bf16
 *   stored     the type of an element in memory
 *   real       the type of the arithmetic (unsigned integers wrap around)
 *   HALF       1 for f16 and bf16: a template may leave out what only dtypes of arithmetic need
 *   CAT(f, s)  f_s: names the functions, as in CAT(pack, SOURCE)
 *   LOAD(e)    an element's value
 *   STORE(v)   a value as an element
 *   NUMBER(s)  a double as a real
 *
 * SPDX-License-Identifier: MIT
 */
#include "half.h"

#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)

#define HALF     0
#define LOAD(e)  (e)
#define STORE(v) (v)
#if INTEGERS
#  define NUMBER(s) ((real)(int64_t)(s))
#  define SOURCE    i32
#  define stored    uint32_t
#  define real      uint32_t
#  include TEMPLATE
#  undef SOURCE
#  undef stored
#  undef real
#  define SOURCE i64
#  define stored uint64_t
#  define real   uint64_t
#  include TEMPLATE
#  undef SOURCE
#  undef stored
#  undef real
#  undef NUMBER
#endif

#define NUMBER(s) ((real)(s))
#define SOURCE    f32
#define stored    float
#define real      float
#include TEMPLATE
#undef SOURCE
#undef stored
#undef real
#define SOURCE f64
#define stored double
#define real   double
#include TEMPLATE
#undef SOURCE
#undef stored
#undef real
#undef LOAD
#undef STORE
#undef HALF

#if HALVES
#  define HALF     1
#  define LOAD(e)  from_f16(e)
#  define STORE(v) to_f16(v)
#  define SOURCE   f16
#  define stored   uint16_t
#  define real     float
#  include TEMPLATE
#  undef SOURCE
#  undef stored
#  undef real
#  undef LOAD
#  undef STORE
#  define LOAD(e)  from_bf16(e)
#  define STORE(v) to_bf16(v)
#  define SOURCE   bf16
#  define stored   uint16_t
#  define real     float
#  include TEMPLATE
#  undef SOURCE
#  undef stored
#  undef real
#  undef LOAD
#  undef STORE
#  undef HALF
#endif

#undef NUMBER
#undef CAT
#undef CAT_
#undef TEMPLATE
#undef HALVES
#undef INTEGERS
