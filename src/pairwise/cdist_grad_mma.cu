/*
 * cdist_grad_mma.cu - cdist_grad.cu's results for p = 2 in f32, by tensor cores
 *
 *   out[o, n, m] = (d[n, m] - s[n]) sum_k c[o, k] a[k, m] - sum_k (c[o, k] (b[n, k] - s[n])) a[k,
 * m] with s[n] the mean of b[n, :].  A block makes a tile of an output, 128 features and 128
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
#include "batch.cuh"
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
static __device__ void put(grad_plane *planes, unsigned centre, unsigned row, const float x[4])
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
static __device__ void put_panel(struct grad_memory *memory, int panel, float output_scale,
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
        put(to[0], centre_of<B_LOAD>(g), n, x);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            weights[A_LOAD ? 0 : g][i] += from->a_weight[g] * from->a[g][i];
            x[i] = from->a[g][i] * a_scale.at[i];
        }
        put(to[1], centre_of<A_LOAD>(g), m, x);
    }
}

#include "grad_mma_sums.cuh"

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
