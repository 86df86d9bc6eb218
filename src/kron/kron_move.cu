/*
 * kron_move.cu - y = x + beta z for matrices of any strides: parts of a product that several GPUs
 * share, gathered for an exchange and put where they belong after it
 *
 * An item is one plane of one item of the batch, rows by outs.  A block goes through pieces of an
 * item; a thread has all its loads under way before it writes.
 *
 * Parameters (-D), set by cuda_kron_move.c:
 *   REAL, WHOLE     see kron_pass.cuh
 *   X_KIND, Y_KIND, F_KIND   0
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

#define EACH  KRON_MOVE_EACH
#define PIECE (KRON_MOVE_THREADS * EACH)

extern "C" __global__ void __launch_bounds__(KRON_MOVE_THREADS)
    kron_move(const __grid_constant__ struct kron_params a)
{
    const long long size = a.rows * a.outs, pieces = (size + PIECE - 1) / PIECE;

    for (long long number = blockIdx.x; number < pieces * a.items; number += gridDim.x) {
        const long long item = quotient(number, pieces);
        const long long first = (number - item * pieces) * PIECE + threadIdx.x;
        const struct finish f = finish_of(a, item);
        const REAL *x = item_of<REAL>(a, a.x, item);
        const bool adds = a.z.data && f.beta != 0;
        REAL value[EACH], old[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const long long e = first + k * KRON_MOVE_THREADS;
            const long long row = quotient(e, a.outs), col = e - row * a.outs;
            value[k] = old[k] = 0;
            if (e < size)
                value[k] = x[row * a.x.row_stride + col * a.x.col_stride];
            if (e < size && adds)
                old[k] = f.z[row * a.z.row_stride + col * a.z.col_stride];
        }
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const long long e = first + k * KRON_MOVE_THREADS;
            const long long row = quotient(e, a.outs), col = e - row * a.outs;
            if (e < size)
                f.y[row * a.y.row_stride + col * a.y.col_stride] =
                    adds ? value[k] + f.beta * old[k] : value[k];
        }
    }
}
