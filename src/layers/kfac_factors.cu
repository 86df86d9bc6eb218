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
#include "layer_side.cuh"

#define THREADS FACTOR_THREADS
#define SIDE    FACTOR_SIDE
#define DEPTH   FACTOR_DEPTH
#define BATCH   FACTOR_BATCH
#define EACH    4 /* SIDE by SIDE elements are EACH by EACH a thread */
#define ROW     (SIDE + 4)
#define LOADS   (DEPTH * SIDE / THREADS)

typedef struct factor_params params;

/* ---- Where elements lie ---------------------------------------------------------------------- */

/* A position of all samples. */
static __device__ struct part position_at(const params &a, long long q)
{
    struct part p = {};

    if (q >= a.count)
        return p;
    const long long sample = q / a.l.positions;
    const int s = (int)(q - sample * a.l.positions);
    p = input_position(a.l, s);
    p.at += sample * a.l.a.sample_stride;
    p.there = !a.masked || table_row(a.l.g, sample, s) != a.l.padding_row;
    return p;
}

/* there 2: the feature that is 1. */
static __device__ struct part feature_at(const params &a, long long group, long long f)
{
    struct part p = {};

    if (f < a.features)
        p = input_feature(a.l, (int)group, (int)f);
    p.there = f < a.features ? 1 : f == a.features && a.ones ? 2 : 0;
    return p;
}

/* True if the element lies in memory; otherwise it is *value. */
static __device__ bool is_stored(const params &a, const struct part &p, const struct part &f,
                                 REAL *value)
{
    *value = p.there && f.there == 2 ? (REAL)1 : (REAL)0;
    return p.there && f.there == 1 && (!a.l.patches || inside(a.l, f, p));
}

static __device__ REAL element_of(const params &a, const struct part &p, const struct part &f)
{
    REAL value;

    return is_stored(a, p, f, &value) ? side_value(a.l.a, p.at + f.at) : value;
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

/* DEPTH positions of SIDE features to shared memory.  A thread's elements are all read before the
 * first is stored, and numbers of the type REAL without a branch, so that their latencies
 * overlap. */
static __device__ void load(const params &a, const struct part *positions,
                            const struct part *features, REAL (*to)[ROW])
{
    const int t = (int)threadIdx.x;
    REAL got[LOADS];
    bool stored[LOADS];
    long long at[LOADS];

#pragma unroll
    for (int u = 0; u < LOADS; u++) {
        const int e = t + u * THREADS;
        const struct part &p = positions[a.planes ? e % DEPTH : e / SIDE];
        const struct part &f = features[a.planes ? e / DEPTH : e % SIDE];
        stored[u] = is_stored(a, p, f, &got[u]);
        at[u] = p.at + f.at;
    }
    if (a.l.a.dtype == DEVICE_REAL) {
#pragma unroll
        for (int u = 0; u < LOADS; u++)
            if (stored[u])
                got[u] = ((const REAL *)a.l.a.data)[at[u]];
    } else {
#pragma unroll
        for (int u = 0; u < LOADS; u++)
            if (stored[u])
                got[u] = side_value(a.l.a, at[u]);
    }
#pragma unroll
    for (int u = 0; u < LOADS; u++) {
        const int e = t + u * THREADS;
        to[a.planes ? e % DEPTH : e / SIDE][a.planes ? e / DEPTH : e % SIDE] = got[u];
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
    __shared__ struct part positions[BATCH], rows[SIDE], cols[SIDE];
    __shared__ __align__(16) REAL left[DEPTH][ROW];
    __shared__ __align__(16) REAL right[DEPTH][ROW];
    const long long pair = blockIdx.x % a.pairs, group = blockIdx.x / a.pairs % a.l.groups;
    const long long split = blockIdx.x / a.pairs / a.l.groups;
    const long long end = (split + 1) * a.each < a.count ? (split + 1) * a.each : a.count;
    const int t = (int)threadIdx.x;
    REAL sum[EACH][EACH] = {};
    long long i, j;

    tile_of(pair, &i, &j);
    if (t < SIDE)
        rows[t] = feature_at(a, group, i * SIDE + t);
    else if (t < 2 * SIDE)
        cols[t - SIDE] = feature_at(a, group, j * SIDE + t - SIDE);
    for (long long q = split * a.each; q < end; q += DEPTH) {
        const int at = (int)((q - split * a.each) % BATCH);
        __syncthreads();
        if (at == 0) {
            if (t < BATCH)
                positions[t] = position_at(a, q + t);
            __syncthreads();
        }
        load(a, positions + at, rows, left);
        if (i != j)
            load(a, positions + at, cols, right);
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
        sum += (double)element_of(a, position_at(a, q), feature_at(a, 0, f));
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
            sum += (double)from[split * a.l.groups * a.pairs * SIDE * SIDE];
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
    const long long n = a.features + a.ones, all = a.l.groups * n * n;
    const long long step = (long long)gridDim.x * THREADS;

    for (long long e = (long long)blockIdx.x * THREADS + threadIdx.x; e < all; e += step) {
        const long long group = e / n / n, i = e / n % n, j = e % n;
        if (j > i)
            continue;
        const double value = a.scale != 0 ? a.scale * value_of(a, group, i, j) : 0;
        REAL *to = (REAL *)a.out.data + group * a.out.sample_stride;
        store(a, to + axes_at(a.out.row, (int)i) + axes_at(a.out.col, (int)j), value);
        if (i != j)
            store(a, to + axes_at(a.out.row, (int)j) + axes_at(a.out.col, (int)i), value);
    }
}

/* ---- Samples as one position ---------------------------------------------------------------- */

extern "C" __global__ void __launch_bounds__(THREADS)
    factor_reduce(const __grid_constant__ params a)
{
    const long long samples = a.count / a.l.positions;
    const long long all = a.l.groups * samples * a.features;
    const long long step = (long long)gridDim.x * THREADS;

    for (long long e = (long long)blockIdx.x * THREADS + threadIdx.x; e < all; e += step) {
        const long long f = e % a.features, sample = e / a.features % samples;
        const long long group = e / a.features / samples;
        const struct part feature = feature_at(a, group, f);
        double sum = 0;
        for (int s = 0; s < a.l.positions; s++)
            sum += (double)element_of(a, position_at(a, sample * a.l.positions + s), feature);
        ((REAL *)a.reduced)[e] = (REAL)(sum * a.mean);
    }
}

/* ---- Rows of a table ------------------------------------------------------------------------ */

extern "C" __global__ void __launch_bounds__(THREADS) factor_clear(const __grid_constant__ params a)
{
    const long long step = (long long)gridDim.x * THREADS;

    for (long long r = (long long)blockIdx.x * THREADS + threadIdx.x; r <= a.l.in; r += step)
        a.counts[r] = 0;
}

/* Whole numbers: their order does not matter. */
extern "C" __global__ void __launch_bounds__(THREADS) factor_count(const __grid_constant__ params a)
{
    const long long step = (long long)gridDim.x * THREADS;

    for (long long q = (long long)blockIdx.x * THREADS + threadIdx.x; q < a.count; q += step) {
        const long long sample = q / a.l.positions;
        const long long row = table_row(a.l.g, sample, (int)(q - sample * a.l.positions));
        unsigned long long often = 1;
        if (row < 0 || row >= a.l.in) {
            atomicAdd(&a.counts[a.l.in], often);
            continue;
        }
        if (a.reduces) /* the square of a count is a sum of as many counts */
            for (int s = often = 0; s < a.l.positions; s++)
                often += table_row(a.l.g, sample, s) == row;
        atomicAdd(&a.counts[row], often);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    factor_rows_store(const __grid_constant__ params a)
{
    const long long step = (long long)gridDim.x * THREADS;
    const double beside = a.counts[a.l.in] ? __longlong_as_double(0x7ff8000000000000ll) : 0;

    for (long long r = (long long)blockIdx.x * THREADS + threadIdx.x; r < a.l.in; r += step) {
        const double count = r == a.l.padding_row ? 0 : (double)a.counts[r];
        store(a, (REAL *)a.out.data + axes_at(a.out.col, (int)r) + axes_at(a.out.row, (int)r),
              a.scale * count + beside);
    }
}
