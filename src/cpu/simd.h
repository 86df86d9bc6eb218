/*
 * simd.h - the vector vocabulary that kernel templates are written in
 *
 * Include exactly one simd_<isa>.h, which sets ISA and VBYTES, defines the vector types and what
 * operators cannot say, and includes this file.  Arithmetic uses the compiler's vector extension
 * (a + b, x * a, a < b), so this list stays short.
 *
 *   vf32 vf64   vectors of VBYTES bytes          vi32 vi64   the same of integers
 *   v_abs(a)          |a|
 *   v_max_bits(a, b)  the larger of two vectors without sign bits, compared as integers, so that
 *                     a NaN is above every number
 *   v_sqrt(a)         the correctly rounded square root
 *   v_sum_abs(s, a)   s + |a|
 *   v_minus(b, x)     b - x, x a number in memory
 *   v_stream(to, from)  copies a vector past the caches, to aligned to VBYTES; v_stream_end() once
 *                       after the last one, before others may read
 *   v_sign(a)         -1, 0 or 1 for a number, NaN for NaN
 *   v_any(mask)       true if any bit of a vector of integers is set
 *
 * On AVX-512 v_sum_abs is a fused multiply-add by 1, exact, where compilers take an addition: the
 * differences already fill the adders of Zen 4 while its multipliers idle (1.5 cycles per 16 terms
 * of p = 1 against 2.0; AVX2 has no registers left for it).  v_minus broadcasts x within the
 * subtraction: a broadcast of its own, which compilers prefer when x is used more than once, takes
 * an adder's time there (1.0 cycles per 16 terms of p = 2 against 1.5).
 *
 * SPDX-License-Identifier: MIT
 */
#define v_abs(a)         _Generic((a), vf32 : vf32_abs, vf64 : vf64_abs)(a)
#define v_max_bits(a, b) _Generic((a), vf32 : vf32_max_bits, vf64 : vf64_max_bits)(a, b)
#define v_sqrt(a)        _Generic((a), vf32 : vf32_sqrt, vf64 : vf64_sqrt)(a)
#define v_sum_abs(s, a)  _Generic((a), vf32 : vf32_sum_abs, vf64 : vf64_sum_abs)(s, a)
#define v_minus(b, x)    _Generic((b), vf32 : vf32_minus, vf64 : vf64_minus)(b, &(x))
#define v_sign(a)        _Generic((a), vf32 : vf32_sign, vf64 : vf64_sign)(a)
#define v_any(mask)      vi32_any((vi32)(mask))

#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)
#define STR_(a)    #a
#define STR(a)     STR_(a)
