/*
 * cdist_grad_mma.cu - cdist_grad.cu's results for p = 2 in f32, by tensor cores
 *
 *   out[o, n, m] = (d[n, m] - s[n]) sum_k c[o, k] a[k, m]
 *                  - sum_k (c[o, k] (b[n, k] - s[n])) a[k, m]
 *
 * with s[n] the mean of b[n, :].  A block makes a tile of an output, 128 features and 128
 * points: eight warps, two by four, each 64 by 32 of it.
 *
 * Panels of BK centres come to registers while the one before is multiplied.  There both factors
 * of the product are scaled by powers of 2, so that the largest of GRAD_RANGE_CENTRES centres is
 * just below 2^15, and written to shared memory as hi + lo, binary16 both; mma.sync adds hi hi, hi
 * lo and lo hi.  Rows of panels are centres; their groups of 8 elements change places with the
 * row, so that neither writes nor ldmatrix meet a bank twice.  After each GRAD_RANGE_CENTRES
 * centres the sums are scaled back and added to totals in shared memory.
 *
 * Error: the factors have 22 bits, or 2^-40 of the largest one in those centres; tensor cores
 * truncate where they add, at most 3 eps of the partial sum for 16 centres.  What is not finite in
 * the end, for such numbers or because scales would leave f32, is summed again term by term, by a
 * warp an element.
 *
 * Parameters (-D): A_LOAD, B_LOAD as in cdist_grad.cu.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "grad_params.h"
#include "ptx.cuh"

#define REAL     float
#define P_TENSOR 0
#define TO       1
#define THREADS  GRAD_MMA_THREADS
#define BM       128
#define BN       128
#define BK       16
#define FOLD     (GRAD_RANGE_CENTRES / BK) /* panels */
#define SAME     (!A_LOAD == !B_LOAD)      /* centres of a thread in both matrices */
#define BLOCKS   16                        /* of 16 by 8 sums that a warp has */

#include "grad_tile.cuh"

typedef unsigned short grad_plane[BK * 128];

/* In dynamic shared memory, GRAD_MMA_BYTES. */
struct grad_memory {
    grad_plane panels[2][2][2]; /* [panel % 2][features, points][hi, lo] */
    float totals[BLOCKS * 4 * THREADS];
    float mean[BN], feature_scale[BN], point_scale[BM];
    float unscale[BN]; /* feature's and output's */
};

static_assert(sizeof(struct grad_memory) == GRAD_MMA_BYTES, "GRAD_MMA_BYTES");

/* What a thread brings of a panel: two groups of four elements near each other, of one centre
 * each. */
struct grad_staged {
    float a[2][4], b[2][4], a_weight[2], b_weight[2];
};

/* ---- Scales --------------------------------------------------------------------------------- */

/* The power of 2 that takes numbers up to `most` below 2^target. */
static __device__ float scale_for(float most, int target)
{
    int e = target - 1 - ((__float_as_int(most) >> 23) - 127);

    e = e < -126 ? -126 : e > 126 ? 126 : e;
    return most > 0 ? __int_as_float((e + 127) << 23) : 1.0f;
}

/* 1 / x for a power of 2. */
static __device__ float inverse(float x)
{
    return __int_as_float((254 << 23) - __float_as_int(x));
}

static __device__ const struct grad_range *
range_at(const struct grad_params *a, const struct grad_tile *tile, long long part, long long row)
{
    return a->ranges + (part * a->items + tile->item) * (a->points + a->features + a->outputs) +
           row;
}

static __device__ float largest(const struct grad_range *range, float mean)
{
    return fmaxf(fabsf(range->most - mean), fabsf(mean - range->least));
}

static __device__ float output_scale(const struct grad_params *a, const struct grad_tile *tile,
                                     long long part)
{
    return scale_for(largest(range_at(a, tile, part, a->points + a->features + tile->output), 0),
                     7);
}

/* The scales of the centres from `panel` on: half of the threads those of features, the others
 * those of points. */
static __device__ void find_scales(const struct grad_params *a, const struct grad_tile *tile,
                                   struct grad_memory *memory, int panel)
{
    const long long part = tile->centre / GRAD_RANGE_CENTRES + panel / FOLD;
    const int i = (int)threadIdx.x % 128;

    if (threadIdx.x >= 128) {
        memory->point_scale[i] =
            i < tile->points ? scale_for(largest(range_at(a, tile, part, tile->point + i), 0), 15)
                             : 1;
    } else if (i < tile->features) {
        const float output = output_scale(a, tile, part), mean = memory->mean[i];
        const float feature =
            scale_for(largest(range_at(a, tile, part, a->points + tile->feature + i), mean), 8);
        const float both = feature * output;
        /* The sums, 2^-48 to 2^39 or 0, stay normal: else NaN. */
        memory->feature_scale[i] = feature;
        memory->unscale[i] =
            both >= 0x1p-60f && both <= 0x1p60f ? inverse(both) : __int_as_float(0x7fc00000);
    } else {
        memory->feature_scale[i] = memory->unscale[i] = 1;
    }
}

/* The mean of each feature of the tile, 0 if it is not finite. */
static __device__ void find_means(const struct grad_params *a, const struct grad_tile *tile,
                                  float *means)
{
    const long long parts = (a->centres + GRAD_RANGE_CENTRES - 1) / GRAD_RANGE_CENTRES;
    const int n = (int)threadIdx.x;
    double sum = 0;

    if (n >= BN)
        return;
#pragma unroll 8
    for (long long part = 0; n < tile->features && part < parts; part++)
        sum += range_at(a, tile, part, a->points + tile->feature + n)->sum;
    sum /= (double)a->centres;
    means[n] = isfinite(sum) ? (float)sum : 0;
}

/* ---- Panels --------------------------------------------------------------------------------- */

/* The centre and the first row of a group of a thread; LOAD as A_LOAD. */
template <int LOAD> static __device__ int centre_of(int group)
{
    return (int)(LOAD ? ptx_thread() / 32 + group * 8 : ptx_thread() % 16);
}

template <int LOAD> static __device__ int row_of(int group)
{
    return (int)(LOAD ? ptx_thread() % 32 * 4 : (ptx_thread() / 16 + group * 16) * 4);
}

struct __align__(16) grad_group
{
    float at[4];
};

static __device__ struct grad_group group_at(const float *from)
{
    return *(const struct grad_group *)from;
}

/* `rows` rows and `left` centres are there; zeros for the others. */
template <int LOAD>
static __device__ void fetch(float to[2][4], const float *from, long long row_stride,
                             long long centre_stride, int rows, int left)
{
    const long long stride = LOAD == 2 ? 1 : row_stride;
    int k = centre_of<LOAD>(0), row = row_of<LOAD>(0);
    const float *source = from + k * centre_stride + row * stride;

#pragma unroll
    for (int g = 0; g < 2; g++) {
        const int count = k < left ? rows - row : 0;
        if (LOAD == 2 && count >= 4) {
            const struct grad_group group = group_at(source);
#pragma unroll
            for (int i = 0; i < 4; i++)
                to[g][i] = group.at[i];
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++)
                to[g][i] = i < count ? source[i * stride] : 0;
        }
        source += LOAD ? 8 * centre_stride : 64 * stride;
        k += LOAD ? 8 : 0, row += LOAD ? 0 : 64;
    }
}

template <int LOAD>
static __device__ void fetch_weights(float to[2], const float *from, long long centre_stride,
                                     int left)
{
    const int k = centre_of<LOAD>(0);
    const float *source = from + k * centre_stride;

    to[0] = k < left ? *source : 0;
    if (LOAD)
        to[1] = k + 8 < left ? source[8 * centre_stride] : 0;
    else
        to[1] = to[0];
}

static __device__ void fetch_panel(const struct grad_params *a, const struct grad_tile *tile,
                                   int panel, struct grad_staged *to)
{
    const long long k = (long long)panel * BK;
    const int left = tile->centres - k < BK ? (int)(tile->centres - k) : BK;
    const float *c = tile->c + k * a->c.col_stride;

    fetch<A_LOAD>(to->a, tile->a + k * a->a.row_stride, a->a.col_stride, a->a.row_stride,
                  tile->points, left);
    fetch<B_LOAD>(to->b, tile->b + k * a->b.col_stride, a->b.row_stride, a->b.col_stride,
                  tile->features, left);
    fetch_weights<A_LOAD>(to->a_weight, c, a->c.col_stride, left);
    if (!SAME)
        fetch_weights<B_LOAD>(to->b_weight, c, a->c.col_stride, left);
}

/* Where a group of 8 rows from `row` on, of a centre, lies in a plane. */
static __device__ unsigned place_of(unsigned centre, unsigned row)
{
    return centre * 128 + (row / 8 ^ centre % 8) * 8;
}

struct __align__(8) grad_halves
{
    unsigned at[2];
};

static __device__ float rest_of(float x, unsigned halves, int which)
{
    return x - ptx_float_of_half((unsigned short)(halves >> 16 * which));
}

/* Four rows of a centre. */
static __device__ void store_planes(grad_plane *planes, unsigned centre, unsigned row,
                                    const float x[4])
{
    const unsigned at = place_of(centre, row) + row % 8;
    struct grad_halves hi, lo;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        hi.at[i] = ptx_halves_of_floats(x[2 * i], x[2 * i + 1]);
        lo.at[i] = ptx_halves_of_floats(rest_of(x[2 * i], hi.at[i], 0),
                                        rest_of(x[2 * i + 1], hi.at[i], 1));
    }
    *(struct grad_halves *)(planes[0] + at) = hi;
    *(struct grad_halves *)(planes[1] + at) = lo;
}

/* A panel to shared memory; sums c a of the thread's points. */
static __device__ void store_panel(struct grad_memory *memory, int panel, float output_scale,
                                 const struct grad_staged *from, float weights[2][4])
{
    grad_plane(*const to)[2] = memory->panels[panel % 2];

#pragma unroll
    for (int g = 0; g < 2; g++) {
        const int n = row_of<B_LOAD>(g), m = row_of<A_LOAD>(g);
        const struct grad_group mean = group_at(memory->mean + n),
                                b_scale = group_at(memory->feature_scale + n),
                                a_scale = group_at(memory->point_scale + m);
        const float c = (SAME ? from->a_weight : from->b_weight)[g] * output_scale;
        float x[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] = (from->b[g][i] - mean.at[i]) * b_scale.at[i] * c;
        store_planes(to[0], centre_of<B_LOAD>(g), n, x);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            weights[A_LOAD ? 0 : g][i] += from->a_weight[g] * from->a[g][i];
            x[i] = from->a[g][i] * a_scale.at[i];
        }
        store_planes(to[1], centre_of<A_LOAD>(g), m, x);
    }
}

/* ---- Sums ----------------------------------------------------------------------------------- */

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
            store_panel(memory, panel + 1, output, &next, weights);
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

/* ---- Tiles ---------------------------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(THREADS, A_LOAD ? 2 : 1)
    cdist_grad_mma(const __grid_constant__ struct grad_params a)
{
    extern __shared__ __align__(16) char dynamic[];
    __shared__ struct grad_tile tile;
    struct grad_memory *const memory = (struct grad_memory *)dynamic;
    const long long tiles = a.items * a.splits * a.point_tiles * a.output_tiles * a.feature_tiles;

    for (long long at = blockIdx.x; at < tiles; at += gridDim.x) {
        float weights[2][4] = {};
        __syncthreads(); /* the last tile is stored */
        if (threadIdx.x == 0)
            find_tile(&a, at, &tile);
        __syncthreads();
        find_means(&a, &tile, memory->mean);
        sum_products(&a, &tile, memory, weights);
        spread_weights((float *)memory->panels, weights);
        store_tile(&a, &tile, memory);
    }
}
