/*
 * ptx_wgmma.cuh - more of ptx.cuh: instructions of sm_90a, for kernels whose warps have roles
 *
 * Products by a group of four warps, bulk copies to shared memory, and the barriers in shared
 * memory that say when a copy is there.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PTX_WGMMA_CUH
#define GRAM_PTX_WGMMA_CUH

/* ---- Barriers -------------------------------------------------------------------------------- */

/* A barrier of its own number (0 is __syncthreads) for COUNT threads of a block, whole warps. */
template <int NUMBER, int COUNT> static __device__ void ptx_barrier()
{
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(COUNT) : "memory");
}

/* A barrier in shared memory: its phase ends when `count` threads have arrived and all bytes that
 * were expected have come. */
static __device__ void ptx_mbarrier_init(unsigned long long *barrier, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ptx_shared_address(barrier)),
                 "r"(count)
                 : "memory");
}

/* Makes what was initialised known to copies; a __syncthreads must follow. */
static __device__ void ptx_mbarrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ void ptx_mbarrier_arrive(unsigned long long *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ptx_shared_address(barrier))
                 : "memory");
}

/* Arrives, and lets the phase wait for `bytes` bytes. */
static __device__ void ptx_mbarrier_expect(unsigned long long *barrier, int bytes)
{
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ptx_shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

/* Waits for the end of the phase of this parity; phases count from 0, and the one before that is
 * over from the beginning. */
static __device__ void ptx_mbarrier_wait(unsigned long long *barrier, unsigned parity)
{
    asm volatile(
        "{.reg .pred done;\n"
        "again%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again%=;}" ::"r"(ptx_shared_address(barrier)),
        "r"(parity)
        : "memory");
}

/* ---- Registers: for all warps of a group of four --------------------------------------------- */

/* Takes more registers a thread, up to COUNT, from those that other groups have given back. */
template <int COUNT> static __device__ void ptx_more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* Gives registers back, down to COUNT a thread. */
template <int COUNT> static __device__ void ptx_fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* ---- Bulk copies: addresses and sizes are multiples of 16 ------------------------------------ */

/* One thread copies; the bytes count for the barrier. */
static __device__ void ptx_copy_bulk(void *shared, const void *global, int bytes,
                                     unsigned long long *barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(ptx_shared_address(shared)),
        "l"(global), "r"(bytes), "r"(ptx_shared_address(barrier))
        : "memory");
}

/* The other way; the thread's copies since the last commit make a group. */
static __device__ void ptx_store_bulk(void *global, const void *shared, int bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(ptx_shared_address(shared)), "r"(bytes)
                 : "memory");
}

static __device__ void ptx_store_bulk_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until the thread's groups have read shared memory. */
static __device__ void ptx_store_bulk_wait()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Makes what the thread has written to shared memory known to bulk copies; a barrier must
 * follow. */
static __device__ void ptx_bulk_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- Products by four warps, the first of which has a number divisible by 4 ------------------ */

/* An operand in shared memory: squares of 8 rows by 16 bytes, 128 contiguous bytes each; k_bytes is
 * the way from a square to the next one along k, row_bytes the way to the next 8 rows. */
static __device__ unsigned long long ptx_wgmma_operand(const void *shared, int k_bytes,
                                                       int row_bytes)
{
    return (ptx_shared_address(shared) >> 4 & 0x3fff) | (unsigned long long)(k_bytes >> 4) << 16 |
           (unsigned long long)(row_bytes >> 4) << 32;
}

/* The operand that lies `bytes` bytes, a multiple of 16, behind this one. */
static __device__ unsigned long long ptx_wgmma_shifted(unsigned long long operand, int bytes)
{
    return operand + (unsigned)(bytes >> 4);
}

/* Orders the warps' registers and shared memory before the products that follow. */
static __device__ void ptx_wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Gives a sum a register of its own before the fence: a copy behind it would make products wait. */
static __device__ void ptx_wgmma_place(float &sum)
{
    asm volatile("" : "+f"(sum)::"memory");
}

/* Makes a group of the products since the last one. */
static __device__ void ptx_wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most the GROUPS newest groups are under way. */
template <int GROUPS> static __device__ void ptx_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

/* c = a b, plus c with accumulate: a 64 by 16, b 16 by N, both with neighbours along k side by
 * side. Warp w holds rows 16 w ..; element 4 j + i of a lane is element i of m16n8's c in columns 8
 * j .. */
template <int N>
static __device__ void ptx_wgmma_f16(float *c, unsigned long long a, unsigned long long b,
                                     int accumulate);

/* clang-format off */
template <>
__device__ void ptx_wgmma_f16<128>(float *c, unsigned long long a,
                                   unsigned long long b, int accumulate)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0;}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]),
                   "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]),
                   "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
                   "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]),
                   "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]),
                   "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
                   "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
                 : "l"(a), "l"(b), "r"(accumulate));
}
/* clang-format on */

/* c = a b, plus c with accumulate: a 64 by 8 in registers, warp w has rows 16 w .. as a of m16n8k8;
 * b 8 by N, as above.  The last 13 bits of a and b do not count. */
template <int N>
static __device__ void ptx_wgmma_tf32(float *c, const unsigned a[4], unsigned long long b,
                                      int accumulate);

/* clang-format off */
template <>
__device__ void ptx_wgmma_tf32<32>(float *c, const unsigned a[4],
                                  unsigned long long b, int accumulate)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %21, 0; "
                 "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, p, 1, 1;}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]),
                   "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                   "l"(b), "r"(accumulate));
}

template <>
__device__ void ptx_wgmma_tf32<64>(float *c, const unsigned a[4],
                                  unsigned long long b, int accumulate)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1;}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]),
                   "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]),
                   "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
                   "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                   "l"(b), "r"(accumulate));
}

template <>
__device__ void ptx_wgmma_tf32<128>(float *c, const unsigned a[4],
                                   unsigned long long b, int accumulate)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, p, 1, 1;}"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]),
                   "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
                   "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]),
                   "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
                   "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]),
                   "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
                   "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
                   "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
                   "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
                   "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
                   "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]),
                   "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
                   "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]),
                   "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
                   "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]),
                   "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
                   "l"(b), "r"(accumulate));
}
/* clang-format on */
#endif
