/*
 * cuda_mistakes.cu - kernels that are wrong, each in one way: what test_cuda_emulation.c runs
 *
 * out has one float for each of the 64 threads of a block.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ptx.cuh"

extern "C" __global__ void nothing_wrong(float *out)
{
    __shared__ __align__(16) float at[64];
    extern __shared__ float more[];

    more[threadIdx.x] = 1;
    ptx_copy_async<4>(at + threadIdx.x, out + threadIdx.x, 0);
    ptx_copy_commit();
    ptx_copy_wait<0>();
    __syncthreads();
    out[threadIdx.x] = at[63 - threadIdx.x] + more[63 - threadIdx.x];
}

extern "C" __global__ void reads_behind(float *out)
{
    out[threadIdx.x] = out[threadIdx.x + 64];
}

extern "C" __global__ void writes_before(float *out)
{
    out[(int)threadIdx.x - 5000] = 1;
}

/* The left neighbour may not have written yet, or the right one. */
extern "C" __global__ void forgets_a_barrier(float *out)
{
    __shared__ float at[66];

    at[threadIdx.x + 1] = 1;
    if (threadIdx.x % 63 == 0)
        at[threadIdx.x / 63 * 65] = 1;
    out[threadIdx.x] = at[threadIdx.x] + at[threadIdx.x + 2] - 1;
}

extern "C" __global__ void forgets_a_wait(float *out)
{
    __shared__ float at[64];

    ptx_copy_async<4>(at + threadIdx.x, out + threadIdx.x, 0);
    ptx_copy_commit();
    __syncthreads();
    out[threadIdx.x] = at[threadIdx.x] + 1;
}

/* The second copy is on its way while the first one's bytes are read. */
extern "C" __global__ void copies_over_what_is_read(float *out)
{
    __shared__ float at[64];

    ptx_copy_async<4>(at + threadIdx.x, out + threadIdx.x, 0);
    ptx_copy_commit();
    ptx_copy_wait<0>();
    __syncthreads();
    ptx_copy_async<4>(at + (threadIdx.x + 1) % 64, out + threadIdx.x, 0);
    ptx_copy_commit();
    out[threadIdx.x] = at[threadIdx.x] + 1;
}

template <class T> static __device__ T unset()
{
    __shared__ T at[64];

    if (threadIdx.x > 63) /* never; else the compiler knows that it stays zero */
        at[threadIdx.x - 64] = 1;
    return at[threadIdx.x];
}

extern "C" __global__ void reads_what_nobody_wrote(float *out)
{
    out[threadIdx.x] = unset<float>() * 0 + 1;
}

extern "C" __global__ void half_of_it_at_a_barrier(float *out)
{
    if (threadIdx.x % 32 < 16)
        __syncwarp();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" __global__ void shuffles_with_the_ended(float *out)
{
    if (threadIdx.x % 32 == 7)
        return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1.0f, 1);
}

extern "C" __global__ void copies_misaligned(float *out)
{
    __shared__ __align__(16) float at[68];

    ptx_copy_async<16>(at + threadIdx.x, out, 16);
    ptx_copy_commit();
    ptx_copy_wait<0>();
    out[threadIdx.x] = 1;
}

extern "C" __global__ void writes_behind_dynamic_memory(float *out)
{
    extern __shared__ float more[];

    more[threadIdx.x + 1] = 1;
    out[threadIdx.x] = 1;
}

extern "C" __global__ void __launch_bounds__(32) is_for_fewer_threads(float *out)
{
    out[threadIdx.x] = 1;
}

__global__ void has_no_c_name(float *out)
{
    out[threadIdx.x] = 1;
}
