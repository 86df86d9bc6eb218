/*
 * kron_vjp_group_product.cuh - places of kron_vjp_group.cu, and products with its factors
 *
 * Part of kron_vjp_group.cu, whose parameters it uses.
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
