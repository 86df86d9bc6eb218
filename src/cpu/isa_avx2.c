/*
 * isa_avx2.c - every micro-kernel, built for AVX2 and FMA (Haswell, Zen and later)
 *
 * Vectors have 32 bytes; kernels.h says what the functions of vectors do.
 *
 * SPDX-License-Identifier: MIT
 */
#include <immintrin.h>
#include <stdint.h>

#define ISA    avx2
#define VBYTES 32
typedef float vf32 __attribute__((vector_size(VBYTES)));
typedef double vf64 __attribute__((vector_size(VBYTES)));
typedef int32_t vi32 __attribute__((vector_size(VBYTES)));
typedef int64_t vi64 __attribute__((vector_size(VBYTES)));

static inline vf32 vf32_abs(vf32 a)
{
    return (vf32)_mm256_andnot_ps(_mm256_set1_ps(-0.0f), (__m256)a);
}

static inline vf64 vf64_abs(vf64 a)
{
    return (vf64)_mm256_andnot_pd(_mm256_set1_pd(-0.0), (__m256d)a);
}

static inline vf32 vf32_max_bits(vf32 a, vf32 b)
{
    return (vf32)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

static inline vf64 vf64_max_bits(vf64 a, vf64 b)
{
    __m256i greater = _mm256_cmpgt_epi64((__m256i)a, (__m256i)b);

    return (vf64)_mm256_blendv_epi8((__m256i)b, (__m256i)a, greater);
}

static inline vf32 vf32_sqrt(vf32 a)
{
    return (vf32)_mm256_sqrt_ps((__m256)a);
}

static inline vf64 vf64_sqrt(vf64 a)
{
    return (vf64)_mm256_sqrt_pd((__m256d)a);
}

static inline vf32 vf32_sum_abs(vf32 s, vf32 a)
{
    return s + vf32_abs(a);
}

static inline vf32 vf32_minus(vf32 b, const float *x)
{
    return b - *x;
}

static inline vf32 vf32_load(const vf32 *x)
{
    return *x;
}

static inline vf64 vf64_load(const vf64 *x)
{
    return *x;
}

static inline vf64 vf64_sum_abs(vf64 s, vf64 a)
{
    return s + vf64_abs(a);
}

static inline vf64 vf64_minus(vf64 b, const double *x)
{
    return b - *x;
}

/* Twice 2^127 makes even the least denormal more than 1; min and max keep their second operand
 * where it is NaN. */
static inline vf32 vf32_sign(vf32 a)
{
    const __m256 one = _mm256_set1_ps(1), large = (__m256)(a * 0x1p127f * 0x1p127f);

    return (vf32)_mm256_max_ps(-one, _mm256_min_ps(one, large));
}

static inline vf64 vf64_sign(vf64 a)
{
    const __m256d one = _mm256_set1_pd(1), large = (__m256d)(a * 0x1p1023 * 0x1p1023);

    return (vf64)_mm256_max_pd(-one, _mm256_min_pd(one, large));
}

static inline int vi32_any(vi32 a)
{
    return !_mm256_testz_si256((__m256i)a, (__m256i)a);
}

static inline void vf32_totals(const vf32 *a, float *to)
{
    const __m256 s = _mm256_unpacklo_ps((__m256)a[0], (__m256)a[1]) +
                     _mm256_unpackhi_ps((__m256)a[0], (__m256)a[1]);
    const __m256 t = _mm256_unpacklo_ps((__m256)a[2], (__m256)a[3]) +
                     _mm256_unpackhi_ps((__m256)a[2], (__m256)a[3]);
    const __m256 u = (__m256)(_mm256_unpacklo_pd((__m256d)s, (__m256d)t)) +
                     (__m256)(_mm256_unpackhi_pd((__m256d)s, (__m256d)t));

    _mm_storeu_ps(to, _mm256_castps256_ps128(u) + _mm256_extractf128_ps(u, 1));
}

static inline __m128d vf64_total_two(vf64 a, vf64 b)
{
    const __m256d s =
        _mm256_unpacklo_pd((__m256d)a, (__m256d)b) + _mm256_unpackhi_pd((__m256d)a, (__m256d)b);

    return _mm256_castpd256_pd128(s) + _mm256_extractf128_pd(s, 1);
}

static inline void vf64_totals(const vf64 *a, double *to)
{
    _mm_storeu_pd(to, vf64_total_two(a[0], a[1]));
    _mm_storeu_pd(to + 2, vf64_total_two(a[2], a[3]));
}

static inline void v_stream(void *to, const void *from)
{
    _mm256_stream_si256((__m256i *)to, (__m256i)_mm256_loadu_ps(from));
}

static inline void v_stream_end(void)
{
    _mm_sfence();
}

#include "kernels.h"
