/*
 * kron_matmul_mma.cu - one Kronecker factor by tensor cores: a product of matrices where x lies
 *
 *   y[unit, q, a] = sum_p x[unit, p, a] f[p, q]
 *
 * A column is a unit and an index a after the factor.  A block of eight warps has BQ of the q and
 * BN columns, each warp MT times 16 by NT times 8 of them, and goes through p in chunks of BK,
 * which come to shared memory by asynchronous copies, STAGES - 1 ahead.  Fragments are those of
 * ptx.cuh: A is the factor, transposed, B is x.
 *
 * f32: two parts of a number, see kron_mma.cuh.  Halves have 11 bits at most: one product, or two
 * where x lies in between as f32.
 *
 * Parameters (-D), set by cuda_kron_matmul_plan.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; REAL is float or double
 *   DOUBLES      1: REAL is double
 *   MT, NT, WQ   tiles of 16 and of 8 of a warp, warps along q
 *   ALONG        1: neighbours in x are those along p, else columns
 *   X_LOAD, F_LOAD   elements of x and, along q, of the factor that are copied at once
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

#define THREADS 256
#define WN      (8 / WQ)
#define BQ      (16 * MT * WQ)
#define BN      (8 * NT * WN)
#define BK      16
#define STAGES  3

/* Rows in shared memory are so long that a warp's fragments come from all banks. */
static constexpr int PAD_P = 16 / (int)sizeof(x_element) < 4 ? 4 : 16 / (int)sizeof(x_element);
static constexpr int X_ROW = ALONG ? BK + PAD_P : BN + 32 / (int)sizeof(x_element);
static constexpr int F_ROW = BQ + 32 / (int)sizeof(f_element);

struct stage {
    alignas(16) x_element x[(ALONG ? BN : BK) * X_ROW];
    alignas(16) f_element f[BK * F_ROW];
};

struct offsets {
    long long x[BN], y[BN], z[BN];
};

/* Copies COUNT elements, or zeros; small ones do not wait for anything. */
template <typename T, int COUNT> static __device__ void copy(T *to, const T *from, bool there)
{
    constexpr int BYTES = COUNT * (int)sizeof(T);

    if constexpr (BYTES >= 4)
        ptx_copy_async<BYTES>(to, from, there ? BYTES : 0);
    else
        *to = there ? *from : (T)0;
}

static __device__ void copy_columns(const struct kron_params &a, const struct offsets &at,
                                    struct stage &s, const x_element *x, long long first,
                                    int columns)
{
    const long long step = a.after * a.x.col_stride;

#pragma unroll
    for (int i = 0; i < BK * BN / X_LOAD; i += THREADS) {
        const int e = (i + (int)threadIdx.x) * X_LOAD;
        const int p = ALONG ? e % BK : e / BN, n = ALONG ? e / BK : e % BN;
        const bool there = first + p < a.depth && n < columns;
        if (BK * BN / X_LOAD % THREADS == 0 || e < BK * BN)
            copy<x_element, X_LOAD>(s.x + (ALONG ? n * X_ROW + p : p * X_ROW + n),
                                    there ? x + at.x[n] + (first + p) * step : x, there);
    }
}

static __device__ void copy_factor(const struct kron_params &a, struct stage &s, const f_element *f,
                                   long long first, long long q0)
{
    for (int e = (int)threadIdx.x * F_LOAD; e < BK * BQ; e += THREADS * F_LOAD) {
        const long long p = first + e / BQ, q = q0 + e % BQ;
        const bool there = p < a.depth && q < a.outs;
        copy<f_element, F_LOAD>(
            s.f + e / BQ * F_ROW + e % BQ,
            there ? f + p * a.factor[0].row_stride + q * a.factor[0].col_stride : f, there);
    }
}

static __device__ void place_columns(const struct kron_params &a, struct offsets &at,
                                     long long column, int columns)
{
    for (int n = threadIdx.x; n < columns; n += THREADS) {
        const long long unit = quotient(column + n, a.after), inside = column + n - unit * a.after;
        at.x[n] = unit_offset(a, a.x, unit, a.depth) + inside * a.x.col_stride;
        at.y[n] = unit_offset(a, a.y, unit, a.outs) + inside * a.y.col_stride;
        at.z[n] = unit_offset(a, a.z, unit, a.outs) + inside * a.z.col_stride;
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

#include "kron_mma.cuh"

static constexpr int F_PARTS = F_KIND == DEVICE_REAL ? 2 : 1;
static constexpr int X_PARTS = X_KIND == DEVICE_REAL ? 2 : 1;

/* What there is of eight p: this warp's 16 MT by 8 NT results. */
static __device__ void multiply_step(const struct stage &s, int k, REAL (&sum)[MT][NT][4])
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int g = lane / 4, p = k + lane % 4;
    const int q0 = warp / WN * (16 * MT) + g, n0 = warp % WN * (8 * NT) + g;
    fragment b[NT][2][2];

#pragma unroll
    for (int j = 0; j < NT; j++) {
        const int n = n0 + j * 8;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int at = ALONG ? n * X_ROW + p + half * 4 : (p + half * 4) * X_ROW + n;
            b[j][0][half] = fragment_of(real_of<X_KIND>(s.x[at]));
        }
        if (X_KIND == DEVICE_REAL)
            split(b[j]);
    }
#pragma unroll
    for (int i = 0; i < MT; i++) {
        fragment a[2][4];
#pragma unroll
        for (int part = 0; part < 4; part++)
            a[0][part] = fragment_of(
                real_of<F_KIND>(s.f[(p + part / 2 * 4) * F_ROW + q0 + i * 16 + part % 2 * 8]));
        if (F_KIND == DEVICE_REAL)
            split(a);
        multiply<F_PARTS, X_PARTS>(sum[i], a, b);
    }
}

static __device__ void write_results(const struct kron_params &a, const struct offsets &at,
                                     const struct finish &f, const REAL (&sum)[MT][NT][4],
                                     long long first, int columns)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const long long q0 = first + warp / WN * (16 * MT) + lane / 4;
    const int n0 = warp % WN * (8 * NT) + lane % 4 * 2;

#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const int n = n0 + j * 8 + side;
            if (n >= columns)
                continue;
#pragma unroll
            for (int i = 0; i < MT * 2; i++) {
                const long long q = q0 + i * 8;
                REAL value = sum[i / 2][j][i % 2 * 2 + side];
                if (q >= a.outs)
                    continue;
                if (a.last)
                    value *= f.alpha;
                if (f.beta != 0)
                    value += f.beta * real_of<Y_KIND>(f.z[at.z[n] + q * a.after * a.z.col_stride]);
                f.y[at.y[n] + q * a.after * a.y.col_stride] = stored_of<Y_KIND>(value);
            }
        }
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

static __device__ void sum_products(const struct kron_params &a, const struct offsets &at,
                                    struct stage *stages, long long item, long long q0, int columns,
                                    REAL (&sum)[MT][NT][4])
{
    const x_element *x = item_of<const x_element>(a, a.x, item);
    const f_element *f = item_of<const f_element>(a, a.factor[0], item);
    int now = 0, next = STAGES - 1;

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s * BK < a.depth) {
            copy_columns(a, at, stages[s], x, s * BK, columns);
            copy_factor(a, stages[s], f, s * BK, q0);
        }
        ptx_copy_commit();
    }
#pragma unroll 1
    for (long long first = 0; first < a.depth; first += BK) {
        const long long ahead = first + (STAGES - 1) * BK;
        ptx_copy_wait<STAGES - 2>();
        __syncthreads(); /* this chunk is there, and the last one is no longer read */
        if (ahead < a.depth) {
            copy_columns(a, at, stages[next], x, ahead, columns);
            copy_factor(a, stages[next], f, ahead, q0);
        }
        ptx_copy_commit();
#pragma unroll 1
        for (int k = 0; k < BK; k += 8)
            multiply_step(stages[now], k, sum);
        now = now + 1 == STAGES ? 0 : now + 1, next = next + 1 == STAGES ? 0 : next + 1;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_matmul_mma(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(16) char memory[]; /* the stages */
    __shared__ struct offsets at;
    struct stage *stages = (struct stage *)memory;
    const long long columns = a.rows * a.before * a.after, tiles = a.unit_tiles * a.col_tiles;

    for (long long number = blockIdx.x; number < tiles * a.items; number += gridDim.x) {
        const long long done = quotient(number, tiles), rest = number - done * tiles;
        const long long across = quotient(rest, a.col_tiles), item = a.first + done;
        const long long q0 = (rest - across * a.col_tiles) * BQ, column = across * BN;
        const int width = columns - column < BN ? (int)(columns - column) : BN;
        REAL sum[MT][NT][4] = {};
        place_columns(a, at, column, width);
        __syncthreads();
        sum_products(a, at, stages, item, q0, width, sum);
        write_results(a, at, finish_of(a, item), sum, q0, width);
        ptx_copy_wait<0>();
        __syncthreads();
    }
}
