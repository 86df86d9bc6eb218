/*
 * kfac_factors.cu - Kronecker factors of a layer: X^T X of positions by features
 *
 * factor_products: tiles of 64 by 64 of the lower triangle.  A block has one, for a split of the
 * positions: these come through shared memory, 16 at a time, for patches each element from where
 * it lies in the image, so that patches are never stored.  factor_store adds the splits.
 * factor_sums: sums of columns, where X^T X alone is cuBLAS's.
 * factor_reduce: sums over the positions of a sample.
 * factor_clear, factor_count, factor_rows_store: an embedding's counts of rows.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "factor_params.h"

#include "ptx.cuh"

#define THREADS FACTOR_THREADS
#define SIDE    FACTOR_SIDE
#define DEPTH   FACTOR_DEPTH
#define BATCH   FACTOR_BATCH
#define EACH    4 /* SIDE by SIDE elements are EACH by EACH a thread */
#define ROW     (SIDE + 4)

typedef struct factor_params params;

/* ---- Where elements lie --------------------------------------------------------------------- */

static __device__ long long axes_at(const struct factor_axes &axes, long long i)
{
    long long at = 0;

    for (int d = (int)axes.ndim - 1; d > 0; d--) {
        at += i % axes.shape[d] * axes.stride[d];
        i /= axes.shape[d];
    }
    return axes.ndim ? at + i * axes.stride[0] : 0;
}

static __device__ REAL number_of(long long type, const char *data, long long at)
{
    if (type == FACTOR_F32)
        return (REAL)((const float *)data)[at];
    if (type == FACTOR_F64)
        return (REAL)((const double *)data)[at];
    if (type == FACTOR_F16)
        return (REAL)ptx_float_of_half(((const unsigned short *)data)[at]);
    return (REAL)ptx_float_of_bfloat(((const unsigned short *)data)[at]);
}

static __device__ long long row_at(const struct factor_rows &r, long long sample, long long s)
{
    const long long at = sample * r.sample_stride + axes_at(r.position, s);

    return r.type == FACTOR_I32 ? ((const int *)r.data)[at] : ((const long long *)r.data)[at];
}

/* A position or a feature: how much it adds to an element's place, and of patches where it is in
 * the image: element x, y, z is there if all sums are inside. */
struct place {
    long long at;
    int x, y, z;
    int there;
};

static __device__ struct place position_of(const params &a, long long q)
{
    struct place p = {0, 0, 0, 0, 0};

    if (q >= a.count)
        return p;
    const long long sample = q / a.positions, s = q - sample * a.positions;
    p.at = sample * a.x.sample_stride;
    p.there = !a.mask.data || row_at(a.mask, sample, s) != a.mask.padding;
    if (!a.x.patches) {
        p.at += axes_at(a.x.position, s);
        return p;
    }
    p.z = (int)(s % a.x.place[2] * a.x.stride[2] - a.x.padding[2]);
    p.y = (int)(s / a.x.place[2] % a.x.place[1] * a.x.stride[1] - a.x.padding[1]);
    p.x = (int)(s / a.x.place[2] / a.x.place[1] * a.x.stride[0] - a.x.padding[0]);
    p.at += p.x * a.x.size_stride[0] + p.y * a.x.size_stride[1] + p.z * a.x.size_stride[2];
    return p;
}

/* there 2: the feature that is 1. */
static __device__ struct place feature_of(const params &a, long long f)
{
    struct place p = {0, 0, 0, 0, f < a.features ? 1 : f == a.features && a.ones ? 2 : 0};

    if (p.there != 1)
        return p;
    if (!a.x.patches) {
        p.at = f * a.x.feature_stride;
        return p;
    }
    p.z = (int)(f % a.x.kernel[2] * a.x.dilation[2]);
    f /= a.x.kernel[2];
    p.y = (int)(f % a.x.kernel[1] * a.x.dilation[1]);
    f /= a.x.kernel[1];
    p.x = (int)(f % a.x.kernel[0] * a.x.dilation[0]);
    p.at = f / a.x.kernel[0] * a.x.feature_stride + p.x * a.x.size_stride[0] +
           p.y * a.x.size_stride[1] + p.z * a.x.size_stride[2];
    return p;
}

static __device__ REAL element_of(const params &a, long long group, const struct place &p,
                                  const struct place &f)
{
    if (!p.there || f.there != 1)
        return p.there && f.there == 2 ? (REAL)1 : (REAL)0;
    if (a.x.patches && ((unsigned)(p.x + f.x) >= (unsigned)a.x.size[0] ||
                        (unsigned)(p.y + f.y) >= (unsigned)a.x.size[1] ||
                        (unsigned)(p.z + f.z) >= (unsigned)a.x.size[2]))
        return 0;
    return number_of(a.x.type, a.x.data, group * a.x.group_stride + p.at + f.at);
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Tile `pair` of a lower triangle, row by row. */
static __device__ void tile_of(long long pair, long long *i, long long *j)
{
    long long row = (long long)((sqrt(8.0 * (double)pair + 1) - 1) / 2);

    while (row * (row + 1) / 2 > pair)
        row--;
    while ((row + 1) * (row + 2) / 2 <= pair)
        row++;
    *i = row;
    *j = pair - row * (row + 1) / 2;
}

/* DEPTH positions of SIDE features to shared memory. */
static __device__ void load(const params &a, long long group, const struct place *positions,
                            const struct place *features, REAL (*to)[ROW])
{
    const int t = (int)threadIdx.x;

    for (int e = t; e < DEPTH * SIDE; e += THREADS) {
        const int q = a.x.planes ? e % DEPTH : e / SIDE, f = a.x.planes ? e / DEPTH : e % SIDE;
        to[q][f] = element_of(a, group, positions[q], features[f]);
    }
}

static __device__ void multiply(const REAL (*left)[ROW], const REAL (*right)[ROW],
                                REAL (*sum)[EACH])
{
    const int row = (int)threadIdx.x / (SIDE / EACH) * EACH;
    const int col = (int)threadIdx.x % (SIDE / EACH) * EACH;

#pragma unroll
    for (int q = 0; q < DEPTH; q++) {
        REAL l[EACH], r[EACH];
#pragma unroll
        for (int u = 0; u < EACH; u++)
            l[u] = left[q][row + u], r[u] = right[q][col + u];
#pragma unroll
        for (int u = 0; u < EACH; u++)
#pragma unroll
            for (int v = 0; v < EACH; v++)
                sum[u][v] += l[u] * r[v];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    factor_products(const __grid_constant__ params a)
{
    __shared__ struct place positions[BATCH], rows[SIDE], cols[SIDE];
    __shared__ __align__(16) REAL left[DEPTH][ROW];
    __shared__ __align__(16) REAL right[DEPTH][ROW];
    const long long pair = blockIdx.x % a.pairs, group = blockIdx.x / a.pairs % a.groups;
    const long long split = blockIdx.x / a.pairs / a.groups;
    const long long end = (split + 1) * a.each < a.count ? (split + 1) * a.each : a.count;
    const int t = (int)threadIdx.x;
    REAL sum[EACH][EACH] = {};
    long long i, j;

    tile_of(pair, &i, &j);
    if (t < SIDE)
        rows[t] = feature_of(a, i * SIDE + t);
    else if (t < 2 * SIDE)
        cols[t - SIDE] = feature_of(a, j * SIDE + t - SIDE);
    for (long long q = split * a.each; q < end; q += DEPTH) {
        const int at = (int)((q - split * a.each) % BATCH);
        __syncthreads();
        if (at == 0) {
            if (t < BATCH)
                positions[t] = position_of(a, q + t);
            __syncthreads();
        }
        load(a, group, positions + at, rows, left);
        if (i != j)
            load(a, group, positions + at, cols, right);
        __syncthreads();
        multiply(left, i != j ? right : left, sum);
    }
    REAL *to = (REAL *)a.partial + (long long)blockIdx.x * SIDE * SIDE;
    for (int u = 0; u < EACH; u++)
        for (int v = 0; v < EACH; v++)
            to[(t / (SIDE / EACH) * EACH + u) * SIDE + t % (SIDE / EACH) * EACH + v] = sum[u][v];
}

/* Sums of columns over a split of the positions; blocks go along the features first. */
extern "C" __global__ void __launch_bounds__(THREADS) factor_sums(const __grid_constant__ params a)
{
    const long long wide = (a.features + THREADS - 1) / THREADS, split = blockIdx.x / wide;
    const long long f = blockIdx.x % wide * THREADS + threadIdx.x;
    const long long end = (split + 1) * a.each < a.count ? (split + 1) * a.each : a.count;
    double sum = 0;

    if (f >= a.features)
        return;
    for (long long q = split * a.each; q < end; q++)
        sum += (double)element_of(a, 0, position_of(a, q), feature_of(a, f));
    a.sums[split * a.features + f] = sum;
}

/* ---- Results -------------------------------------------------------------------------------- */

/* Element (i, j), i >= j, of X^T X. */
static __device__ double value_of(const params &a, long long group, long long i, long long j)
{
    const long long row = i / SIDE, tile = (group * a.pairs) + row * (row + 1) / 2 + j / SIDE;
    const REAL *from = (const REAL *)a.partial + tile * SIDE * SIDE + i % SIDE * SIDE + j % SIDE;
    double sum = 0;

    if (!a.product) {
        for (long long split = 0; split < a.splits; split++)
            sum += (double)from[split * a.groups * a.pairs * SIDE * SIDE];
        return sum;
    }
    if (i < a.features)
        return (double)((const REAL *)a.product)[i * a.features + j];
    if (j == a.features)
        return (double)a.count;
    for (long long split = 0; split < a.splits; split++)
        sum += a.sums[split * a.features + j];
    return sum;
}

static __device__ void store(const params &a, REAL *to, double value)
{
    *to = (REAL)(a.keep != 0 ? a.keep * (double)*to + value : value);
}

extern "C" __global__ void __launch_bounds__(THREADS) factor_store(const __grid_constant__ params a)
{
    const long long n = a.features + a.ones, all = a.groups * n * n;
    const long long step = (long long)gridDim.x * THREADS;

    for (long long e = (long long)blockIdx.x * THREADS + threadIdx.x; e < all; e += step) {
        const long long group = e / n / n, i = e / n % n, j = e % n;
        if (j > i)
            continue;
        const double value = a.scale != 0 ? a.scale * value_of(a, group, i, j) : 0;
        REAL *to = (REAL *)a.out.data + group * a.out.group_stride;
        store(a, to + axes_at(a.out.row, i) + axes_at(a.out.col, j), value);
        if (i != j)
            store(a, to + axes_at(a.out.row, j) + axes_at(a.out.col, i), value);
    }
}

/* ---- Samples as one position ---------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(THREADS)
    factor_reduce(const __grid_constant__ params a)
{
    const long long all = a.groups * a.samples * a.features;
    const long long step = (long long)gridDim.x * THREADS;

    for (long long e = (long long)blockIdx.x * THREADS + threadIdx.x; e < all; e += step) {
        const long long f = e % a.features, sample = e / a.features % a.samples;
        const long long group = e / a.features / a.samples;
        const struct place feature = feature_of(a, f);
        double sum = 0;
        for (long long s = 0; s < a.positions; s++)
            sum += (double)element_of(a, group, position_of(a, sample * a.positions + s), feature);
        ((REAL *)a.reduced)[e] = (REAL)(sum * a.mean);
    }
}

/* ---- Rows of a table ------------------------------------------------------------------------ */

extern "C" __global__ void __launch_bounds__(THREADS) factor_clear(const __grid_constant__ params a)
{
    const long long step = (long long)gridDim.x * THREADS;

    for (long long r = (long long)blockIdx.x * THREADS + threadIdx.x; r <= a.mask.rows; r += step)
        a.counts[r] = 0;
}

/* Whole numbers: their order does not matter. */
extern "C" __global__ void __launch_bounds__(THREADS) factor_count(const __grid_constant__ params a)
{
    const long long step = (long long)gridDim.x * THREADS;

    for (long long q = (long long)blockIdx.x * THREADS + threadIdx.x; q < a.count; q += step) {
        const long long sample = q / a.positions;
        const long long row = row_at(a.mask, sample, q - sample * a.positions);
        unsigned long long often = 1;
        if (row < 0 || row >= a.mask.rows) {
            atomicAdd(&a.counts[a.mask.rows], often);
            continue;
        }
        if (a.reduces) /* the square of a count is a sum of as many counts */
            for (long long s = often = 0; s < a.positions; s++)
                often += row_at(a.mask, sample, s) == row;
        atomicAdd(&a.counts[row], often);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    factor_rows_store(const __grid_constant__ params a)
{
    const long long step = (long long)gridDim.x * THREADS;
    const double beside = a.counts[a.mask.rows] ? __longlong_as_double(0x7ff8000000000000ll) : 0;

    for (long long r = (long long)blockIdx.x * THREADS + threadIdx.x; r < a.mask.rows; r += step) {
        const double count = r == a.mask.padding ? 0 : (double)a.counts[r];
        store(a, (REAL *)a.out.data + axes_at(a.out.col, r) + axes_at(a.out.row, r),
              a.scale * count + beside);
    }
}
