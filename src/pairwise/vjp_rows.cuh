/*
 * vjp_rows.cuh - rows of a batch of matrices, each of which some neighbouring threads have
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_params.h"

#include "batch.cuh"

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

static __device__ REAL *vjp_row(const struct vjp_rows &of, const struct vjp_matrix &m,
                                long long item, long long i)
{
    return (REAL *)m.data + batch_offset(of.shape, of.ndim, m.batch_stride, item) +
           i * m.row_stride;
}

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
