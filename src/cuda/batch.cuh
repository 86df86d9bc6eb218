/*
 * batch.cuh - where an item of a batch begins
 *
 * SPDX-License-Identifier: MIT
 */

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
