/*
 * device_intrinsics.h - CUDA's intrinsics, atomics and short vectors on the CPU
 *
 * Part of device_prelude.h.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_DEVICE_INTRINSICS_H
#define FAKE_DEVICE_INTRINSICS_H

/* ---- Intrinsics
 * ----------------------------------------------------------------------------------- */

static inline float __expf(float x)
{
    return expf(x);
}
static inline float __exp10f(float x)
{
    return exp10f(x);
}
static inline float __logf(float x)
{
    return logf(x);
}
static inline float __log2f(float x)
{
    return log2f(x);
}
static inline float __log10f(float x)
{
    return log10f(x);
}
static inline float __powf(float x, float y)
{
    return powf(x, y);
}
static inline float __sinf(float x)
{
    return sinf(x);
}
static inline float __cosf(float x)
{
    return cosf(x);
}
static inline float __tanf(float x)
{
    return tanf(x);
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
static inline float __frcp_rn(float x)
{
    return 1 / x;
}
static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
static inline float __frsqrt_rn(float x)
{
    return rsqrtf(x);
}
static inline float __fdiv_rn(float x, float y)
{
    return x / y;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
static inline double __drcp_rn(double x)
{
    return 1 / x;
}
static inline double __dsqrt_rn(double x)
{
    return sqrt(x);
}
static inline double __ddiv_rn(double x, double y)
{
    return x / y;
}
static inline float __saturatef(float x)
{
    return x > 0 ? x < 1 ? x : 1 : 0;
}
/* Rounded by themselves: never joined to a fused multiply-add. */
template <class T> static inline T fake_opaque(T x)
{
    __asm__("" : "+m"(x));
    return x;
}
static inline float __fadd_rn(float a, float b)
{
    return fake_opaque(a + b);
}
static inline float __fsub_rn(float a, float b)
{
    return fake_opaque(a - b);
}
static inline float __fmul_rn(float a, float b)
{
    return fake_opaque(a * b);
}
static inline double __dadd_rn(double a, double b)
{
    return fake_opaque(a + b);
}
static inline double __dsub_rn(double a, double b)
{
    return fake_opaque(a - b);
}
static inline double __dmul_rn(double a, double b)
{
    return fake_opaque(a * b);
}

template <class To, class From> static inline To fake_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits keep their number");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x)
{
    return fake_bits<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return fake_bits<unsigned>(x);
}
static inline float __int_as_float(int x)
{
    return fake_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return fake_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return fake_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return fake_bits<double>(x);
}
static inline int __double2hiint(double x)
{
    return (int)(__double_as_longlong(x) >> 32);
}
static inline int __double2loint(double x)
{
    return (int)__double_as_longlong(x);
}
static inline double __hiloint2double(int high, int low)
{
    return __longlong_as_double(
        (long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
static inline int __float2int_rn(float x)
{
    return (int)rintf(x);
}
static inline int __float2int_rz(float x)
{
    return (int)x;
}
static inline int __float2int_rd(float x)
{
    return (int)floorf(x);
}
static inline int __double2int_rn(double x)
{
    return (int)rint(x);
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
static inline int __mul24(int x, int y)
{
    return x * y;
}
static inline unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((unsigned long long)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T x)
{
    *p = x;
}
template <class T> static inline void __stcg(T *p, T x)
{
    *p = x;
}

/* ---- Atomics: one thread runs at a time
 * ------------------------------------------------------------ */

template <class T> struct fake_same {
    typedef T type;
};
template <class T> using fake_plain = typename fake_same<T>::type;
template <class T> static inline T atomicAdd(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = old + x;
    return old;
}
template <class T> static inline T atomicSub(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = old - x;
    return old;
}
template <class T> static inline T atomicExch(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = x;
    return old;
}
template <class T> static inline T atomicMax(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = old < x ? x : old;
    return old;
}
template <class T> static inline T atomicMin(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = x < old ? x : old;
    return old;
}
template <class T> static inline T atomicOr(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = old | x;
    return old;
}
template <class T> static inline T atomicAnd(T *p, fake_plain<T> x)
{
    T old = *p;
    *p = old & x;
    return old;
}
static inline unsigned atomicInc(unsigned *p, unsigned limit)
{
    unsigned old = *p;
    *p = old >= limit ? 0 : old + 1;
    return old;
}
template <class T> static inline T atomicCAS(T *p, fake_plain<T> compare, fake_plain<T> x)
{
    T old = *p;
    if (old == compare)
        *p = x;
    else
        fake_device.runtime->yield(); /* somebody may be waiting for another thread */
    return old;
}

/* ---- Short vectors
 * ----------------------------------------------------------------------------------- */

/* clang-format off */
#define FAKE_VECTORS(T, name) \
  struct name##1 { T x; }; \
  struct __align__(2 * sizeof(T)) name##2 { T x, y; }; \
  struct name##3 { T x, y, z; }; \
  struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; }; \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FAKE_VECTORS(float, float) FAKE_VECTORS(double, double) FAKE_VECTORS(int, int)
FAKE_VECTORS(unsigned, uint) FAKE_VECTORS(short, short) FAKE_VECTORS(unsigned short, ushort)
FAKE_VECTORS(signed char, char) FAKE_VECTORS(unsigned char, uchar)
FAKE_VECTORS(long long, longlong) FAKE_VECTORS(unsigned long long, ulonglong)
/* clang-format on */
#undef FAKE_VECTORS
#endif
