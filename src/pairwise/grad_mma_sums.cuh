/*
 * grad_mma_sums.cuh - the sums of a tile's panels, and what becomes of them
 *
 * Part of cdist_grad_mma.cu.
 *
 * SPDX-License-Identifier: MIT
 */

/* Element e of block b of a warp's sums, e as in ptx_mma_f16: its feature and point in the tile. */
static __device__ int feature_of(int b, int e)
{
    return (int)threadIdx.x / 128 * 64 + b / 4 * 16 + e / 2 * 8 + (int)threadIdx.x % 32 / 4;
}

static __device__ int point_of(int b, int e)
{
    return (int)threadIdx.x / 32 % 4 * 32 + b % 4 * 8 + (int)threadIdx.x % 4 * 2 + e % 2;
}

static __device__ void multiply(float sums[BLOCKS][4], const grad_plane (*panel)[2])
{
    const unsigned thread = ptx_thread(), row = thread % 8, matrix = thread % 32 / 8;
    const unsigned n = thread / 128 * 64 + matrix % 2 * 8,
                   m = thread / 32 % 4 * 32 + matrix / 2 * 8;
    unsigned b[2][2][4];

#pragma unroll
    for (int plane = 0; plane < 2; plane++)
#pragma unroll
        for (int j = 0; j < 2; j++)
            ptx_ldmatrix_x4_trans(b[plane][j],
                                  panel[1][plane] + place_of(matrix % 2 * 8 + row, m + j * 16));
#pragma unroll
    for (int plane = 1; plane >= 0; plane--)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned a[4];
            ptx_ldmatrix_x4_trans(a, panel[0][plane] + place_of(matrix / 2 * 8 + row, n + i * 16));
#pragma unroll
            for (int other = 1 - plane; other >= 0; other--) /* not lo lo */
#pragma unroll
                for (int j = 0; j < 4; j++)
                    ptx_mma_f16(sums[i * 4 + j], a, b[other][j / 2] + j % 2 * 2);
        }
}

static __device__ void fold(float sums[BLOCKS][4], struct grad_memory *memory)
{
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            memory->totals[(b * 4 + e) * THREADS + threadIdx.x] +=
                sums[b][e] * memory->unscale[feature_of(b, e)] *
                inverse(memory->point_scale[point_of(b, e)]);
            sums[b][e] = 0;
        }
}

static __device__ void sum_products(const struct grad_params *a, const struct grad_tile *tile,
                                    struct grad_memory *memory, float weights[2][4])
{
    const int count = (int)((tile->centres + BK - 1) / BK);
    float sums[BLOCKS][4] = {}, output = 1;
    struct grad_staged next;

    for (int e = 0; e < BLOCKS * 4; e++)
        memory->totals[e * THREADS + threadIdx.x] = 0;
    __syncthreads(); /* the means are there */
#pragma unroll 1
    for (int panel = -1; panel < count; panel++) {
        const bool last = (panel + 1) % FOLD == 0;
        if (panel + 1 < count)
            fetch_panel(a, tile, panel + 1, &next);
        if (panel >= 0)
            multiply(sums, memory->panels[panel % 2]);
        if (last || panel + 1 == count) {
            if (panel >= 0)
                fold(sums, memory);
            __syncthreads(); /* the scales are no longer read */
            if (panel + 1 < count) {
                output =
                    output_scale(a, tile, tile->centre / GRAD_RANGE_CENTRES + (panel + 1) / FOLD);
                find_scales(a, tile, memory, panel + 1);
            }
            __syncthreads();
        }
        if (panel + 1 < count)
            put_panel(memory, panel + 1, output, &next, weights);
        __syncthreads(); /* this panel is no longer read, and the next one is there */
    }
}

/* ---- Results -------------------------------------------------------------------------------- */

#define SHARES (A_LOAD ? THREADS / 32 : 16) /* of the sums of c a of a point */

/* The threads' parts of sums of c a, [share][point]. */
static __device__ void spread_weights(float *to, const float weights[2][4])
{
#pragma unroll
    for (int g = 0; g < (A_LOAD ? 1 : 2); g++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[(A_LOAD ? (int)threadIdx.x / 32 : centre_of<A_LOAD>(g)) * BM + row_of<A_LOAD>(g) +
               i] = weights[g][i];
    __syncthreads();
}

static __device__ float weight_of(const float *from, int point)
{
    float sum = 0;

#pragma unroll
    for (int share = 0; share < SHARES; share++)
        sum += from[share * BM + point];
    return sum;
}

/* An element by a warp, term by term. */
static __device__ float direct_sum(const struct grad_params *params, const struct grad_tile *tile,
                                   int feature, int point)
{
    const float *a = tile->a + point * params->a.col_stride;
    const float *b = tile->b + feature * params->b.row_stride;
    const float d = tile->d[feature * params->d.row_stride + point * params->d.col_stride];
    float sum = 0;

#pragma unroll 4
    for (long long k = threadIdx.x % 32; k < tile->centres; k += 32)
        sum += tile->c[k * params->c.col_stride] * a[k * params->a.row_stride] *
               (d - b[k * params->b.col_stride]);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    return sum;
}

/* Sums again what is in the tile and not finite, of all lanes of the warp. */
static __device__ void store_direct(const struct grad_params *a, const struct grad_tile *tile,
                                    float value, int feature, int point)
{
    const bool spoiled = !isfinite(value) && feature < tile->features && point < tile->points;
    unsigned lanes = __ballot_sync(0xffffffffu, spoiled);

    for (; lanes; lanes &= lanes - 1) {
        const int lane = __ffs((int)lanes) - 1;
        const float sum = direct_sum(a, tile, __shfl_sync(0xffffffffu, feature, lane),
                                     __shfl_sync(0xffffffffu, point, lane));
        if ((int)threadIdx.x % 32 == lane)
            value = sum;
    }
    store(a, tile, 0, feature, point, value);
}

static __device__ void store_tile(const struct grad_params *a, const struct grad_tile *tile,
                                  const struct grad_memory *memory)
{
    const float *const weights = (const float *)memory->panels;

#pragma unroll 1
    for (int e = 0; e < BLOCKS * 4; e++) {
        const int n = feature_of(e / 4, e % 4), m = point_of(e / 4, e % 4);
        const float d = coordinate(a, tile, n, m) - memory->mean[n];
        store_direct(a, tile, d * weight_of(weights, m) - memory->totals[e * THREADS + threadIdx.x],
                     n, m);
    }
}
