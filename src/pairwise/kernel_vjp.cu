/*
 * kernel_vjp.cu - what gram_kernel_vjp does beside kernels and gradients: sums of rows, weights
 *
 *   kernel_vjp_sums       sums[i] = or += sum over j of u[i][j] v[i][j]
 *   kernel_vjp_number     out     = sum over i of sums[i]
 *   kernel_vjp_weigh      w[i][j] = w[i][j] grad[i][j], or grad[i][j] / (|x[i]| |y[j]|)
 *   kernel_vjp_correct    to[i]  -= sums[i] / |x[i]|^2 x[i]
 *   kernel_vjp_project    to[i]   = (to[i] - (x[i] . to[i]) x[i] / |x[i]|^2) / |x[i]|
 *
 * Each row of a batch of matrices belongs to some neighbouring threads.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_rows.cuh"

/* ---- Sums ----------------------------------------------------------------------------------- */

/* The sum of what the lanes of a row have, 32 or more of them: to its first lane. */
static __device__ double vjp_sum(const struct vjp_rows &of, double mine)
{
    __shared__ double warps[VJP_THREADS / 32];
    const int lane = vjp_lane(of), warp = (int)threadIdx.x / 32;

    for (int apart = 16; apart > 0; apart /= 2)
        mine += __shfl_xor_sync(0xffffffffu, mine, apart);
    if (of.lanes == 32)
        return mine;
    __syncthreads(); /* those of the row before are no longer read */
    if (lane % 32 == 0)
        warps[warp] = mine;
    __syncthreads();
    for (int w = 1; lane == 0 && w < of.lanes / 32; w++)
        mine += warps[warp + w];
    return mine;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

/* Sums of products of two rows. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_sums(const __grid_constant__ struct vjp_sums_params a)
{
    const long long all = vjp_all(a.of), first = vjp_first(a.of), step = vjp_step(a.of);
    const int lane = vjp_lane(a.of);

    /* All threads of a block go round as often, for vjp_sum. */
    for (long long at = first; at - (int)threadIdx.x / a.of.lanes < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *u = a.u.data && at < all ? vjp_row(a.of, a.u, item, i) : nullptr;
        const REAL *v = at < all ? vjp_row(a.of, a.v, item, i) : nullptr;
        double sum = 0;

        for (long long j = lane; v && j < a.of.cols; j += a.of.lanes)
            sum += (u ? (double)u[j * a.u.col_stride] : 1) * (double)v[j * a.v.col_stride];
        sum = vjp_sum(a.of, sum);
        if (lane == 0 && at < all) {
            double *to = a.sums + item * a.step + i;
            *to = a.add ? *to + sum : sum;
        }
    }
}

/* The sum of each item's sums, as a number. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_number(const __grid_constant__ struct vjp_number_params a)
{
    const long long all = vjp_all(a.of), first = vjp_first(a.of), step = vjp_step(a.of);
    const int lane = vjp_lane(a.of);

    for (long long item = first; item - (int)threadIdx.x / a.of.lanes < all; item += step) {
        double sum = 0;

        for (long long i = lane; item < all && i < a.of.cols; i += a.of.lanes)
            sum += a.sums[item * a.step + i];
        sum = vjp_sum(a.of, sum);
        if (lane == 0 && item < all)
            *vjp_row(a.of, a.out, item, 0) = (REAL)sum;
    }
}

/* The weights of a block of a kernel times grad, or what grad gives its cosines. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_weigh(const __grid_constant__ struct vjp_weigh_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    set_constants(a.constants);
    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *grad = vjp_row(a.of, a.grad, item, i);
        REAL *w = vjp_row(a.of, a.w, item, i);
        const double x = a.x_squares ? sqrt(a.x_squares[item * a.step + i]) : 0;

        for (long long j = vjp_lane(a.of); j < a.of.cols; j += a.of.lanes) {
            const REAL g = grad[j * a.grad.col_stride];
            REAL *to = w + j * a.w.col_stride;
            if (a.x_squares) {
                const double scale = x * sqrt(a.y_squares[item * a.step + j]);
                *to = scale == 0 ? (REAL)0 : (REAL)((double)g / scale);
            } else
                *to *= g;
        }
    }
}

/* What the norms of a cosine take away from its gradient. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_correct(const __grid_constant__ struct vjp_correct_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *x = vjp_row(a.of, a.x, item, i);
        REAL *to = vjp_row(a.of, a.to, item, i);
        const double square = a.squares[item * a.step + i], sum = a.sums[item * a.step + i];

        for (long long k = vjp_lane(a.of); square != 0 && k < a.of.cols; k += a.of.lanes)
            to[k * a.to.col_stride] -= (REAL)(sum / square * (double)x[k * a.x.col_stride]);
    }
}

/* Gradients to unit vectors become those to the vectors themselves. */
extern "C" __global__ void __launch_bounds__(VJP_THREADS)
    kernel_vjp_project(const __grid_constant__ struct vjp_project_params a)
{
    const long long all = vjp_all(a.of), step = vjp_step(a.of);

    for (long long at = vjp_first(a.of); at < all; at += step) {
        const long long item = at / a.of.rows, i = at - item * a.of.rows;
        const REAL *x = vjp_row(a.of, a.x, item, i);
        REAL *to = vjp_row(a.of, a.to, item, i);
        double square = 0, along = 0;

#pragma unroll 1
        for (long long k = 0; k < a.depth; k++) {
            const double e = (double)x[k * a.x.col_stride];
            square += e * e;
            along += e * (double)to[k * a.to.col_stride];
        }
#pragma unroll 1
        for (long long k = 0; k < a.depth; k++) {
            REAL *one = to + k * a.to.col_stride;
            const double across =
                (double)*one - along / square * (double)x[k * a.x.col_stride];
            *one = square == 0 ? (REAL)0 : (REAL)(across / sqrt(square));
        }
    }
}
