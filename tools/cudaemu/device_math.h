/*
 * device_math.h - CUDA's mathematical functions on the CPU
 *
 * Part of device_prelude.h.  Functions that CUDA approximates are exact here up to the host's
 * rounding.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_DEVICE_MATH_H
#define FAKE_DEVICE_MATH_H

/* ---- Functions of both precisions: CUDA overloads the plain name, and has C's for f32
 * ------------ */

/* clang-format off */
#define FAKE_UNARY(name) \
  extern "C" double name(double); extern "C" float name##f(float); \
  static inline float name(float x) { return name##f(x); }
#define FAKE_BINARY(name) \
  extern "C" double name(double, double); extern "C" float name##f(float, float); \
  static inline float name(float x, float y) { return name##f(x, y); }

FAKE_UNARY(sqrt) FAKE_UNARY(exp) FAKE_UNARY(exp2) FAKE_UNARY(exp10) FAKE_UNARY(expm1)
FAKE_UNARY(log) FAKE_UNARY(log2) FAKE_UNARY(log10) FAKE_UNARY(log1p) FAKE_UNARY(sin)
FAKE_UNARY(cos) FAKE_UNARY(tan) FAKE_UNARY(asin) FAKE_UNARY(acos) FAKE_UNARY(atan)
FAKE_UNARY(sinh) FAKE_UNARY(cosh) FAKE_UNARY(tanh) FAKE_UNARY(asinh) FAKE_UNARY(acosh)
FAKE_UNARY(atanh) FAKE_UNARY(cbrt) FAKE_UNARY(erf) FAKE_UNARY(erfc) FAKE_UNARY(lgamma)
FAKE_UNARY(tgamma) FAKE_UNARY(floor) FAKE_UNARY(ceil) FAKE_UNARY(trunc) FAKE_UNARY(round)
FAKE_UNARY(rint) FAKE_UNARY(nearbyint) FAKE_UNARY(fabs)
FAKE_BINARY(pow) FAKE_BINARY(atan2) FAKE_BINARY(fmod) FAKE_BINARY(hypot) FAKE_BINARY(copysign)
FAKE_BINARY(fmin) FAKE_BINARY(fmax) FAKE_BINARY(fdim) FAKE_BINARY(remainder)
FAKE_BINARY(nextafter)
/* clang-format on */
#undef FAKE_UNARY
#undef FAKE_BINARY

                                        extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
extern "C" double frexp(double, int *);
extern "C" float frexpf(float, int *);
extern "C" double scalbn(double, int);
extern "C" float scalbnf(float, int);
extern "C" int ilogb(double);
extern "C" int ilogbf(float);
extern "C" double modf(double, double *);
static inline float fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float ldexp(float x, int e)
{
    return ldexpf(x, e);
}
static inline float frexp(float x, int *e)
{
    return frexpf(x, e);
}
static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}
static inline float rsqrtf(float x)
{
    return (float)(1 / sqrt((double)x));
}
static inline float rsqrt(float x)
{
    return rsqrtf(x);
}
static inline double rcbrt(double x)
{
    return 1 / cbrt(x);
}
static inline float rcbrtf(float x)
{
    return (float)(1 / cbrt((double)x));
}

static inline bool isnan(double x)
{
    return x != x;
}
static inline bool isnan(float x)
{
    return x != x;
}
static inline bool isinf(double x)
{
    return __builtin_isinf(x);
}
static inline bool isinf(float x)
{
    return __builtin_isinf(x);
}
static inline double cospi(double x)
{
    return cos(3.141592653589793 * x);
}
static inline bool isfinite(double x)
{
    return __builtin_isfinite(x);
}
static inline bool isfinite(float x)
{
    return __builtin_isfinite(x);
}
static inline bool signbit(double x)
{
    return __builtin_signbit(x);
}
static inline bool signbit(float x)
{
    return __builtin_signbit(x);
}

static inline int abs(int x)
{
    return x < 0 ? -x : x;
}
static inline long long abs(long long x)
{
    return x < 0 ? -x : x;
}
static inline float abs(float x)
{
    return fabsf(x);
}
static inline double abs(double x)
{
    return fabs(x);
}
static inline long long llabs(long long x)
{
    return x < 0 ? -x : x;
}

#define FAKE_MIN_MAX(T)         \
  static inline T min(T a, T b) \
  {                             \
    return b < a ? b : a;       \
  }                             \
  static inline T max(T a, T b) \
  {                             \
    return a < b ? b : a;       \
  }
/* clang-format off */
FAKE_MIN_MAX(int) FAKE_MIN_MAX(unsigned) FAKE_MIN_MAX(long) FAKE_MIN_MAX(unsigned long)
FAKE_MIN_MAX(long long) FAKE_MIN_MAX(unsigned long long)
/* clang-format on */
#undef FAKE_MIN_MAX
        static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}
#include "device_intrinsics.h"
#endif
