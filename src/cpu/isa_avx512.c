/*
 * isa_avx512.c - every micro-kernel, for AVX-512 F, DQ, BW and VL (Skylake-X, Zen 4 and later)
 *
 * Vectors have 64 bytes; kernels.h says what the functions of vectors do.
 *
 * SPDX-License-Identifier: MIT
 */
#include <immintrin.h>
#include <stdint.h>

#define ISA    avx512
#define VBYTES 64
typedef float vf32 __attribute__((vector_size(VBYTES)));
typedef double vf64 __attribute__((vector_size(VBYTES)));
typedef int32_t vi32 __attribute__((vector_size(VBYTES)));
typedef int64_t vi64 __attribute__((vector_size(VBYTES)));

static inline vf32 vf32_abs(vf32 a)
{
    return (vf32)_mm512_abs_ps((__m512)a);
}

static inline vf64 vf64_abs(vf64 a)
{
    return (vf64)_mm512_abs_pd((__m512d)a);
}

static inline vf32 vf32_max_bits(vf32 a, vf32 b)
{
    return (vf32)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

static inline vf64 vf64_max_bits(vf64 a, vf64 b)
{
    return (vf64)_mm512_max_epi64((__m512i)a, (__m512i)b);
}

static inline vf32 vf32_sqrt(vf32 a)
{
    return (vf32)_mm512_sqrt_ps((__m512)a);
}

static inline vf64 vf64_sqrt(vf64 a)
{
    return (vf64)_mm512_sqrt_pd((__m512d)a);
}

static inline vf32 vf32_sum_abs(vf32 s, vf32 a)
{
    const vf32 one = (vf32){0} + 1;

    __asm__("vfmadd231ps %2, %1, %0" : "+v"(s) : "v"(vf32_abs(a)), "v"(one));
    return s;
}

static inline vf32 vf32_minus(vf32 b, const float *x)
{
    vf32 d;

    __asm__("vsubps %2%{1to16%}, %1, %0" : "=v"(d) : "v"(b), "m"(*x));
    return d;
}

static inline vf32 vf32_load(const vf32 *x)
{
    vf32 a;

    __asm__("vmovaps %1, %0" : "=v"(a) : "m"(*x));
    return a;
}

static inline vf64 vf64_load(const vf64 *x)
{
    vf64 a;

    __asm__("vmovapd %1, %0" : "=v"(a) : "m"(*x));
    return a;
}

static inline vf64 vf64_sum_abs(vf64 s, vf64 a)
{
    const vf64 one = (vf64){0} + 1;

    __asm__("vfmadd231pd %2, %1, %0" : "+v"(s) : "v"(vf64_abs(a)), "v"(one));
    return s;
}

static inline vf64 vf64_minus(vf64 b, const double *x)
{
    vf64 d;

    __asm__("vsubpd %2%{1to8%}, %1, %0" : "=v"(d) : "v"(b), "m"(*x));
    return d;
}

/* One instruction looks the class of each number up: NaN stays, zeros are 0, the rest +-1. */
#define SIGN_TABLE 0xA9A9A800 /* quiet, signalling NaN; 0; 1; -inf; inf; negative; positive */

static inline vf32 vf32_sign(vf32 a)
{
    return (vf32)_mm512_fixupimm_ps((__m512)a, (__m512)a, _mm512_set1_epi32((int)SIGN_TABLE), 0);
}

static inline vf64 vf64_sign(vf64 a)
{
    return (vf64)_mm512_fixupimm_pd((__m512d)a, (__m512d)a, _mm512_set1_epi64(SIGN_TABLE), 0);
}

static inline int vi32_any(vi32 a)
{
    return _mm512_test_epi32_mask((__m512i)a, (__m512i)a) != 0;
}

static inline int vf32_keep(vf32 a, vf32 bound, int32_t first, float *to, int32_t *places)
{
    const __mmask16 kept = _mm512_cmp_ps_mask((__m512)a, (__m512)bound, _CMP_LE_OQ);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(kept, (__m512)a));
    _mm512_storeu_si512(places, _mm512_maskz_compress_epi32(
                                    kept, _mm512_add_epi32(lanes, _mm512_set1_epi32(first))));
    return __builtin_popcount(kept);
}

static inline int vf64_keep(vf64 a, vf64 bound, int32_t first, double *to, int32_t *places)
{
    const __mmask8 kept = _mm512_cmp_pd_mask((__m512d)a, (__m512d)bound, _CMP_LE_OQ);
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);

    _mm512_storeu_pd(to, _mm512_maskz_compress_pd(kept, (__m512d)a));
    _mm256_storeu_si256(
        (__m256i *)places,
        _mm256_maskz_compress_epi32(kept, _mm256_add_epi32(lanes, _mm256_set1_epi32(first))));
    return __builtin_popcount(kept);
}

static inline void vf32_totals(const vf32 *a, float *to)
{
    const __m512 s = _mm512_unpacklo_ps((__m512)a[0], (__m512)a[1]) +
                     _mm512_unpackhi_ps((__m512)a[0], (__m512)a[1]);
    const __m512 t = _mm512_unpacklo_ps((__m512)a[2], (__m512)a[3]) +
                     _mm512_unpackhi_ps((__m512)a[2], (__m512)a[3]);
    const __m512 u = (__m512)(_mm512_unpacklo_pd((__m512d)s, (__m512d)t)) +
                     (__m512)(_mm512_unpackhi_pd((__m512d)s, (__m512d)t));
    const __m256 v = _mm512_castps512_ps256(u) + _mm512_extractf32x8_ps(u, 1);

    _mm_storeu_ps(to, _mm256_castps256_ps128(v) + _mm256_extractf128_ps(v, 1));
}

static inline __m128d vf64_total_two(vf64 a, vf64 b)
{
    const __m512d s =
        _mm512_unpacklo_pd((__m512d)a, (__m512d)b) + _mm512_unpackhi_pd((__m512d)a, (__m512d)b);
    const __m256d t = _mm512_castpd512_pd256(s) + _mm512_extractf64x4_pd(s, 1);

    return _mm256_castpd256_pd128(t) + _mm256_extractf128_pd(t, 1);
}

static inline void vf64_totals(const vf64 *a, double *to)
{
    _mm_storeu_pd(to, vf64_total_two(a[0], a[1]));
    _mm_storeu_pd(to + 2, vf64_total_two(a[2], a[3]));
}

static inline void v_stream(void *to, const void *from)
{
    _mm512_stream_si512((__m512i *)to, (__m512i)_mm512_loadu_ps(from));
}

static inline void v_stream_end(void)
{
    _mm_sfence();
}

#include "kernels.h"
