/*
 * kernels.h - instantiates every micro-kernel for the instruction set of the includer
 *
 * Read it as the list of what exists: the steps, one block for each dtype, one group of lines for
 * each micro-kernel, and the table at the end.  One that is absent from the table is absent from
 * gram.
 *
 * Every template sees, in a dtype's block:
 *   DTYPE   f32 or f64: part of names       real ireal   a number, an integer of its size
 *   vec ivec  vectors of them
 *
 * isa_<isa>.c sets ISA and VBYTES, defines the vector types and what operators cannot say, and
 * includes this file.  Arithmetic uses the compiler's vector extension (a + b, x * a, a < b), so
 * this list stays short:
 *
 *   vf32 vf64   vectors of VBYTES bytes          vi32 vi64   the same of integers
 *   v_abs(a)          |a|
 *   v_max_bits(a, b)  the larger of two vectors without sign bits, compared as integers, so that
 *                     a NaN is above every number
 *   v_sqrt(a)         the correctly rounded square root
 *   v_sum_abs(s, a)   s + |a|
 *   v_minus(b, x)     b - x, x a number in memory
 *   v_load(p)         the vector at p, which is read once
 *   v_stream(to, from)  copies a vector past the caches, to aligned to VBYTES; v_stream_end() once
 *                       after the last one, before others may read
 *   v_sign(a)         -1, 0 or 1 for a number, NaN for NaN
 *   v_any(mask)       true if any bit of a vector of integers is set
 *   v_keep(a, bound, first, to, places)  how many numbers of a are at most bound; these come to to,
 *                       and first plus their lanes to places, both with room for a whole vector
 *   v_totals(a, to)   to[i] = the sum of the numbers of a[i], of four vectors
 *
 * On AVX-512 v_sum_abs is a fused multiply-add by 1, exact, where compilers take an addition: the
 * differences already fill the adders of Zen 4 while its multipliers idle (1.5 cycles per 16 terms
 * of p = 1 against 2.0; AVX2 has no registers left for it).  v_minus broadcasts x within the
 * subtraction: a broadcast of its own, which compilers prefer when x is used more than once, takes
 * an adder's time there (1.0 cycles per 16 terms of p = 2 against 1.5).  v_load is for a vector of
 * which compilers would make an operand in memory of several multiply-adds: there is one load a
 * cycle, as there is one multiply-add.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kernels.h"

#define v_abs(a)         _Generic((a), vf32 : vf32_abs, vf64 : vf64_abs)(a)
#define v_max_bits(a, b) _Generic((a), vf32 : vf32_max_bits, vf64 : vf64_max_bits)(a, b)
#define v_sqrt(a)        _Generic((a), vf32 : vf32_sqrt, vf64 : vf64_sqrt)(a)
#define v_sum_abs(s, a)  _Generic((a), vf32 : vf32_sum_abs, vf64 : vf64_sum_abs)(s, a)
#define v_minus(b, x)    _Generic((b), vf32 : vf32_minus, vf64 : vf64_minus)(b, &(x))
#define v_load(p)        _Generic(*(p), vf32 : vf32_load, vf64 : vf64_load)(p)
#define v_sign(a)        _Generic((a), vf32 : vf32_sign, vf64 : vf64_sign)(a)
#if VBYTES == 64
#  define v_keep(a, bound, first, to, places) \
    _Generic((a), vf32 : vf32_keep, vf64 : vf64_keep)(a, bound, first, to, places)
#endif
#define v_any(mask)     vi32_any((vi32)(mask))
#define v_totals(a, to) _Generic(*(a), vf32 : vf32_totals, vf64 : vf64_totals)(a, to)

#define CAT_(a, b) a##_##b
#define CAT(a, b)  CAT_(a, b)
#define STR_(a)    #a
#define STR(a)     STR_(a)

#define UNROLL_FOR(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)

#define KRON_SOLVE_ROWS 4

/* Rows by vectors of the distance tile: as many accumulators as the registers hold. */
#if VBYTES == 64
#  define MR              12
#  define NV              2
#  define METRIC_ROWS     4
#  define POWER_ROWS      4 /* the tables of a power stay in registers too */
#  define KRON_FEW_BYTES  32
#  define KRON_VJP_ROWS   8
#  define KRON_SOLVE_SIDE 4
#elif VBYTES == 32
#  define MR              6
#  define NV              2
#  define METRIC_ROWS     2
#  define POWER_ROWS      2
#  define KRON_FEW_BYTES  16
#  define KRON_VJP_ROWS   4
#  define KRON_SOLVE_SIDE 2
#else
#  define MR              4
#  define NV              2
#  define METRIC_ROWS     2
#  define POWER_ROWS      2
#  define KRON_FEW_BYTES  16
#  define KRON_VJP_ROWS   4
#  define KRON_SOLVE_SIDE 2
#endif
/* Of a register tile of Kronecker products.  Compilers that instrument each access would take
 * minutes for the tiles of all sizes up to MR. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define KRON_ROWS 4
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define KRON_ROWS 4
#  endif
#endif
#ifndef KRON_ROWS
#  define KRON_ROWS MR
#endif

/* Terms of the distance tile.  UNEQUAL is 1, 0 or, where they do not compare, all bits: a NaN. */
#define DIFFERENCE(a, b) v_minus(b, a)
#define PRODUCT(a, b)    ((a) * (b))
#define UNEQUAL(a, b)    ((vec)((((b) != (a)) & (ivec)((vec){0} + 1)) | UNORDERED(a, b)))
#define UNORDERED(a, b)  ~(((b) < (a)) | ((b) >= (a)))
#define NO_STATE(t)

/* Rows copied past the caches.  The ends of a row that do not fill an aligned vector are copied as
 * usual. */
static void CAT(stream_rows, ISA)(void *to, int64_t to_stride, const void *from,
                                  int64_t from_stride, int64_t count, int64_t bytes)
{
    char *out = to;
    const char *in = from;

    for (int64_t r = 0; r < count; r++, out += to_stride, in += from_stride) {
        int64_t at = -(intptr_t)out & (VBYTES - 1);
        if (at > bytes)
            at = bytes;
        __builtin_memcpy(out, in, (size_t)at);
        for (; at + VBYTES <= bytes; at += VBYTES)
            v_stream(out + at, in + at);
        __builtin_memcpy(out + at, in + at, (size_t)(bytes - at));
    }
    v_stream_end();
}

#include "pairwise/metric_series.h"
#include "vmath.h"

/* --- f32 --- */
#define DTYPE f32
#define real  float
#define ireal int32_t
#define vec   vf32
#define ivec  vi32
#include "kernels_dtype.h"
#undef DTYPE
#undef real
#undef ireal
#undef vec
#undef ivec

/* --- f64 --- */
#define DTYPE f64
#define real  double
#define ireal int64_t
#define vec   vf64
#define ivec  vi64
#include "kernels_dtype.h"
#undef DTYPE
#undef real
#undef ireal
#undef vec
#undef ivec

/* --- Packed bits --- */
#include "pairwise/bits_kernels.h"

/* --- Kronecker products, integers too --- */
#define DTYPE f32
#define real  float
#include "kron/cpu_kron_matmul_dtype.h"

#define DTYPE f64
#define real  double
#include "kron/cpu_kron_matmul_dtype.h"

#define DTYPE i32
#define real  uint32_t
#include "kron/cpu_kron_matmul_dtype.h"

#define DTYPE i64
#define real  uint64_t
#include "kron/cpu_kron_matmul_dtype.h"

/* clang-format off */
#if VBYTES == 64
#  define BITS_BY_POPCOUNT {CAT(bits_hamming_popcount, ISA), CAT(bits_jaccard_popcount, ISA)}
#else
#  define BITS_BY_POPCOUNT {NULL, NULL}
#endif
#define KERNEL_OF(name, dtype) CAT(CAT(name, dtype), ISA)
#define CDIST_TILES(dtype)                                            \
  {                                                                   \
    [GRAM_STEP_ZERO]         = KERNEL_OF(cdist_zero, dtype),          \
    [GRAM_STEP_HALF]         = KERNEL_OF(cdist_half, dtype),          \
    [GRAM_STEP_ONE]          = KERNEL_OF(cdist_one, dtype),           \
    [GRAM_STEP_THREE_HALVES] = KERNEL_OF(cdist_three_halves, dtype),  \
    [GRAM_STEP_TWO]          = KERNEL_OF(cdist_two, dtype),           \
    [GRAM_STEP_THREE]        = KERNEL_OF(cdist_three, dtype),         \
    [GRAM_STEP_FOUR]         = KERNEL_OF(cdist_four, dtype),          \
    [GRAM_STEP_INFINITY]     = KERNEL_OF(cdist_infinity, dtype),      \
    [GRAM_STEP_POWER]        = KERNEL_OF(cdist_power, dtype),         \
    [GRAM_STEP_WIDE_POWER]   = KERNEL_OF(cdist_wide_power, dtype),    \
    [GRAM_STEP_DOT]          = KERNEL_OF(cdist_dot, dtype),           \
    [GRAM_STEP_CANBERRA]     = KERNEL_OF(metric_canberra, dtype),     \
    [GRAM_STEP_CHI2]         = KERNEL_OF(metric_chi2, dtype),         \
    [GRAM_STEP_HAMMING]      = KERNEL_OF(metric_hamming, dtype),      \
    [GRAM_STEP_KULLBACK_LEIBLER] = KERNEL_OF(metric_kullback_leibler, dtype), \
    [GRAM_STEP_JENSEN_SHANNON] = KERNEL_OF(metric_jensen_shannon, dtype), \
    [GRAM_STEP_BRAYCURTIS]   = KERNEL_OF(metric_braycurtis, dtype),   \
    [GRAM_STEP_NAN_EUCLIDEAN] = KERNEL_OF(metric_nan_euclidean, dtype), \
    [GRAM_STEP_HAVERSINE]    = KERNEL_OF(metric_haversine, dtype),    \
  }
#define KRON_VJP(dtype, size)                                         \
  {                                                                   \
    {VBYTES / (size), KRON_FEW_BYTES / (size)},                       \
    {KERNEL_OF(CAT(kron_vjp, dtype), full), KERNEL_OF(CAT(kron_vjp, dtype), half)}, \
  }

const struct gram_cpu_kernels CAT(gram_cpu_kernels, ISA) = {
    .isa = STR(ISA),
    .cdist[GRAM_F32] = {MR, NV * VBYTES / 4, CDIST_TILES(f32),
                        KERNEL_OF(cdist_square, f32), KERNEL_OF(cdist_centre, f32),
                        KERNEL_OF(metric_finish, f32)},
    .cdist[GRAM_F64] = {MR, NV * VBYTES / 8, CDIST_TILES(f64),
                        KERNEL_OF(cdist_square, f64), KERNEL_OF(cdist_centre, f64),
                        KERNEL_OF(metric_finish, f64)},
    .bits = {{CAT(bits_hamming, ISA), CAT(bits_jaccard, ISA)}, BITS_BY_POPCOUNT},
    .map[GRAM_F32] = KERNEL_OF(covariance, f32),
    .map[GRAM_F64] = KERNEL_OF(covariance, f64),
    .nearest_scan[GRAM_F32] = KERNEL_OF(nearest_scan, f32),
    .nearest_scan[GRAM_F64] = KERNEL_OF(nearest_scan, f64),
    .product[GRAM_F32] = &KERNEL_OF(product, f32),
    .product[GRAM_F64] = &KERNEL_OF(product, f64),
    .reduce[GRAM_F32] = &KERNEL_OF(reduce, f32),
    .reduce[GRAM_F64] = &KERNEL_OF(reduce, f64),
    .stream_rows = CAT(stream_rows, ISA),
    .cdist_grad[GRAM_F32] = &KERNEL_OF(cdist_grad, f32),
    .cdist_grad[GRAM_F64] = &KERNEL_OF(cdist_grad, f64),
    .cotangent[GRAM_F32] = KERNEL_OF(cotangent, f32),
    .cotangent[GRAM_F64] = KERNEL_OF(cotangent, f64),
    .solve[GRAM_F32] = &KERNEL_OF(solve, f32),
    .solve[GRAM_F64] = &KERNEL_OF(solve, f64),
    .kron_solve[GRAM_F32] = KERNEL_OF(kron_solve, f32),
    .kron_solve[GRAM_F64] = KERNEL_OF(kron_solve, f64),
    .gemm_skinny[GRAM_F32] = KERNEL_OF(gemm_skinny, f32),
    .gemm_skinny[GRAM_F64] = KERNEL_OF(gemm_skinny, f64),
    .symmetric_block[GRAM_F32] = KERNEL_OF(symmetric_block, f32),
    .symmetric_block[GRAM_F64] = KERNEL_OF(symmetric_block, f64),
    .eigh[GRAM_F32] = &KERNEL_OF(eigh, f32),
    .eigh[GRAM_F64] = &KERNEL_OF(eigh, f64),
    .kron[GRAM_F32] = &KERNEL_OF(kron, f32),
    .kron[GRAM_F64] = &KERNEL_OF(kron, f64),
    .kron[GRAM_I32] = &KERNEL_OF(kron, i32),
    .kron[GRAM_I64] = &KERNEL_OF(kron, i64),
    .kron_vjp[GRAM_F32] = KRON_VJP(f32, 4),
    .kron_vjp[GRAM_F64] = KRON_VJP(f64, 8),
};
/* clang-format on */
