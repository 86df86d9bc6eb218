/*
 * eigh_items.cuh - items of eigenproblems: their places, their scale, which pairs are stored
 *
 * Part of eigh_small.cu, eigh_jacobi.cu and eigh_large.cu, whose parameter REAL it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "eigh_params.h"

#define NAN_OF ((REAL)__longlong_as_double(0x7FF8000000000000ll))
#define EPS    ((REAL)(sizeof(REAL) == 4 ? 0x1p-23 : 0x1p-52))

static __device__ REAL *item_of(const struct eigh_call &c, const struct device_view &s,
                                long long item)
{
    return (REAL *)s.data + batch_offset(c.shape, c.ndim, s.batch_stride, item);
}

/* The larger magnitude; NaN is larger than infinity, and that than all others. */
static __device__ float larger(float x, float y)
{
    return __uint_as_float(max(__float_as_uint(fabsf(x)), __float_as_uint(fabsf(y))));
}

static __device__ double larger(double x, double y)
{
    return __longlong_as_double(max(__double_as_longlong(fabs(x)), __double_as_longlong(fabs(y))));
}

static __device__ bool is_finite(REAL largest)
{
    return largest - largest == 0;
}

/* The e with largest 2^-e in [0.5, 1), 0 for 0. */
static __device__ int exponent_of(REAL largest)
{
    int e = 0;

    if (is_finite(largest) && largest > 0)
        (void)frexp(largest, &e);
    return e;
}

/* Pairs that an item stores: from number first on; found of them are in the range. */
struct eigh_choice {
    long long first, stored, found;
};

/* below, within: how many values are <= lower, <= upper. */
static __device__ struct eigh_choice choose(const struct eigh_call &c, long long below,
                                            long long within)
{
    struct eigh_choice out = {c.first, c.count, 0};

    if (c.by_value) {
        out.first = below;
        out.found = within - below;
        out.stored = out.found < c.count ? out.found : c.count;
    }
    return out;
}

static __device__ void tell(const struct eigh_call &c, long long item, int info, long long found)
{
    if (c.info.data)
        ((int *)c.info.data)[batch_offset(c.shape, c.ndim, c.info.batch_stride, item)] = info;
    if (c.found.data)
        ((long long *)c.found.data)[batch_offset(c.shape, c.ndim, c.found.batch_stride, item)] =
            found;
}
