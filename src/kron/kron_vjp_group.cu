/*
 * kron_vjp_group.cu - one pass over what a group of small square Kronecker factors is applied to,
 * and over the gradient of the product: the gradients of both
 *
 *   out[unit, p_1 .. p_K, a] = alpha sum over q of right[unit, q_1 .. q_K, a] f_1[p_1, q_1] ...
 *   sums_i[p, q] = the sum over all other indices of left_i[.. p ..] right_i[.. q ..]
 *
 * where left_i is left with the factors behind i applied, right_i right with the transposes of
 * those before i.  A block has TB units and TA of the a of both in shared memory at a time, makes
 * left_K-1 .. left_1 there, and then for each factor adds to its sums and makes right_i+1 of
 * right_i in its place; the last one goes to out.  Sums stay in registers until the block has no
 * tile left.
 *
 * All by tensor cores, with the fragments of ptx.cuh.  A product takes 16 columns (all indices but
 * the factor's) of a warp at a time, and which p is the k-th and which q the n-th is chosen such
 * that a thread's sums belong where it has read.  Sums have the p as rows and columns as k.
 * All sizes are powers of 2, so the place of an element of a thread is that of its first one and a
 * constant.  Strides in shared memory are 8 or 24 of 32 (4 or 12 of 16) elements, so that both come
 * from all banks.
 *
 * Parameters (-D), set by cuda_kron_matmul_vjp_gradient.c:
 *   REAL      float or double
 *   DOUBLES   1: REAL is double
 *   N_OF      sizes of the factors: 8, 16 or 32
 *   TB, TA    of a tile; 16 divides the columns of every factor, TA is a multiple of 8, or 1 where
 *             there is no a
 *   LOAD      elements that are copied at once: 16 bytes, or 1 where memory is not aligned
 *   AHEAD     1: the next tile of right comes while this one is computed with
 *   BLOCKS    of a processor
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_mma.cuh"
#include "kron_vjp_params.h"

#define THREADS KRON_VJP_THREADS
#define WARPS   (THREADS / 32)

static __device__ constexpr int n_of[] = {N_OF};
static constexpr int COUNT = (int)(sizeof n_of / sizeof *n_of), LAST = COUNT - 1;

/* ---- Places --------------------------------------------------------------------------------- */

static __device__ constexpr int spread_out(int stride)
{
    return KRON_VJP_GROUP_STRIDE(stride, DOUBLES);
}

/* From index to index of a factor; of units where factor is -1. */
static __device__ constexpr int stride_of(int factor)
{
    int stride = TA == 1 ? 1 : spread_out(TA);

    for (int f = LAST; f > factor; f--)
        stride = spread_out(n_of[f] * stride);
    return stride;
}
static __device__ constexpr int product_of(int first, int last)
{
    int product = 1;

    for (int f = first; f < last; f++)
        product *= n_of[f];
    return product;
}

static constexpr int G = product_of(0, COUNT), ALL = TB * G * TA, UNIT = stride_of(-1),
                     TILE = TB * UNIT;

/* The place of an element [unit][p_1 .. p_K][a], of which those from this factor's on are given. */
template <int FACTOR = LAST> static __device__ constexpr int place_of(int element)
{
    if constexpr (FACTOR < 0)
        return element * UNIT;
    else
        return element % n_of[FACTOR] * stride_of(FACTOR) +
               place_of<FACTOR - 1>(element / n_of[FACTOR]);
}
static __device__ constexpr int place(int element)
{
    return element % TA + place_of(element / TA);
}

static __device__ constexpr int factor_at(int factor)
{
    int at = 0;

    for (int f = 0; f < factor; f++)
        at += n_of[f] * spread_out(n_of[f]);
    return at;
}

/* The columns of a factor: eight from a multiple of eight on are STEP from each other. */
template <int FACTOR> struct columns {
    static constexpr int N = n_of[FACTOR], R = stride_of(FACTOR);
    static constexpr int BEHIND = product_of(FACTOR + 1, COUNT) * TA, COLUMNS = ALL / N;
    static constexpr bool ALONG = BEHIND == 1; /* neighbours are those along the index */
    static constexpr int STEP = ALONG ? stride_of(FACTOR - 1) : 1;
    /* Two neighbours are read at once: indices of a column, or columns. */
    static constexpr bool PAIRS = !DOUBLES;

    static __device__ constexpr int first(int column)
    {
        const int hi = column / BEHIND, lo = column % BEHIND;
        return place(hi * (N * BEHIND) + lo);
    }
};

/* ---- Products ------------------------------------------------------------------------------- */

struct place_out {
    REAL *out; /* of the tile */
    long long after;
    int units;
    REAL alpha;
};

template <int FACTOR, bool BACK> struct product {
    typedef columns<FACTOR> c;
    static constexpr int N = c::N, EIGHTS = N / 8, WIDTH = spread_out(N);
    static constexpr bool PAIRS = c::PAIRS && c::ALONG;
    /* Blocks of columns of a warp that are read before the first of them is written. */
    static constexpr int TURNS = c::COLUMNS <= WARPS * 16 ? 1 : c::COLUMNS / (WARPS * 16);
    static constexpr int ONCE = TURNS < 4 / EIGHTS ? TURNS : EIGHTS > 4 ? 1 : 4 / EIGHTS;

    /* Of the i-th eight indices lane t of four has these two. */
    static __device__ int index_of(int i, int half, int t)
    {
        return 8 * i + (PAIRS ? 2 * t + half : 4 * half + t);
    }
    static __device__ void read_factor(fragment (&f)[EIGHTS][EIGHTS][2][2], const REAL *from)
    {
        const int lane = (int)threadIdx.x % 32, t = lane % 4, g = lane / 4;

#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#pragma unroll
            for (int j = 0; j < EIGHTS; j++) {
                const int n = index_of(j, g % 2, g / 2);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int k = index_of(i, half, t);
                    f[i][j][0][half] = fragment_of(from[BACK ? n * WIDTH + k : k * WIDTH + n]);
                }
                split(f[i][j]);
            }
    }
    static __device__ void read(const REAL *from, int side, REAL (&v)[EIGHTS][4])
    {
        const int t = (int)threadIdx.x % 4;

#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            if constexpr (PAIRS) {
                REAL two[2];
                ptx_read_shared(two, ptx_shared_address(from + index_of(i, 0, t)));
                v[i][side] = two[0], v[i][2 + side] = two[1];
            } else {
                v[i][side] = from[index_of(i, 0, t) * c::R];
                v[i][2 + side] = from[index_of(i, 1, t) * c::R];
            }
        }
    }
    static __device__ void write(REAL *to, int side, const REAL (&sum)[EIGHTS][4])
    {
        const int t = (int)threadIdx.x % 4;

#pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
            if constexpr (PAIRS) {
                struct alignas(2 * sizeof(REAL)) pair {
                    REAL v[2];
                };
                *(struct pair *)(to + index_of(j, 0, t)) = {
                    {sum[j][side * 2], sum[j][side * 2 + 1]}
                };
            } else {
                to[index_of(j, 0, t) * c::R] = sum[j][side * 2];
                to[index_of(j, 1, t) * c::R] = sum[j][side * 2 + 1];
            }
        }
    }
    /* To column `mine` + `more`, which have no bits in common. */
    static __device__ void write_out(const struct place_out &o, int mine, int more, int side,
                                     const REAL (&sum)[EIGHTS][4])
    {
        const int t = (int)threadIdx.x % 4, hi = mine / TA + more / TA;
        REAL *to = o.out + hi * (N * o.after) + (mine % TA + more % TA);

        if (hi / (G / N) >= o.units)
            return;
#pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
            const REAL v[2] = {o.alpha * sum[j][side * 2], o.alpha * sum[j][side * 2 + 1]};
            if constexpr (PAIRS && LOAD > 1) {
                ptx_write_global(to + index_of(j, 0, t), v);
            } else {
                to[index_of(j, 0, t) * o.after] = v[0];
                to[index_of(j, 1, t) * o.after] = v[1];
            }
        }
    }
    /* from may be to; to nullptr: to o. */
    template <bool OUT>
    static __device__ void run(const REAL *from, REAL *to, const REAL *factor,
                               const struct place_out &o)
    {
        const int g = (int)threadIdx.x % 32 / 4, warp = (int)threadIdx.x / 32;
        fragment f[EIGHTS][EIGHTS][2][2];

        read_factor(f, factor + factor_at(FACTOR));
        const int mine = c::first(warp * 16) + g * c::STEP;
        if (c::COLUMNS < WARPS * 16 && warp * 16 >= c::COLUMNS)
            return;
#pragma unroll
        for (int turn = 0; turn < c::COLUMNS; turn += WARPS * 16 * ONCE) {
            REAL v[ONCE][EIGHTS][4];
#pragma unroll
            for (int i = 0; i < 2 * ONCE; i++)
                read(from + mine + c::first(turn + i / 2 * (WARPS * 16) + i % 2 * 8), i % 2,
                     v[i / 2]);
#pragma unroll
            for (int n = 0; n < ONCE; n++) {
                const int more = turn + n * (WARPS * 16);
                REAL sum[EIGHTS][4] = {};
#pragma unroll
                for (int i = 0; i < EIGHTS; i++) {
                    fragment x[2][4];
#pragma unroll
                    for (int part = 0; part < 4; part++)
                        x[0][part] = fragment_of(v[n][i][part]);
                    split(x);
                    multiply<2, 2>(sum, x, f[i]);
                }
#pragma unroll
                for (int side = 0; side < 2; side++)
                    if constexpr (OUT)
                        write_out(o, warp * 16 + g, more + side * 8, side, sum);
                    else
                        write(to + mine + c::first(more + side * 8), side, sum);
            }
        }
    }
};

/* ---- Sums ----------------------------------------------------------------------------------- */

/* Those of eight p and q: f32 has the high parts of left as rows 0 to 7 and the low ones as 8 to 15
 * of one product, in f64 there are eight rows. */
static __device__ constexpr int tiles_of(int n)
{
    return n == 32 ? 2 : 1;
}
template <int FACTOR> struct gradient {
    typedef columns<FACTOR> c;
    static constexpr int N = c::N, MT = tiles_of(N), NT = N == 8 ? 1 : 2, WQ = N / (8 * NT);
    static constexpr int WK = WARPS / WQ, SUMS = MT * NT * 4, AT_ONCE = N == 8 ? 4 : 2;
    static constexpr bool PAIRS = c::PAIRS && !c::ALONG;

    static __device__ void read(const REAL *from, fragment &one, fragment &other)
    {
        const int t = (int)threadIdx.x % 4;

        if constexpr (PAIRS) {
            REAL two[2];
            ptx_read_shared(two, ptx_shared_address(from + 2 * t));
            one = fragment_of(two[0]), other = fragment_of(two[1]);
        } else {
            one = fragment_of(from[t * c::STEP]), other = fragment_of(from[(t + 4) * c::STEP]);
        }
    }
    static __device__ void add_eight(const REAL *left, const REAL *right, REAL *sum)
    {
#if DOUBLES
        fragment a[2], b[2];
        read(left, a[0], a[1]);
        read(right, b[0], b[1]);
        ptx_mma_f64(sum, a[0], b[0]);
        ptx_mma_f64(sum, a[1], b[1]);
#else
        fragment a[2][2], b[2][2];
        float high[4] = {}, low[4] = {};
        read(left, a[0][0], a[0][1]);
        read(right, b[0][0], b[0][1]);
        split(a);
        split(b);
        const unsigned both[4] = {a[0][0], a[1][0], a[0][1], a[1][1]};
        ptx_mma_tf32(low, both, b[1]);
        ptx_mma_tf32(high, both, b[0]);
        sum[0] += (low[0] + high[2]) + high[0];
        sum[1] += (low[1] + high[3]) + high[1];
#endif
    }
    static __device__ void add(const REAL *left, const REAL *right, int q0, REAL (&sum)[MT][NT][4])
    {
        fragment b[NT][2][2];

#pragma unroll
        for (int j = 0; j < NT; j++) {
            read(right + (q0 + 8 * j) * c::R, b[j][0][0], b[j][0][1]);
            split(b[j]);
        }
#pragma unroll
        for (int i = 0; i < MT; i++) {
            fragment a[2][4];
            read(left + 16 * i * c::R, a[0][0], a[0][2]);
            read(left + (16 * i + 8) * c::R, a[0][1], a[0][3]);
            split(a);
            multiply<2, 2>(sum[i], a, b);
        }
    }
    static __device__ void run(const REAL *left, const REAL *right, REAL (&sum)[MT][NT][4])
    {
        const int g = (int)threadIdx.x % 32 / 4, warp = (int)threadIdx.x / 32;

        const int mine = c::first(warp / WQ * 8) + g * c::R;
        if (c::COLUMNS < WK * 8 && warp / WQ * 8 >= c::COLUMNS)
            return;
#pragma unroll AT_ONCE
        for (int column = 0; column < c::COLUMNS; column += WK * 8) {
            const int at = mine + c::first(column);
            if constexpr (N == 8)
                add_eight(left + at, right + at, sum[0][0]);
            else
                add(left + at, right + at, warp % WQ * (8 * NT), sum);
        }
    }
    /* The sums of all warps, in shared memory, to memory. */
    static __device__ void store(REAL *tile, const REAL (&sum)[MT][NT][4], REAL *out, bool more)
    {
        const int lane = (int)threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const int warp = (int)threadIdx.x / 32;

        for (int turn = 0; turn < WK; turn++) {
            __syncthreads();
            if (turn != warp / WQ)
                continue;
#pragma unroll
            for (int i = 0; i < SUMS; i++) {
                const int p = i / (NT * 4) * 16 + i % 4 / 2 * 8 + g;
                const int q = warp % WQ * (8 * NT) + i / 4 % NT * 8 + t * 2 + i % 2;
                const REAL v = sum[i / (NT * 4)][i / 4 % NT][i % 4];
                if (p < N)
                    tile[p * N + q] = turn == 0 ? v : tile[p * N + q] + v;
            }
        }
        __syncthreads();
        for (int e = (int)threadIdx.x; e < N * N; e += THREADS)
            out[e] = (more ? out[e] : (REAL)0) + tile[e];
    }
};

/* The sums of factor FACTOR and of those behind it. */
template <int FACTOR> struct all_sums {
    REAL mine[gradient<FACTOR>::MT][gradient<FACTOR>::NT][4];
    all_sums<FACTOR + 1> rest;
};
template <> struct all_sums<COUNT> {
};

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* left_i is tile i; behind them right. */
template <int FACTOR> static __device__ void contract(REAL *tiles, const REAL *factors)
{
    if constexpr (FACTOR > 0) {
        product<FACTOR, false>::template run<false>(tiles + FACTOR * TILE,
                                                    tiles + (FACTOR - 1) * TILE, factors, {});
        __syncthreads();
        contract<FACTOR - 1>(tiles, factors);
    }
}

/* What a block does of a tile, up to the last product. */
template <int FACTOR>
static __device__ void take_back(REAL *tiles, REAL *right, const REAL *factors,
                                 struct all_sums<FACTOR> &sums)
{
    gradient<FACTOR>::run(tiles + FACTOR * TILE, right, sums.mine);
    __syncthreads();
    if constexpr (FACTOR < LAST) {
        product<FACTOR, true>::template run<false>(right, right, factors, {});
        __syncthreads();
        take_back<FACTOR + 1>(tiles, right, factors, sums.rest);
    }
}

template <int FACTOR>
static __device__ void store_sums(const struct kron_vjp_group_params &a, REAL *tile,
                                  const struct all_sums<FACTOR> &sums)
{
    if constexpr (FACTOR < COUNT) {
        constexpr int N = n_of[FACTOR];
        gradient<FACTOR>::store(tile, sums.mine,
                                (REAL *)a.sums[FACTOR] + blockIdx.x * (long long)(N * N),
                                a.accumulate != 0);
        store_sums<FACTOR + 1>(a, tile, sums.rest);
    }
}

/* Elements before a tile, and the units that it has. */
struct tile {
    long long at;
    int units;
};

static __device__ struct tile tile_of(const struct kron_vjp_group_params &a, long long number)
{
    const long long across = a.after / TA, line = number / across, unit = line * TB;

    return {unit * G * a.after + (number - line * across) * TA,
            (int)min((long long)TB, a.units - unit)};
}

/* Zeros for the units that are not there. */
static __device__ void bring(const struct kron_vjp_group_params &a, long long number,
                             long long tiles, const char *side, REAL *to)
{
    constexpr int BYTES = LOAD * (int)sizeof(REAL);

    if (number < tiles) {
        const struct tile t = tile_of(a, number);
        const int mine = (int)threadIdx.x * LOAD;
        const REAL *from = (const REAL *)side + t.at + (mine / TA * a.after + mine % TA);
        to += place(mine);
#pragma unroll
        for (int e = 0; e < ALL; e += THREADS * LOAD) {
            const bool there = TB == 1 || (mine + e) / (G * TA) < t.units;
            const long long at = TA == 1 ? e : e / TA * a.after + e % TA;
            if (ALL % (THREADS * LOAD) == 0 || mine + e < ALL)
                ptx_copy_async<BYTES>(to + place(e), there ? from + at : from, there ? BYTES : 0);
        }
    }
    ptx_copy_commit();
}

static __device__ void read_factors(const struct kron_vjp_group_params &a, REAL *to)
{
#pragma unroll
    for (int f = 0; f < COUNT; f++)
        for (int e = (int)threadIdx.x; e < n_of[f] * n_of[f]; e += THREADS) {
            const int p = e / n_of[f], q = e % n_of[f];
            to[factor_at(f) + p * spread_out(n_of[f]) + q] =
                ((const REAL *)a.factor[f]
                     .data)[p * a.factor[f].row_stride + q * a.factor[f].col_stride];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    kron_vjp_group(const __grid_constant__ struct kron_vjp_group_params a)
{
    extern __shared__ __align__(16) REAL memory[]; /* tiles of left, of right, factors */
    REAL *rights = memory + COUNT * TILE, *factors = rights + (1 + AHEAD) * TILE;
    const long long tiles = (a.units + TB - 1) / TB * (a.after / TA);
    struct all_sums<0> sums = {
    };
    int now = 0;

    read_factors(a, factors);
    bring(a, blockIdx.x, tiles, a.left, memory + LAST * TILE);
    bring(a, blockIdx.x, tiles, a.right, rights);
#pragma unroll 1
    for (long long number = blockIdx.x; number < tiles; number += gridDim.x) {
        const long long next = number + gridDim.x;
        const struct tile t = tile_of(a, number);
        REAL *right = rights + now * TILE;
        ptx_copy_wait<0>();
        __syncthreads();
        if constexpr (AHEAD) {
            now = 1 - now;
            bring(a, next, tiles, a.right, rights + now * TILE);
        }
        contract<LAST>(memory, factors);
        take_back<0>(memory, right, factors, sums);
        bring(a, next, tiles, a.left, memory + LAST * TILE);
        product<LAST, true>::template run<true>(
            right, nullptr, factors, {(REAL *)a.out + t.at, a.after, t.units, (REAL)a.alpha});
        __syncthreads();
        if constexpr (!AHEAD)
            bring(a, next, tiles, a.right, right);
    }
    store_sums<0>(a, memory, sums);
}
