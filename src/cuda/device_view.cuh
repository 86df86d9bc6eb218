/*
 * device_view.cuh - where items of a batch begin, numbers of an item, quick quotients
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_params.h"

/* Elements before the item: strides along dimensions of this shape. */
static __device__ long long batch_offset(const long long *shape, long long ndim,
                                         const long long *stride, long long item)
{
    long long offset = 0;

    for (int i = (int)ndim - 1; i >= 0; i--) {
        offset += item % shape[i] * stride[i];
        item /= shape[i];
    }
    return offset;
}

/* An element of f32 or f64 data, whichever of the two dtype says. */
static __device__ double load_double(long long dtype, const void *data, long long at)
{
    return dtype == DEVICE_F64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}

static __device__ void store_double(long long dtype, void *data, long long at, double value)
{
    if (dtype == DEVICE_F64)
        ((double *)data)[at] = value;
    else
        ((float *)data)[at] = (float)value;
}

static __device__ double number_at(const long long *shape, long long ndim,
                                   const struct device_number &n, long long item)
{
    double value = n.value;

    if (n.data) {
        const long long at = batch_offset(shape, ndim, n.batch_stride, item);
        value = n.is_double ? ((const double *)n.data)[at] : (double)((const float *)n.data)[at];
    }
    return value;
}

/* a / b for numbers that are not negative: a division of 64 bits takes as long as a small tile. */
static __device__ long long quotient(long long a, long long b)
{
    return (a | b) >> 32 == 0 ? (long long)((unsigned)a / (unsigned)b) : a / b;
}
