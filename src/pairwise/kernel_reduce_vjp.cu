/*
 * kernel_reduce_vjp.cu - what a soft reduction makes of a block of a kernel and of grad v^T
 *
 *   kernel_vjp_soften    w[i][j] = exp(scale w[i][j] + l[j] - logarithms[i]),
 *                        d[i][j] = factor w[i][j] (d[i][j] - mean[i]), or of a logarithm
 *                                  factor w[i][j] grad[i]
 *   kernel_vjp_scale     d[i][j] = scale d[i][j]
 *   kernel_vjp_store     to[j]   = sums[j]
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_rows.cuh"

/* grad times the average of a row; of a logarithm grad. */
static __device__ double soft_mean(const struct vjp_soften_params &a, long long item, long long i)
{
    const REAL *grad = vjp_row(a.of, a.grad, item, i);
    const REAL *average = a.columns ? vjp_row(a.of, a.averages, item, i) : nullptr;
    double sum = 0;

    if (a.is_logarithm)
        return (double)grad[0];
#pragma unroll 1
    for (long long c = 0; c < a.columns; c++)
        sum += (double)grad[c * a.grad.col_stride] *
               (double)average[c * a.averages.col_stride];
    return sum;
}

/* The values of a block of a kernel become weights, and its cotangent that of the kernel.  A
 * logarithm of minus infinity has no weights: all are 0. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_soften(const __grid_constant__ struct vjp_soften_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    set_constants(a.constants);
    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const double logarithm = a.logarithms[item * a.step + i];
        const REAL *logs = a.log_weights.data ? vjp_row(a.of, a.log_weights, item, 0) : nullptr;
        REAL *w = vjp_row(a.of, a.w, item, i), *d = vjp_row(a.of, a.d, item, i);
        const double mean = soft_mean(a, item, i);
        const bool none = a.is_logarithm && logarithm < 0 && isinf(logarithm);

        for (long long j = vjp_lane(a.of); j < a.of.cols; j += a.of.lanes) {
            REAL *value = w + j * a.w.col_stride, *cotangent = d + j * a.d.col_stride;
            double e = __dmul_rn(a.scale, (double)*value); /* as kernel_reduce.cu has it */
            if (logs)
                e += (double)logs[j * a.log_weights.col_stride];
            const REAL weight = none ? (REAL)0 : exp((REAL)(e - logarithm));
            const double of_e = a.is_logarithm ? mean : (double)*cotangent - mean;
            *value = weight;
            *cotangent = (REAL)(a.factor * (double)weight * of_e);
        }
    }
}

extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_scale(const __grid_constant__ struct vjp_scale_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        REAL *d = vjp_row(a.of, a.d, item, i);

        for (long long j = vjp_lane(a.of); j < a.of.cols; j += a.of.lanes)
            d[j * a.d.col_stride] = (REAL)(a.scale * (double)d[j * a.d.col_stride]);
    }
}

/* The sums of each item to a vector, of which a thread has a number. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_store(const __grid_constant__ struct vjp_number_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, j = at - item * a.of.rows;
        vjp_row(a.of, a.out, item, 0)[j * a.out.col_stride] = (REAL)a.sums[item * a.step + j];
    }
}
