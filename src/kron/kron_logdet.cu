/*
 * kron_logdet.cu - the determinant of a Kronecker product from the LU of its factors, in double
 *
 * kron_logdet_finish: log |det| and sign of every item, a block each.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_params.h"

#define THREADS KRON_SOLVE_THREADS

/* Sums and products of all threads; the same to all of them. */
static __device__ void reduce(double *sums, double *signs, double *sum, double *sign)
{
    sums[threadIdx.x] = *sum;
    signs[threadIdx.x] = *sign;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            signs[threadIdx.x] *= signs[threadIdx.x + half];
        }
        __syncthreads();
    }
    *sum = sums[0];
    *sign = signs[0];
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_logdet_finish(const __grid_constant__ struct kron_logdet_params a)
{
    __shared__ double sums[THREADS], signs[THREADS];
    const struct kron_solve_params &c = a.of;

    for (long long item = blockIdx.x; item < c.items; item += gridDim.x) {
        double log_det = 0, sign = 1;
        for (int f = 0; f < c.count; f++) {
            const long long n = c.n[f], times = c.order / n;
            const double *lu = (const double *)a.lu[f].data +
                               batch_offset(c.shape, c.ndim, a.lu[f].batch_stride, item);
            const int *pivots = (const int *)a.pivots[f].data +
                                batch_offset(c.shape, c.ndim, a.pivots[f].batch_stride, item);
            const int *code = (const int *)c.code[f].data +
                              batch_offset(c.shape, c.ndim, c.code[f].batch_stride, item);
            double sum = 0, own = 1;
            for (long long i = threadIdx.x; i < n; i += THREADS) {
                const double d = lu[i * (n + 1)];
                own = pivots[i] != i + 1 ? -own : own;
                own *= d > 0 ? 1 : d < 0 ? -1 : d;
                sum += log(fabs(d));
            }
            reduce(sums, signs, &sum, &own);
            if (code[0] != 0) /* a pivot of 0, or of what is not finite */
                own = code[c.found] ? __longlong_as_double(0x7ff8000000000000ll) : 0;
            log_det += (double)times * sum;
            sign *= times % 2 == 0 ? own * own : own;
        }
        if (threadIdx.x == 0) {
            const double infinity = __longlong_as_double(0x7ff0000000000000ll);
            ((REAL *)a.out.data)[batch_offset(c.shape, c.ndim, a.out.batch_stride, item)] =
                (REAL)(sign == 0      ? -infinity
                       : sign != sign ? sign
                                      : log_det);
            if (a.sign.data)
                ((REAL *)a.sign.data)[batch_offset(c.shape, c.ndim, a.sign.batch_stride, item)] =
                    (REAL)sign;
        }
    }
}
