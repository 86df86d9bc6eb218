/*
 * isa_base.c - every micro-kernel, built without intrinsics: SSE2, NEON, anything else
 *
 * Vectors have 16 bytes; kernels.h says what the functions of vectors do.
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdint.h>

#define ISA    base
#define VBYTES 16
typedef float vf32 __attribute__((vector_size(VBYTES)));
typedef double vf64 __attribute__((vector_size(VBYTES)));
typedef int32_t vi32 __attribute__((vector_size(VBYTES)));
typedef int64_t vi64 __attribute__((vector_size(VBYTES)));

static inline vf32 vf32_abs(vf32 a)
{
    return (vf32)((vi32)a & INT32_MAX);
}

static inline vf64 vf64_abs(vf64 a)
{
    return (vf64)((vi64)a & INT64_MAX);
}

static inline vf32 vf32_max_bits(vf32 a, vf32 b)
{
    vi32 greater = (vi32)a > (vi32)b;

    return (vf32)((greater & (vi32)a) | (~greater & (vi32)b));
}

static inline vf64 vf64_max_bits(vf64 a, vf64 b)
{
    vi64 greater = (vi64)a > (vi64)b;

    return (vf64)((greater & (vi64)a) | (~greater & (vi64)b));
}

static inline vf32 vf32_sqrt(vf32 a)
{
    for (int i = 0; i < VBYTES / 4; i++)
        a[i] = __builtin_sqrtf(a[i]);
    return a;
}

static inline vf64 vf64_sqrt(vf64 a)
{
    for (int i = 0; i < VBYTES / 8; i++)
        a[i] = __builtin_sqrt(a[i]);
    return a;
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

static inline vf32 vf32_sign(vf32 a)
{
    const vf32 one = (vf32){0} + 1;

    /* a != a where a is NaN: NOLINTNEXTLINE(misc-redundant-expression) */
    return (vf32)(((((vi32)a & INT32_MIN) | (vi32)one) & (a != 0)) | (a != a));
}

static inline vf64 vf64_sign(vf64 a)
{
    const vf64 one = (vf64){0} + 1;

    /* a != a where a is NaN: NOLINTNEXTLINE(misc-redundant-expression) */
    return (vf64)(((((vi64)a & INT64_MIN) | (vi64)one) & (a != 0)) | (a != a));
}

static inline int vi32_any(vi32 a)
{
    vi64 words = (vi64)a;

    return (words[0] | words[1]) != 0;
}

static inline void vf32_totals(const vf32 *a, float *to)
{
    for (int i = 0; i < 4; i++)
        to[i] = (a[i][0] + a[i][2]) + (a[i][1] + a[i][3]);
}

static inline void vf64_totals(const vf64 *a, double *to)
{
    for (int i = 0; i < 4; i++)
        to[i] = a[i][0] + a[i][1];
}

static inline void v_stream(void *to, const void *from)
{
    __builtin_memcpy(to, from, VBYTES);
}

static inline void v_stream_end(void)
{
}

#include "kernels.h"
