/*
 * kron_pass.cuh - what both kernels of a pass share: elements, items, and how y is written
 *
 * Part of files whose parameters it uses:
 *   REAL                    of the arithmetic: float, double, unsigned or whole64
 *   X_KIND, Y_KIND, F_KIND  how elements of x, of y and z, and of factors are stored
 *
 * SPDX-License-Identifier: MIT
 */
#include "batch.cuh"
#include "kron_params.h"
#include "ptx.cuh"

typedef unsigned long long whole64;

template <int KIND> struct stored_as {
    typedef unsigned short type;
};
template <> struct stored_as<KRON_REAL> {
    typedef REAL type;
};
typedef stored_as<X_KIND>::type x_element;
typedef stored_as<Y_KIND>::type y_element;
typedef stored_as<F_KIND>::type f_element;

template <int KIND> static __device__ REAL real_of(typename stored_as<KIND>::type e)
{
    if constexpr (KIND == KRON_HALF)
        return ptx_float_of_half(e);
    else if constexpr (KIND == KRON_BFLOAT)
        return ptx_float_of_bfloat(e);
    else
        return e;
}

template <int KIND> static __device__ typename stored_as<KIND>::type stored_of(REAL v)
{
    if constexpr (KIND == KRON_HALF)
        return ptx_half_of_float(v);
    else if constexpr (KIND == KRON_BFLOAT)
        return ptx_bfloat_of_float(v);
    else
        return v;
}

template <typename T>
static __device__ T *item_of(const struct kron_params &a, const struct device_view &side,
                             long long item)
{
    return (T *)side.data + batch_offset(a.shape, a.ndim, side.batch_stride, item);
}

/* Whole numbers of integers are exact in a double, and wrap around as they are. */
static __device__ REAL number_of(const struct kron_params &a, const struct device_number &n,
                                 long long item)
{
    double value = n.value;

    if (n.data) {
        const long long at = batch_offset(a.shape, a.ndim, n.batch_stride, item);
        value = n.is_double ? ((const double *)n.data)[at] : ((const float *)n.data)[at];
    }
#if WHOLE
    return (REAL)(long long)value;
#else
    return (REAL)value;
#endif
}

/* What becomes of the sums of an item. */
struct finish {
    REAL alpha, beta;
    y_element *y;
    const y_element *z;
};

static __device__ struct finish finish_of(const struct kron_params &a, long long item)
{
    struct finish f = {1, 0, item_of<y_element>(a, a.y, item), 0};

    if (a.last) {
        f.alpha = number_of(a, a.alpha, item);
        f.beta = number_of(a, a.beta, item);
        f.z = item_of<y_element>(a, a.z, item);
    }
    return f;
}

/* a / b for numbers that are not negative: a division of 64 bits takes as long as a small tile. */
static __device__ long long quotient(long long a, long long b)
{
    return (a | b) >> 32 == 0 ? (long long)((unsigned)a / (unsigned)b) : a / b;
}

/* Where a unit begins in a matrix whose rows have group * after columns an index before. */
static __device__ long long unit_offset(const struct kron_params &a, const struct device_view &side,
                                        long long unit, long long group)
{
    const long long row = quotient(unit, a.before);

    return row * side.row_stride + (unit - row * a.before) * group * a.after * side.col_stride;
}
