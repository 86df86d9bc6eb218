/*
 * kron_matmul.cu - several Kronecker factors applied to a tile while it is in shared memory
 *
 *   y[unit, q_1, ..., q_K, a] = sum over p of x[unit, p_1, ..., p_K, a] f_1[p_1, q_1] ... f_K[p_K,
 * q_K]
 *
 * A block takes TB units and TA of the indices after the group, reads them once, contracts one
 * index after the other, and writes them once.  In a contraction a thread has RC columns (all
 * indices but the contracted one) and RQ of the results of each; with IN_PLACE these are all, and
 * the results go where the column was; small ones are then taken two at a time in registers.
 * Neighbouring threads have neighbouring columns.  Where the sizes are powers of two each 32 or 64
 * words of a tile are followed by an empty one, so that columns that are a power of two apart lie
 * in different banks.
 *
 * Parameters (-D), set by cuda_kron_matmul_plan.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; WHOLE: REAL is of integers
 *   P_OF, Q_OF   sizes of the factors, in their order in the product
 *   ORDER        their numbers in the order of the passes
 *   TB, TA       of a tile
 *   THREADS      of a block
 *   IN_PLACE     1: all factors are square
 *   PADDED       1: all sizes are powers of two
 *   X_LOAD, Y_LOAD  elements that are read or written at once; both are neighbours in memory
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

#include "kron_factors.cuh"

static __device__ constexpr int p_of[] = {P_OF}, q_of[] = {Q_OF}, order[] = {ORDER};
static constexpr int COUNT = (int)(sizeof p_of / sizeof *p_of), WORDS = (int)sizeof(REAL) / 4;
static constexpr int MOST_RESULTS = 32 / WORDS, MOST_SUMS = 64 / WORDS; /* of a thread */

/* Size of the index of a factor before a pass. */
static __device__ constexpr int size_at(int factor, int pass)
{
    for (int i = 0; i < pass; i++)
        if (order[i] == factor)
            return q_of[factor];
    return p_of[factor];
}

/* Elements of the indices [first, last) before a pass. */
static __device__ constexpr int elements_at(int pass, int first, int last)
{
    int elements = 1;

    for (int f = first; f < last; f++)
        elements *= size_at(f, pass);
    return elements;
}

static __device__ constexpr int most_elements()
{
    int most = 0;

    for (int pass = 0; pass <= COUNT; pass++)
        if (elements_at(pass, 0, COUNT) > most)
            most = elements_at(pass, 0, COUNT);
    return most;
}

/* Results of a thread and column at a time, and room for a row of the factor in shared memory. */
static constexpr int LANES = 16 / (int)sizeof(REAL);
static __device__ constexpr int results_of(int q)
{
    int chunks = (q + MOST_RESULTS - 1) / MOST_RESULTS;

    return IN_PLACE ? q : (q + chunks - 1) / chunks;
}
static __device__ constexpr int row_of(int q)
{
    int used = (q + results_of(q) - 1) / results_of(q) * results_of(q);

    return (used + LANES - 1) / LANES * LANES;
}
static __device__ constexpr int factor_at(int factor)
{
    int at = 0;

    for (int f = 0; f < factor; f++)
        at += p_of[f] * row_of(q_of[f]);
    return at;
}

static constexpr int IN = elements_at(0, 0, COUNT), OUT = elements_at(COUNT, 0, COUNT);
static constexpr int TILE = most_elements() * TA * TB;

/* Two passes at once in registers: of neighbours, the right one first, whose block of elements fits
 * in PAIR registers. */
static constexpr int PAIR = 64;
static __device__ constexpr bool paired(int pass)
{
    if (!IN_PLACE || pass + 1 >= COUNT || order[pass + 1] + 1 != order[pass])
        return false;
    return p_of[order[pass]] * p_of[order[pass + 1]] * WORDS <= PAIR;
}

/* Words of a tile that an empty one follows: a pair's columns are so far apart. */
static __device__ constexpr int pad_of()
{
    return paired(0) && p_of[order[0]] * p_of[order[1]] * WORDS == PAIR ? PAIR / WORDS : 32 / WORDS;
}

static __device__ constexpr int padded(int element)
{
    return PADDED ? element + element / pad_of() : element;
}
static constexpr int BUFFER = padded(TILE) + 1, FACTORS = factor_at(COUNT);

/* ---- A contraction -------------------------------------------------------------------------- */

/* An element `offset` behind one that stands at `from`, whose padded place is `at`.  Powers of two
 * do not carry from one into the other. */
static __device__ int behind(int from, int at, int offset)
{
    return PADDED ? at + padded(offset) : from + offset;
}

template <int PASS> static __device__ void contract(const REAL *from, REAL *to, const REAL *factors)
{
    constexpr int factor = order[PASS], P = p_of[factor], Q = q_of[factor];
    constexpr int R = elements_at(PASS, factor + 1, COUNT) * TA;
    constexpr int COLUMNS = elements_at(PASS, 0, factor) * TB * R;
    constexpr int RQ = results_of(Q), SHARE = (COLUMNS + THREADS - 1) / THREADS;
    constexpr int RC = SHARE < MOST_SUMS / RQ ? SHARE : MOST_SUMS / RQ < 1 ? 1 : MOST_SUMS / RQ;
    const REAL *f = factors + factor_at(factor);

    for (int first = threadIdx.x; first < COLUMNS; first += THREADS * RC) {
        int start[RC], at[RC], result[RC], result_at[RC];
#pragma unroll
        for (int i = 0; i < RC; i++) {
            const int column = first + i * THREADS < COLUMNS ? first + i * THREADS : first;
            start[i] = column / R * (P * R) + column % R, at[i] = padded(start[i]);
            result[i] = column / R * (Q * R) + column % R, result_at[i] = padded(result[i]);
        }
#pragma unroll 1
        for (int q0 = 0; q0 < Q; q0 += RQ) {
            REAL sum[RC][RQ] = {};
#pragma unroll(P <= 16 ? P : 2)
            for (int p = 0; p < P; p++) {
                REAL row[RQ];
                if constexpr (RQ % LANES == 0)
                    read_row(row, f + p * row_of(Q) + q0);
                else
#pragma unroll
                    for (int q = 0; q < RQ; q++)
                        row[q] = f[p * row_of(Q) + q0 + q];
#pragma unroll
                for (int i = 0; i < RC; i++) {
                    const REAL x = from[behind(start[i], at[i], p * R)];
#pragma unroll
                    for (int q = 0; q < RQ; q++)
                        sum[i][q] += x * row[q];
                }
            }
#pragma unroll
            for (int i = 0; i < RC; i++)
#pragma unroll
                for (int q = 0; q < RQ; q++)
                    if (first + i * THREADS < COLUMNS && (Q % RQ == 0 || q0 + q < Q))
                        to[behind(result[i], result_at[i], (q0 + q) * R)] = sum[i][q];
        }
    }
    __syncthreads();
}

template <int PASS> static __device__ void contract_pair(REAL *tile, const REAL *factors)
{
    constexpr int right = order[PASS], left = right - 1, P1 = p_of[left], P2 = p_of[right];
    constexpr int R = elements_at(PASS, right + 1, COUNT) * TA;
    constexpr int COLUMNS = elements_at(PASS, 0, left) * TB * R;

#pragma unroll 1
    for (int column = threadIdx.x; column < COLUMNS; column += THREADS) {
        const int start = column / R * (P1 * P2 * R) + column % R, at = padded(start);
        REAL x[P1 * P2];
#pragma unroll
        for (int i = 0; i < P1 * P2; i++)
            x[i] = tile[behind(start, at, i * R)];
        multiply_blocks<P2, 1, (P1 + 1) / 2, row_of(P2)>(x, factors + factor_at(right));
        multiply_blocks<P1, P2, (P2 + 1) / 2, row_of(P1)>(x, factors + factor_at(left));
#pragma unroll
        for (int i = 0; i < P1 * P2; i++)
            tile[behind(start, at, i * R)] = x[i];
    }
    __syncthreads();
}

/* All of them; where the results are. */
template <int PASS> static __device__ REAL *contract_all(REAL *from, REAL *to, const REAL *factors)
{
    if constexpr (PASS == COUNT) {
        return from;
    } else if constexpr (paired(PASS)) {
        contract_pair<PASS>(from, factors);
        return contract_all<PASS + 2>(from, to, factors);
    } else {
        contract<PASS>(from, IN_PLACE ? from : to, factors);
        return contract_all<PASS + 1>(IN_PLACE ? from : to, IN_PLACE ? to : from, factors);
    }
}

/* ---- To and from shared memory -------------------------------------------------------------- */

/* One of the tiles: units from unit on, indices after the group from column on. */
struct tile {
    long long item, unit, column;
    int units, columns; /* that there are */
};

static __device__ struct tile tile_of(const struct kron_params &a, long long number)
{
    const long long across = (a.after + TA - 1) / TA, units = a.rows * a.before;
    const long long down = (units + TB - 1) / TB;
    const long long line = quotient(number, across), item = quotient(line, down);
    struct tile t;

    t.column = (number - line * across) * TA;
    t.unit = (line - item * down) * TB;
    t.item = a.first + item;
    t.units = units - t.unit < TB ? (int)(units - t.unit) : TB;
    t.columns = a.after - t.column < TA ? (int)(a.after - t.column) : TA;
    return t;
}

template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) pack {
    T v[COUNT];
};

/* from is element [0, 0, 0] of the item; what there is not becomes 0. */
static __device__ void read_tile(const struct kron_params &a, const struct tile &t,
                                 const x_element *from, const long long *offset, REAL *to)
{
    typedef pack<x_element, X_LOAD> loaded;
    constexpr int ALL = TB * IN * TA, STEP = THREADS * X_LOAD, AHEAD = 16 / X_LOAD < 4 ? 4 : 8;

    for (int first = (int)threadIdx.x * X_LOAD; first < ALL; first += STEP * AHEAD) {
        loaded v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int e = first + i * STEP, column = e % TA, unit = e / (TA * IN);
            v[i] = {};
            if (e < ALL && unit < t.units && column < t.columns)
                v[i] =
                    *(const loaded *)(from + offset[unit] +
                                      (e / TA % IN * a.after + t.column + column) * a.x.col_stride);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
#pragma unroll
            for (int j = 0; j < X_LOAD; j++)
                if (first + i * STEP < ALL)
                    to[padded(first + i * STEP + j)] = real_of<X_KIND>(v[i].v[j]);
    }
}

static __device__ void write_tile(const struct kron_params &a, const struct tile &t,
                                  const struct finish &f, const long long *offset,
                                  const long long *z_offset, const REAL *from)
{
    typedef pack<y_element, Y_LOAD> stored;

#pragma unroll 4
    for (int e = (int)threadIdx.x * Y_LOAD; e < TB * OUT * TA; e += THREADS * Y_LOAD) {
        const int column = e % TA, unit = e / (TA * OUT);
        const long long index = e / TA % OUT * a.after + t.column + column;
        stored v;
        if (unit >= t.units || column >= t.columns)
            continue;
#pragma unroll
        for (int j = 0; j < Y_LOAD; j++) {
            REAL value = from[padded(e + j)];
            if (a.last)
                value *= f.alpha;
            if (f.beta != 0)
                value +=
                    f.beta * real_of<Y_KIND>(f.z[z_offset[unit] + (index + j) * a.z.col_stride]);
            v.v[j] = stored_of<Y_KIND>(value);
        }
        *(stored *)(f.y + offset[unit] + index * a.y.col_stride) = v;
    }
}

static __device__ void read_factors(const struct kron_params &a, long long item, REAL *to)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        read_factor<THREADS, 1>(a.factor[i], item_of<const f_element>(a, a.factor[i], item),
                                p_of[i], q_of[i], row_of(q_of[i]), to + factor_at(i));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    kron_matmul(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(16) REAL memory[]; /* factors, one or two tiles */
    __shared__ long long x_offset[TB], y_offset[TB], z_offset[TB];
    const long long tiles = (a.after + TA - 1) / TA * ((a.rows * a.before + TB - 1) / TB) * a.items;
    REAL *tile = memory + FACTORS, *other = tile + BUFFER;
    long long read = -1;

    for (long long number = blockIdx.x; number < tiles; number += gridDim.x) {
        const struct tile t = tile_of(a, number);
        const struct finish f = finish_of(a, t.item);
        for (int u = threadIdx.x; u < t.units; u += THREADS) {
            x_offset[u] = unit_offset(a, a.x, t.unit + u, IN);
            y_offset[u] = unit_offset(a, a.y, t.unit + u, OUT);
            z_offset[u] = unit_offset(a, a.z, t.unit + u, OUT);
        }
        if (read != t.item)
            read_factors(a, t.item, memory);
        read = t.item;
        __syncthreads();
        read_tile(a, t, item_of<const x_element>(a, a.x, t.item), x_offset, tile);
        __syncthreads();
        write_tile(a, t, f, y_offset, z_offset, contract_all<0>(tile, other, memory));
        __syncthreads();
    }
}
