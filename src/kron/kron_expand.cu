/*
 * kron_expand.cu - the Kronecker product written out
 *
 *   out[i, j] = product over k of f_k[i_k, j_k], where i_k and j_k are the digits of i and j
 *
 * A thread has a column, whose digits it finds once, and goes through KRON_EXPAND_ROWS rows.
 *
 * Parameters (-D), set by cuda_kron.c:
 *   REAL, WHOLE     see kron_pass.cuh; halves are multiplied as float and rounded once
 *   X_KIND, Y_KIND, F_KIND   how elements are stored: all the same
 *   FACTORS         how many there are
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_params.h"
#include "kron_pass.cuh"

extern "C" __global__ void __launch_bounds__(KRON_EXPAND_THREADS)
    kron_expand(const __grid_constant__ struct kron_expand_params a)
{
    const long long across = (a.cols + KRON_EXPAND_THREADS - 1) / KRON_EXPAND_THREADS;
    const long long down = (a.rows + KRON_EXPAND_ROWS - 1) / KRON_EXPAND_ROWS;

    for (long long number = blockIdx.x; number < across * down * a.items; number += gridDim.x) {
        const long long item = number / across / down;
        const long long first = number / across % down * KRON_EXPAND_ROWS;
        const long long j = number % across * KRON_EXPAND_THREADS + threadIdx.x;
        const f_element *column[FACTORS];
        y_element *out = (y_element *)a.out.data +
                         batch_offset(a.shape, a.ndim, a.out.batch_stride, item) +
                         j * a.out.col_stride;
        long long digits = j;
#pragma unroll
        for (int k = FACTORS - 1; k >= 0; k--) {
            const struct device_view &f = a.factor[k];
            column[k] = (const f_element *)f.data +
                        batch_offset(a.shape, a.ndim, f.batch_stride, item) +
                        digits % a.factor_cols[k] * f.col_stride;
            digits /= a.factor_cols[k];
        }
        for (long long i = first; j < a.cols && i < first + KRON_EXPAND_ROWS && i < a.rows; i++) {
            REAL value = 1;
            digits = i;
#pragma unroll
            for (int k = FACTORS - 1; k >= 0; k--) {
                value *=
                    real_of<F_KIND>(column[k][digits % a.factor_rows[k] * a.factor[k].row_stride]);
                digits /= a.factor_rows[k];
            }
            out[i * a.out.row_stride] = stored_of<Y_KIND>(value);
        }
    }
}
