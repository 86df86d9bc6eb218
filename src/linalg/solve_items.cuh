/*
 * solve_items.cuh - where items of systems of equations are, and what becomes of them
 *
 * Part of solve_small.cu and solve_large.cu, whose parameters REAL and LU it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_params.h"

#define THREADS SOLVE_THREADS
#define NAN_OF  ((REAL)__longlong_as_double(0x7FF8000000000000ll))

/* Offset in elements of an item that changes with the matrix, or of one that shares it. */
static __device__ long long offset_of(const struct device_view &s, const long long *shape,
                                      long long ndim, long long item)
{
    long long offset = 0;

    for (long long d = ndim - 1; d >= 0; d--) {
        offset += item % shape[d] * s.batch_stride[d];
        item /= shape[d];
    }
    return offset;
}

static __device__ long long own_offset(const struct device_view &s, const struct solve_items &items,
                                       long long own)
{
    return offset_of(s, items.own_shape, items.ndim, own);
}

static __device__ long long item_offset(const struct device_view &s,
                                        const struct solve_items &items, long long own,
                                        long long shared)
{
    return own_offset(s, items, own) + offset_of(s, items.shared_shape, items.ndim, shared);
}

static __device__ void report(const struct device_view &info, const struct solve_items &items,
                              long long own, int verdict)
{
    if (info.data)
        for (long long j = threadIdx.x; j < items.shared; j += blockDim.x)
            ((int *)info.data)[item_offset(info, items, own, j)] = verdict;
}

/* A diagonal that cannot be divided by. */
static __device__ bool is_bad(REAL d)
{
#if LU
    return d == 0 || d != d;
#else
    return !(d > 0);
#endif
}
