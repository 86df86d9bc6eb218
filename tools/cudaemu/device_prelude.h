/*
 * device_prelude.h - CUDA's C++ for the host's compiler: what stands before every kernel
 *
 * fake_rewrite.c has turned `__shared__` and `__global__` into C++ by the time that this is
 * compiled.  No header of the C library is included: that would be most of what there is to
 * compile.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_DEVICE_PRELUDE_H
#define FAKE_DEVICE_PRELUDE_H
#include "fake_device.h"

typedef __SIZE_TYPE__ size_t;

#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __align__(n)    __attribute__((aligned(n)))
#define __restrict__ __restrict

extern "C" {
extern __attribute__((visibility("default"))) struct fake_device fake_device;
extern __attribute__((visibility("hidden"))) char fake_dynamic[];
/* Of the linker: where shared variables lie.  Those of templates have no section of their own, and
 * are in .bss; so would a __device__ variable be that begins as zero. */
extern __attribute__((weak, visibility("hidden"))) char __start_fake_shared[], __stop_fake_shared[];
extern __attribute__((visibility("hidden"))) char __bss_start[], _end[];
}

#define threadIdx (fake_device.thread)
#define blockIdx  (fake_device.block)
#define blockDim  (fake_device.block_size)
#define gridDim   (fake_device.grid_size)
#define warpSize  32

/* ---- Kernels: how the driver calls one ------------------------------------------------------- */

template <int... I> struct fake_numbers {
};
template <int N, int... I> struct fake_count : fake_count<N - 1, N - 1, I...> {
};
template <int... I> struct fake_count<0, I...> {
    typedef fake_numbers<I...> type;
};

template <auto Kernel> struct fake_call;
template <class... Argument, void (*Kernel)(Argument...)> struct fake_call<Kernel> {
    static constexpr unsigned bytes[] = {sizeof(Argument)..., 0};
    static constexpr int arguments = (int)sizeof...(Argument);

    template <int... I> static void with(void *const *arguments, fake_numbers<I...>)
    {
        (void)arguments;
        Kernel(*(Argument *)arguments[I]...);
    }

    static void call(void *const *arguments)
    {
        with(arguments, typename fake_count<(int)sizeof...(Argument)>::type());
    }
};

template <auto Kernel> struct fake_kernel fake_describe(int most_threads)
{
    struct fake_kernel kernel = {fake_call<Kernel>::call,
                                 fake_call<Kernel>::arguments,
                                 fake_call<Kernel>::bytes,
                                 most_threads,
                                 {},
                                 fake_dynamic};

#ifndef FAKE_SANITIZED /* which surrounds variables with what must not be written */
    char *const bss_end = fake_dynamic > __bss_start ? fake_dynamic : _end;
    kernel.shared[0] = {__start_fake_shared, __stop_fake_shared};
    kernel.shared[1] = {__bss_start, bss_end};
#endif
    return kernel;
}

/* ---- Threads of a block and of a warp
 * ------------------------------------------------------------ */

static inline void __syncthreads()
{
    fake_device.runtime->barrier(0, 0, 0);
}
static inline int __syncthreads_count(int p)
{
    return fake_device.runtime->barrier(0, 0, p);
}
static inline int __syncthreads_or(int p)
{
    return __syncthreads_count(p) != 0;
}
static inline int __syncthreads_and(int p)
{
    return __syncthreads_count(!p) == 0;
}
static inline void __threadfence()
{
    fake_device.runtime->yield();
}
static inline void __threadfence_block()
{
}
static inline void __threadfence_system()
{
}
static inline void __nanosleep(unsigned)
{
    fake_device.runtime->yield();
}
[[noreturn]] static inline void __trap()
{
    fake_device.runtime->fail("__trap()");
}
static inline long long clock64()
{
    static long long ticks = 1; /* not in .bss */
    return ++ticks;
}

static inline int fake_lane()
{
    return fake_device.runtime->lane();
}

static inline void fake_nothing(unsigned, void *const *)
{
}
static inline void __syncwarp(unsigned mask = 0xffffffff)
{
    fake_device.runtime->meet(mask, 0, fake_nothing);
}

template <class T> struct fake_exchange {
    T value; /* what a lane brings, then what it takes away */
    int from, wrong;
};

template <class T> static void fake_trade(unsigned mask, void *const *arguments)
{
    T brought[FAKE_WARP] = {};

    for (int i = 0; i < FAKE_WARP; i++)
        if (mask >> i & 1)
            brought[i] = ((fake_exchange<T> *)arguments[i])->value;
    for (int i = 0; i < FAKE_WARP; i++) {
        if (!(mask >> i & 1))
            continue;
        fake_exchange<T> *lane = (fake_exchange<T> *)arguments[i];
        lane->wrong = !(mask >> lane->from & 1);
        lane->value = brought[lane->from];
    }
}

template <class T> static T fake_shuffle(unsigned mask, T value, int from)
{
    fake_exchange<T> mine = {value, from, 0};

    fake_device.runtime->meet(mask, &mine, fake_trade<T>);
    if (mine.wrong)
        fake_device.runtime->fail("a shuffle reads lane %d, which is not in the mask %08x", from,
                                  mask);
    return mine.value;
}

template <class T> static T __shfl_sync(unsigned mask, T value, int from, int width = 32)
{
    const int lane = fake_lane();

    return fake_shuffle(mask, value, (lane & ~(width - 1)) | (from & (width - 1)));
}

template <class T> static T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    const int lane = fake_lane();

    return fake_shuffle(mask, value, (lane & (width - 1)) >= (int)by ? lane - (int)by : lane);
}

template <class T> static T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    const int lane = fake_lane();

    return fake_shuffle(mask, value,
                        (lane & (width - 1)) + (int)by < width ? lane + (int)by : lane);
}

template <class T> static T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32)
{
    const int lane = fake_lane(), from = lane ^ bits;

    return fake_shuffle(mask, value, from < (lane & ~(width - 1)) + width ? from : lane);
}

static void fake_votes(unsigned mask, void *const *arguments)
{
    unsigned votes = 0;

    for (int i = 0; i < FAKE_WARP; i++)
        if (mask >> i & 1)
            votes |= (unsigned)(*(unsigned *)arguments[i] != 0) << i;
    for (int i = 0; i < FAKE_WARP; i++)
        if (mask >> i & 1)
            *(unsigned *)arguments[i] = votes;
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned vote = predicate != 0;

    fake_device.runtime->meet(mask, &vote, fake_votes);
    return vote;
}

static inline int __any_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) != 0;
}
static inline int __all_sync(unsigned mask, int p)
{
    return __ballot_sync(mask, p) == mask;
}

static inline unsigned __reduce_max_sync(unsigned mask, unsigned value)
{
    for (int apart = FAKE_WARP / 2; apart > 0; apart /= 2) {
        const unsigned other = __shfl_xor_sync(mask, value, apart);
        value = other > value ? other : value;
    }
    return value;
}

static inline unsigned __reduce_min_sync(unsigned mask, unsigned value)
{
    return ~__reduce_max_sync(mask, ~value);
}

#include "device_math.h"
#endif
