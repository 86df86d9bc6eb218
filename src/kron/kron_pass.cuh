/*
 * kron_pass.cuh - what both kernels of a pass share: elements, items, and how y is written
 *
 * Part of files whose parameters it uses:
 *   REAL                    of the arithmetic: float, double, unsigned or whole64
 *   X_KIND, Y_KIND, F_KIND  how elements of x, of y and z, and of factors are stored:
 *                           DEVICE_REAL, DEVICE_F16 or DEVICE_BF16
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_params.h"

typedef unsigned long long whole64;

#include "stored.cuh"

typedef stored_as<X_KIND>::type x_element;
typedef stored_as<Y_KIND>::type y_element;
typedef stored_as<F_KIND>::type f_element;

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
    const double value = number_at(a.shape, a.ndim, n, item);

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

/* Where a unit begins in a matrix whose rows have group * after columns an index before. */
static __device__ long long unit_offset(const struct kron_params &a, const struct device_view &side,
                                        long long unit, long long group)
{
    const long long row = quotient(unit, a.before);

    return row * side.row_stride + (unit - row * a.before) * group * a.after * side.col_stride;
}
