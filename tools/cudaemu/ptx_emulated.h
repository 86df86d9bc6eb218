/*
 * ptx_emulated.h - the instructions of src/cuda/ptx.cuh in C++, which it says what they do
 *
 * Approximations come from the C library; what hardware flushes to zero is flushed here too.
 * Products of warps are summed in the order of k, in f32 (f64 for f64).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_PTX_EMULATED_H
#define FAKE_PTX_EMULATED_H

static inline float fake_flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static inline float ptx_exp2(float x)
{
    return fake_flushed(exp2f(fake_flushed(x)));
}
static inline float ptx_log2(float x)
{
    return log2f(fake_flushed(x));
}
static inline float ptx_sqrt(float x)
{
    return sqrtf(x);
}
static inline float ptx_sqrt_of_normal(float x)
{
    return sqrtf(fake_flushed(x));
}
static inline float ptx_rsqrt(float x)
{
    return rsqrtf(fake_flushed(x));
}
static inline float ptx_reciprocal(float x)
{
    return fake_flushed(1 / fake_flushed(x));
}
static inline float ptx_fma_saturated(float a, float b, float c)
{
    const float y = fmaf(a, b, c);

    return y > 1 ? 1 : y > 0 ? y : 0;
}
static inline unsigned ptx_thread()
{
    return threadIdx.x;
}
/* Within dynamic shared memory: nothing else is read by its address. */
static inline unsigned ptx_shared_address(const void *shared)
{
    return (unsigned)((const char *)shared - fake_dynamic);
}
template <typename T, int COUNT> static inline void ptx_read_shared(T (&to)[COUNT], unsigned from)
{
    __builtin_memcpy(to, fake_dynamic + from, sizeof to);
}
template <typename T, int COUNT> static inline void ptx_write_global(T *to, const T (&v)[COUNT])
{
    struct alignas(sizeof(T) * COUNT) run {
        T v[COUNT];
    } out;

    __builtin_memcpy(&out, v, sizeof out);
    *(run *)to = out;
}
static inline float ptx_largest(float a, float b)
{
    return a > b || a != a ? a : b;
}

/* ---- 16-bit numbers -------------------------------------------------------------------------- */

static inline float ptx_float_of_half(unsigned short x)
{
    const unsigned sign = (x & 0x8000u) << 16, exponent = x >> 10 & 31, fraction = x & 0x3ffu;

    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0)
        return copysignf((float)fraction * 0x1p-24f, __uint_as_float(sign));
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

/* The nearest multiple of unit, a power of two; ties to even. */
static inline float fake_rounded(float x, float unit)
{
    return rintf(x / unit) * unit;
}

static inline unsigned short ptx_half_of_float(float x)
{
    const unsigned sign = __float_as_uint(x) >> 16 & 0x8000u;
    float size = fabsf(x);
    int e;

    if (x != x)
        return 0x7fff;
    if (size >= 65520)
        return (unsigned short)(sign | 0x7c00);
    if (size < 0x1p-14f)
        return (unsigned short)(sign | (unsigned)(int)rintf(size * 0x1p24f));
    (void)frexpf(size, &e); /* size = m 2^e, 1/2 <= m < 1 */
    size = fake_rounded(size, ldexpf(1, e - 11));
    const unsigned bits = __float_as_uint(size);
    return (unsigned short)(sign | ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
}

static inline float ptx_float_of_bfloat(unsigned short x)
{
    return __uint_as_float((unsigned)x << 16);
}

static inline unsigned short ptx_bfloat_of_float(float x)
{
    const unsigned bits = __float_as_uint(x);

    if (x != x)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline unsigned ptx_halves_of_floats(float low, float high)
{
    return ptx_half_of_float(low) | (unsigned)ptx_half_of_float(high) << 16;
}

static inline unsigned ptx_bfloats_of_floats(float low, float high)
{
    return ptx_bfloat_of_float(low) | (unsigned)ptx_bfloat_of_float(high) << 16;
}

static inline float fake_bfloat_of(unsigned two, int which)
{
    return ptx_float_of_bfloat((unsigned short)(two >> 16 * which));
}
static inline unsigned ptx_fma_of_bfloats(unsigned a, unsigned b, unsigned c)
{
    float y[2];

    for (int i = 0; i < 2; i++)
        y[i] = fmaf(fake_bfloat_of(a, i), fake_bfloat_of(b, i), fake_bfloat_of(c, i));
    return ptx_bfloats_of_floats(y[0], y[1]);
}

static inline unsigned ptx_upper_halves(float low, float high)
{
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xffff0000u);
}

static inline unsigned ptx_tf32_of_float(float x)
{
    const unsigned bits = __float_as_uint(x);

    if ((bits & 0x7f800000u) == 0x7f800000u)
        return bits & 0x7fffff ? 0x7fffffffu : bits;
    return (bits + 0x1000) & 0xffffe000u;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

template <int SIZE> static inline void ptx_copy_async(void *shared, const void *global, int bytes)
{
    static_assert(SIZE == 4 || SIZE == 8 || SIZE == 16, "cp.async copies 4, 8 or 16 bytes");
    fake_device.runtime->copy(shared, global, SIZE, bytes);
}

static inline void ptx_copy_commit()
{
    fake_device.runtime->commit();
}
template <int GROUPS> static inline void ptx_copy_wait()
{
    fake_device.runtime->wait(GROUPS);
}

/* Launches run one after the other. */
static inline void ptx_grid_next()
{
}
static inline void ptx_grid_wait()
{
    fake_device.runtime->wait_launch();
}

/* ---- Matrices -------------------------------------------------------------------------------- */

struct fake_matrix_rows {
    const void *row;
    unsigned *r;
};

template <int COUNT, bool TRANSPOSED>
static void fake_load_matrices(unsigned, void *const *arguments)
{
    const struct fake_matrix_rows *lane[FAKE_WARP];
    unsigned short at[8][8];

    for (int i = 0; i < FAKE_WARP; i++)
        lane[i] = (const struct fake_matrix_rows *)arguments[i];
    for (int m = 0; m < COUNT; m++) {
        for (int r = 0; r < 8; r++) {
            if ((size_t)lane[8 * m + r]->row % 16)
                fake_device.runtime->fail("ldmatrix: row %d of matrix %d is not aligned", r, m);
            __builtin_memcpy(at[r], lane[8 * m + r]->row, 16);
        }
        for (int i = 0; i < FAKE_WARP; i++) {
            const int g = i / 4, t = i % 4 * 2;
            lane[i]->r[m] = TRANSPOSED ? at[t][g] | (unsigned)at[t + 1][g] << 16
                                       : at[g][t] | (unsigned)at[g][t + 1] << 16;
        }
    }
}

template <int COUNT, bool TRANSPOSED> static void fake_ldmatrix(unsigned *r, const void *row)
{
    struct fake_matrix_rows mine = {row, r};

    fake_device.runtime->meet(0xffffffff, &mine, fake_load_matrices<COUNT, TRANSPOSED>);
}

static inline void ptx_ldmatrix_x1(unsigned r[1], const void *row)
{
    fake_ldmatrix<1, false>(r, row);
}
static inline void ptx_ldmatrix_x2(unsigned r[2], const void *row)
{
    fake_ldmatrix<2, false>(r, row);
}
static inline void ptx_ldmatrix_x4(unsigned r[4], const void *row)
{
    fake_ldmatrix<4, false>(r, row);
}
static inline void ptx_ldmatrix_x1_trans(unsigned r[1], const void *row)
{
    fake_ldmatrix<1, true>(r, row);
}
static inline void ptx_ldmatrix_x2_trans(unsigned r[2], const void *row)
{
    fake_ldmatrix<2, true>(r, row);
}
static inline void ptx_ldmatrix_x4_trans(unsigned r[4], const void *row)
{
    fake_ldmatrix<4, true>(r, row);
}

/* ---- Products -------------------------------------------------------------------------------- */

struct fake_fragments {
    void *c;
    const void *a, *b;
};

/* The element'th 16-bit element of the registers. */
static inline unsigned short fake_half_at(const unsigned *r, int element)
{
    return (unsigned short)(r[element / 2] >> element % 2 * 16);
}

/* One of a 16 by 8 matrix of f32: row g or g + 8, column 2t or 2t + 1. */
static inline float *fake_sum_at(const struct fake_fragments *const *lane, int row, int col)
{
    return (float *)lane[row % 8 * 4 + col / 2]->c + row / 8 * 2 + col % 2;
}

static void fake_multiply_tf32(unsigned, void *const *arguments)
{
    const struct fake_fragments *const *lane = (const struct fake_fragments *const *)arguments;
    const unsigned cut = 0xffffe000u;

    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 8; k++) {
                const unsigned *a = (const unsigned *)lane[i % 8 * 4 + k % 4]->a;
                const unsigned *b = (const unsigned *)lane[j * 4 + k % 4]->b;
                *fake_sum_at(lane, i, j) +=
                    __uint_as_float(a[i / 8 + k / 4 * 2] & cut) * __uint_as_float(b[k / 4] & cut);
            }
}

template <float (*FLOAT_OF)(unsigned short)>
static void fake_multiply_16(unsigned, void *const *arguments)
{
    const struct fake_fragments *const *lane = (const struct fake_fragments *const *)arguments;

    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 16; k++) {
                const unsigned *a = (const unsigned *)lane[i % 8 * 4 + k % 8 / 2]->a;
                const unsigned *b = (const unsigned *)lane[j * 4 + k % 8 / 2]->b;
                *fake_sum_at(lane, i, j) += FLOAT_OF(fake_half_at(a + i / 8 + k / 8 * 2, k % 2)) *
                                            FLOAT_OF(fake_half_at(b + k / 8, k % 2));
            }
}

static void fake_multiply_f64(unsigned, void *const *arguments)
{
    const struct fake_fragments *const *lane = (const struct fake_fragments *const *)arguments;

    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 4; k++)
                ((double *)lane[i * 4 + j / 2]->c)[j % 2] +=
                    *(const double *)lane[i * 4 + k]->a * *(const double *)lane[j * 4 + k]->b;
}

static inline void fake_mma(void *c, const void *a, const void *b, fake_together *multiply)
{
    struct fake_fragments mine = {c, a, b};

    fake_device.runtime->meet(0xffffffff, &mine, multiply);
}

static inline void ptx_mma_tf32(float c[4], const unsigned a[4], const unsigned b[2])
{
    fake_mma(c, a, b, fake_multiply_tf32);
}

static inline void ptx_mma_f16(float c[4], const unsigned a[4], const unsigned b[2])
{
    fake_mma(c, a, b, fake_multiply_16<ptx_float_of_half>);
}

static inline void ptx_mma_f16_first(float c[4], const unsigned a[4], const unsigned b[2])
{
    c[0] = c[1] = c[2] = c[3] = 0;
    ptx_mma_f16(c, a, b);
}

static inline void ptx_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2])
{
    fake_mma(c, a, b, fake_multiply_16<ptx_float_of_bfloat>);
}

static inline void ptx_mma_f64(double c[2], double a, double b)
{
    fake_mma(c, &a, &b, fake_multiply_f64);
}

static inline void ptx_mma_f64_wide(double c[4], const double a[4], const double b[2])
{
    for (int k = 0; k < 2; k++)
        for (int half = 0; half < 2; half++)
            ptx_mma_f64(c + 2 * half, a[2 * k + half], b[k]);
}
#endif
