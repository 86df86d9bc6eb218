/*
 * stored.cuh - numbers as they are stored, and as they are computed with
 *
 * A kernel computes in REAL, and what it reads and writes may be stored otherwise.  Where options
 * of the kernel say how, stored_as, real_of and stored_of convert without a branch; where a
 * parameter does, load_half, load_real and store_real look.
 *
 * Part of files whose parameter REAL it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_params.h"
#include "ptx.cuh"

/* ---- Types that are known when a kernel is compiled: DEVICE_REAL, DEVICE_F16, DEVICE_BF16 ---- */

template <int DTYPE> struct stored_as {
    typedef unsigned short type;
};
template <> struct stored_as<DEVICE_REAL> {
    typedef REAL type;
};

template <int DTYPE> static __device__ REAL real_of(typename stored_as<DTYPE>::type e)
{
    if constexpr (DTYPE == DEVICE_F16)
        return ptx_float_of_half(e);
    else if constexpr (DTYPE == DEVICE_BF16)
        return ptx_float_of_bfloat(e);
    else
        return e;
}

template <int DTYPE> static __device__ typename stored_as<DTYPE>::type stored_of(REAL v)
{
    if constexpr (DTYPE == DEVICE_F16)
        return ptx_half_of_float(v);
    else if constexpr (DTYPE == DEVICE_BF16)
        return ptx_bfloat_of_float(v);
    else
        return v;
}

/* ---- Types that a parameter tells ------------------------------------------------------------ */

/* dtype is DEVICE_F16 or DEVICE_BF16. */
static __device__ REAL load_half(long long dtype, const void *data, long long at)
{
    const unsigned short e = ((const unsigned short *)data)[at];

    return (REAL)(dtype == DEVICE_F16 ? ptx_float_of_half(e) : ptx_float_of_bfloat(e));
}

/* dtype is one of the four floating-point types, not DEVICE_REAL. */
static __device__ REAL load_real(long long dtype, const void *data, long long at)
{
    if (dtype == DEVICE_F32)
        return (REAL)((const float *)data)[at];
    if (dtype == DEVICE_F64)
        return (REAL)((const double *)data)[at];
    return load_half(dtype, data, at);
}

static __device__ void store_real(long long dtype, void *data, long long at, REAL value)
{
    if (dtype == DEVICE_F32)
        ((float *)data)[at] = (float)value;
    else if (dtype == DEVICE_F64)
        ((double *)data)[at] = (double)value;
    else if (dtype == DEVICE_F16)
        ((unsigned short *)data)[at] = ptx_half_of_float((float)value);
    else
        ((unsigned short *)data)[at] = ptx_bfloat_of_float((float)value);
}
