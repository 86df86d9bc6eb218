/*
 * move.cu - to = alpha from + beta c for matrices of any strides, item by item
 *
 * This is the one kernel that copies, transposes, scales, adds and widens strided matrices; see
 * cuda_move.h.  A block goes through pieces of items.  Neighbouring threads write what lies near,
 * and a thread has all its loads under way before it writes.
 *
 * Parameters (-D): REAL.  It may also be an integer, unsigned or whole64: sums wrap around.
 *
 * SPDX-License-Identifier: MIT
 */
#include "move_params.h"

#include "device_view.cuh"

#define THREADS MOVE_THREADS
#define EACH    MOVE_EACH
#define PIECE   (THREADS * EACH)

typedef unsigned long long whole64;
typedef struct move_params params;

/* Elements before an item. */
static __device__ long long start_of(const params &a, const struct move_side &s, long long item)
{
    return s.dense ? item * s.dense
                   : batch_offset(a.shape, a.ndim, s.view.batch_stride, a.begin + item);
}

static __device__ REAL number_of(const params &a, const struct device_number &n, long long item)
{
    const double value = number_at(a.shape, a.ndim, n, a.begin + item);

    if constexpr ((REAL)0.5 == 0) /* an integer, which may be negative */
        return (REAL)(long long)value;
    else
        return (REAL)value;
}

/* An item of a side that is multiplied by a factor; NULL where nothing is to be read. */
static __device__ const REAL *read_from(const params &a, const struct move_side &s, long long item,
                                        REAL factor)
{
    return s.view.data && factor != 0 ? (const REAL *)s.view.data + start_of(a, s, item) : nullptr;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    move_matrices(const __grid_constant__ params a)
{
    const bool by_rows = llabs(a.to.view.col_stride) <= llabs(a.to.view.row_stride);
    const long long fast = by_rows ? a.cols : a.rows, size = a.rows * a.cols;
    const long long pieces = (size + PIECE - 1) / PIECE;

    for (long long number = blockIdx.x; number < pieces * a.count; number += gridDim.x) {
        const long long item = quotient(number, pieces);
        const long long first = (number - item * pieces) * PIECE + threadIdx.x;
        const REAL alpha = number_of(a, a.alpha, item), beta = number_of(a, a.beta, item);
        const REAL *from = read_from(a, a.from, item, alpha), *c = read_from(a, a.c, item, beta);
        const long long to = start_of(a, a.to, item);
        REAL value[EACH], old[EACH];
        long long at[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const long long e = first + k * THREADS, slow = quotient(e, fast);
            const long long i = by_rows ? slow : e - slow * fast;
            const long long j = by_rows ? e - slow * fast : slow;
            at[k] = to + i * a.to.view.row_stride + j * a.to.view.col_stride;
            value[k] = a.from.view.data ? (REAL)0 : (REAL)a.fill;
            old[k] = 0;
            if (e < size && from)
                value[k] = from[i * a.from.view.row_stride +
                                (a.order ? a.order[j] : j) * a.from.view.col_stride];
            if (e < size && c)
                old[k] = c[i * a.c.view.row_stride + j * a.c.view.col_stride];
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            REAL sum = from ? alpha * value[k] : value[k];
            if (c)
                sum += beta * old[k];
            if (first + k * THREADS >= size)
                break;
            if (a.widens)
                ((double *)a.to.view.data)[at[k]] = (double)sum;
            else
                ((REAL *)a.to.view.data)[at[k]] = sum;
        }
    }
}
