/*
 * vjp_rows.cuh - rows of a batch of matrices that belong to some neighbouring threads each
 *
 * Part of kernel_vjp.cu and kernel_reduce_vjp.cu, whose parameter REAL it uses.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "grad_params.h"

/* Rows of all items, this thread's among those of its block, and those of all blocks. */
static __device__ long long vjp_all(const struct vjp_rows &of) { return of.items * of.rows; }
static __device__ long long vjp_first(const struct vjp_rows &of)
{
    return (blockIdx.x * (long long)VJP_THREADS + threadIdx.x) / of.lanes;
}
static __device__ long long vjp_step(const struct vjp_rows &of)
{
    return gridDim.x * (long long)VJP_THREADS / of.lanes;
}
static __device__ int vjp_lane(const struct vjp_rows &of)
{
    return (int)(threadIdx.x & (of.lanes - 1));
}

static __device__ REAL *vjp_row(const struct vjp_rows &of, const struct device_view &m,
                                long long item, long long i)
{
    return (REAL *)m.data + batch_offset(of.shape, of.ndim, m.batch_stride, item) +
           i * m.row_stride;
}

/* The numbers 1, -1 and 0, for launches that follow. */
static __device__ void set_constants(void *constants)
{
    if (blockIdx.x == 0 && threadIdx.x < 3)
        ((REAL *)constants)[threadIdx.x] =
            (REAL)(threadIdx.x == 0 ? 1 : threadIdx.x == 1 ? -1 : 0);
}
