/*
 * number.cuh - a number of an item: the same for all, or one of a tensor
 *
 * SPDX-License-Identifier: MIT
 */

static __device__ double number_at(const long long *shape, long long ndim,
                                   const struct device_number &n, long long item)
{
    if (!n.data)
        return n.value;
    const long long at = batch_offset(shape, ndim, n.batch_stride, item);
    return n.is_double ? ((const double *)n.data)[at] : (double)((const float *)n.data)[at];
}
