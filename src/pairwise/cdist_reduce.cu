/*
 * cdist_reduce.cu - sums that several blocks made pieces of: added up, mapped and stored
 *
 * out[i][j] = f(sum over pieces) + r on the diagonal.  The pieces are what cdist.cu gives for parts
 * of the columns of x and y; they are added in their order, so that a result does not depend on
 * which block was first.
 *
 * Parameters (-D) are those of cdist.cu, of which those that only its tiles need are not used.
 *
 * SPDX-License-Identifier: MIT
 */
#define PAIR_FN static __device__
#include "pair_map_params.h"
#include "ptx.cuh"

#define THREADS 256
#define LARGEST (IS_DOUBLE ? (REAL)0x1.fffffffffffffp1023 : (REAL)0x1.fffffep127f)

#include "pair_terms.cuh"

/* Where an item of out begins. */
static __device__ long long offset_of(const struct reduce_params *a, long long item)
{
    long long offset = 0;

    for (int i = (int)a->batch_ndim - 1; i >= 0; i--) {
        const long long rest = item / a->batch_shape[i];
        offset += (item - rest * a->batch_shape[i]) * a->batch_stride[i];
        item = rest;
    }
    return offset;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cdist_reduce(const __grid_constant__ struct reduce_params a)
{
    const REAL *const sums = (const REAL *)a.sums;
    const long long all = (long long)gridDim.x * THREADS, item_elements = a.rows * a.cols;

    for (long long at = (long long)blockIdx.x * THREADS + threadIdx.x; at < a.elements; at += all) {
        const long long item = at / item_elements, in_item = at - item * item_elements;
        const long long row = in_item / a.cols, col = in_item - row * a.cols;
        REAL s = 0;
#pragma unroll 4
        for (long long piece = 0; piece < a.pieces; piece++)
            s += sums[piece * a.elements + at];
        s = mapped(&a.map, s);
        if (OUTPUT == PAIR_VALUE && row - col == a.diagonal)
            s += (REAL)a.map.regularization;
        ((REAL *)a.out)[offset_of(&a, item) + row * a.row_stride + col * a.col_stride] = s;
    }
}
