/*
 * ptx.cuh - every instruction that device code names itself: all inline PTX stands here
 *
 * NVRTC is given no header of CUDA, so what C++ has no name for is written as PTX, one small
 * function an instruction.  A file includes it and uses what it needs.  Without a GPU the tests run
 * device code on the CPU and put tools/cudaemu/ptx_emulated.h in the place of this file: the two
 * declare the same functions.
 *
 * Fragments: a lane of a warp is g = lane / 4 and t = lane % 4.  A register of 32 bits holds two
 * 16-bit elements, the one with the lower index in its low half.  All lanes of the warp take part.
 *
 *   shape           A (m by k)          B (k by n)         C and D (m by n)
 *   m16n8k8         a0 [g][t]           b0 [t][g]          c0 [g][2t]
 *   tf32, f64       a1 [g+8][t]         b1 [t+4][g]        c1 [g][2t+1]
 *                   a2 [g][t+4]                            c2 [g+8][2t]
 *                   a3 [g+8][t+4]                          c3 [g+8][2t+1]
 *   m16n8k16        a0 [g][2t, +1]      b0 [2t, +1][g]     as above
 *   f16, bf16       a1 [g+8][2t, +1]    b1 [2t+8, +9][g]
 *                   a2 [g][2t+8, +9]
 *                   a3 [g+8][2t+8, +9]
 *   m8n8k4, f64     a  [g][t]           b  [t][g]          c0 [g][2t], c1 [g][2t+1]
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PTX_CUH
#define GRAM_PTX_CUH

/* ---- Approximations of f32; results below 2^-126 become 0, arguments too --------------------- */

/* 2^x: 2 units in the last place */
static __device__ float ptx_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* log2 x: 2^-22 absolutely for x in [0.5, 2], 2 units in the last place elsewhere */
static __device__ float ptx_log2(float x)
{
    float y;

    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* x^(1/2): 2^-23 relatively; denormal numbers have roots too */
static __device__ float ptx_sqrt(float x)
{
    float y;

    asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* x^(1/2), denormal x is 0 */
static __device__ float ptx_sqrt_of_normal(float x)
{
    float y;

    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* x^(-1/2): 2^-22.9 relatively */
static __device__ float ptx_rsqrt(float x)
{
    float y;

    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x: 1 unit in the last place */
static __device__ float ptx_reciprocal(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* a b + c between 0 and 1; NaN gives 0. */
static __device__ float ptx_fma_saturated(float a, float b, float c)
{
    float y;

    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
    return y;
}

/* The larger one, NaN if either is. */
static __device__ float ptx_largest(float a, float b)
{
    float y;

    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

/* ---- binary16 and bfloat16, which are unsigned short here; rounded to nearest, ties to even -- */

static __device__ float ptx_float_of_half(unsigned short x)
{
    float y;

    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

static __device__ unsigned short ptx_half_of_float(float x)
{
    unsigned short y;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

static __device__ float ptx_float_of_bfloat(unsigned short x)
{
    return __int_as_float((int)((unsigned)x << 16));
}

static __device__ unsigned short ptx_bfloat_of_float(float x)
{
    unsigned short y;

    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

/* Two at once, low in the low half. */
static __device__ unsigned ptx_halves_of_floats(float low, float high)
{
    unsigned y;

    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

static __device__ unsigned ptx_bfloats_of_floats(float low, float high)
{
    unsigned y;

    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

/* a b + c of two bfloat16 each. */
static __device__ unsigned ptx_fma_of_bfloats(unsigned a, unsigned b, unsigned c)
{
    unsigned y;

    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
}

/* The upper halves of two words. */
static __device__ unsigned ptx_upper_halves(float low, float high)
{
    unsigned y;

    asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(y) : "f"(low), "f"(high));
    return y;
}

/* The nearest f32 with 10 bits after the point, ties away from zero, as bits: for ptx_mma_tf32. */
static __device__ unsigned ptx_tf32_of_float(float x)
{
    unsigned y;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

/* threadIdx.x, read anew: what follows from it is computed again instead of kept in registers. */
static __device__ unsigned ptx_thread()
{
    unsigned thread;

    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/* ---- Asynchronous copies from global to shared memory ---------------------------------------- */

/* SIZE bytes (4, 8 or 16; both addresses are multiples of it): the first `bytes` come from global
 * memory, the others are 0.  16 bytes pass by L1.  They are there after the wait of this thread,
 * for the other threads after a __syncthreads too. */
template <int SIZE>
static __device__ void ptx_copy_async(void *shared, const void *global, int bytes)
{
    const unsigned to = (unsigned)__cvta_generic_to_shared(shared);

    if (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global),
                     "n"(SIZE), "r"(bytes)
                     : "memory");
}

/* An address within the block's shared memory: 32 bits, where a pointer takes two registers. */
static __device__ unsigned ptx_shared_address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

/* Numbers at such an address, which is a multiple of their bytes. */
static __device__ void ptx_read_shared(float (&to)[4], unsigned from)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(from)
                 : "memory");
}

static __device__ void ptx_read_shared(float (&to)[2], unsigned from)
{
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(to[0]), "=f"(to[1])
                 : "r"(from)
                 : "memory");
}

static __device__ void ptx_read_shared(float (&to)[1], unsigned from)
{
    asm volatile("ld.shared.f32 %0, [%1];"
                 : "=f"(to[0])
                 : "r"(from)
                 : "memory");
}

static __device__ void ptx_read_shared(double (&to)[2], unsigned from)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                 : "=d"(to[0]), "=d"(to[1])
                 : "r"(from)
                 : "memory");
}

static __device__ void ptx_read_shared(double (&to)[1], unsigned from)
{
    asm volatile("ld.shared.f64 %0, [%1];"
                 : "=d"(to[0])
                 : "r"(from)
                 : "memory");
}

/* Neighbours to global memory at once: 8 or 16 bytes, aligned. */
static __device__ void ptx_write_global(float *to, const float (&v)[2])
{
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(v[0]), "f"(v[1]) : "memory");
}

static __device__ void ptx_write_global(float *to, const float (&v)[4])
{
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v[0]), "f"(v[1]),
                 "f"(v[2]), "f"(v[3])
                 : "memory");
}

static __device__ void ptx_write_global(double *to, const double (&v)[2])
{
    asm volatile("st.global.v2.f64 [%0], {%1, %2};" ::"l"(to), "d"(v[0]), "d"(v[1]) : "memory");
}

/* Makes a group of the thread's copies since the last one. */
static __device__ void ptx_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most the GROUPS newest groups of this thread are on their way. */
template <int GROUPS> static __device__ void ptx_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

/* ---- Launches that overlap, on sm_90 and newer: nothing elsewhere ---------------------------- */

/* Lets the launch queued behind this one begin as soon as every block has come here. */
static __device__ void ptx_grid_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Waits until the launch before this one has ended and what it wrote is there; returns at once if
 * this one was not queued to overlap. */
static __device__ void ptx_grid_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* ---- Matrices of 8 by 8 16-bit elements from shared memory ----------------------------------- */

/* Lane 8 i + r names row r (16 bytes, aligned) of matrix i; r[i] gets [g][2t, 2t+1] of matrix i.
 * x1 reads the rows that lanes 0-7 name, x2 those of 0-15, x4 all.  With 32-bit elements, r[i] is
 * [g][t] of 8 rows of 4.  The addresses of the other lanes are not used, but must be valid. */
static __device__ void ptx_ldmatrix_x1(unsigned r[1], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ void ptx_ldmatrix_x2(unsigned r[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ void ptx_ldmatrix_x4(unsigned r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* The same, each matrix transposed: r[i] gets [2t, 2t+1][g]. */
static __device__ void ptx_ldmatrix_x1_trans(unsigned r[1], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ void ptx_ldmatrix_x2_trans(unsigned r[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ void ptx_ldmatrix_x4_trans(unsigned r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

/* ---- Products of small matrices by a warp: c += a b, fragments as above ---------------------- */

/* The last 13 bits of a and b do not count: ptx_tf32_of_float rounds. */
static __device__ void ptx_mma_tf32(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ void ptx_mma_f16(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* c = a b: the sum begins with 0. */
static __device__ void ptx_mma_f16_first(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
}

static __device__ void ptx_mma_bf16(float c[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ void ptx_mma_f64(double c[2], double a, double b)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(a), "d"(b));
}

/* sm_90 and newer; fragments as those of tf32. */
static __device__ void ptx_mma_f64_wide(double c[4], const double a[4], const double b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#endif
