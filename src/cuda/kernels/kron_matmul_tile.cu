/*
 * kron_matmul_tile.cu - several Kronecker factors applied to a tile that lies in registers
 *
 *   y[unit, q_1, ..., q_K, a] = sum over p of x[unit, p_1, ..., p_K, a] f_1[p_1, q_1] ... f_K[p_K,
 * q_K]
 *
 * A block takes TB units and TA of the indices after the group.  It contracts in steps of one
 * factor, or of two neighbours whose block of elements fits in registers: a thread has all elements
 * of V columns (all indices but those of the step).  The first step takes them from x, the last one
 * gives them to y, and between two steps they go through shared memory; so the first and the last
 * one have many indices behind them, which are neighbours in memory, and the others come between.
 * Neighbouring threads have neighbouring columns; where a column's index is short, the next columns
 * of a warp are LANES_APART columns on, which come from other banks.
 *
 * Parameters (-D), set by cuda_kron_matmul_plan.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; WHOLE: REAL is of integers
 *   P_OF, Q_OF   sizes of the factors, in their order in the product
 *   STEP_OF      the factor of each step
 *   WITH_OF      factors of each step: 1, 2 where the next one belongs to it, 0: the first or last
 *                step copies
 *   TB, TA       of a tile; TA divides the indices after the group
 *   AFTER        the indices after the group, 0: not known yet
 *   BATCHED      0: one item
 *   LINEAR       1: units lie one behind the other
 *   STAGES       tiles of x that asynchronous copies bring to shared memory while others are
 * computed with: 0, 1 (after the first step), 2 (before it); for 16 bytes that are neighbours in a
 * tile and in memory, and for LINEAR without BATCHED PLAIN        1: y is the product, 0: alpha
 * times it, plus beta z WIDE         sums of a thread at a time in steps of two factors THREADS,
 * BLOCKS   of a block; on a processor at least
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_pass.cuh"

static __device__ constexpr int p_of[] = {P_OF}, q_of[] = {Q_OF}, step_of[] = {STEP_OF},
                                with_of[] = {WITH_OF};
static constexpr int COUNT = (int)(sizeof p_of / sizeof *p_of),
                     STEPS = (int)(sizeof step_of / sizeof *step_of),
                     BANKS = 128 / (int)sizeof(REAL);

/* Size of the index of a factor before a step. */
static __device__ constexpr int size_at(int factor, int step)
{
    for (int i = 0; i < step; i++)
        if (step_of[i] <= factor && factor < step_of[i] + with_of[i])
            return q_of[factor];
    return p_of[factor];
}

/* Elements of the indices [first, last) before a step. */
static __device__ constexpr int elements_at(int step, int first, int last)
{
    int elements = 1;

    for (int f = first; f < last; f++)
        elements *= size_at(f, step);
    return elements;
}

/* A row of a factor in shared memory is read 16 bytes at a time. */
static __device__ constexpr int row_of(int q)
{
    constexpr int lanes = 16 / (int)sizeof(REAL);

    return (q + lanes - 1) / lanes * lanes;
}
static __device__ constexpr int factor_at(int factor)
{
    int at = 0;

    for (int f = 0; f < factor; f++)
        at += p_of[f] * row_of(q_of[f]);
    return at;
}

static constexpr int IN = elements_at(0, 0, COUNT), OUT = elements_at(STEPS, 0, COUNT);

/* ---- Places in shared memory ----------------------------------------------------------------- */

/* Indices behind those of a step, columns, and elements of a column. */
static __device__ constexpr int behind_of(int step)
{
    return elements_at(step, step_of[step] + with_of[step], COUNT) * TA;
}
static __device__ constexpr int columns_of(int step)
{
    return elements_at(step, 0, step_of[step]) * TB * behind_of(step);
}
static __device__ constexpr int block_of(int step, bool after)
{
    return elements_at(after ? step + 1 : step, step_of[step], step_of[step] + with_of[step]);
}

/* Square factors whose columns are so short that several fit in registers. */
static __device__ constexpr bool is_held(int step)
{
    bool square = true;

    for (int f = step_of[step]; f < step_of[step] + with_of[step]; f++)
        square = square && p_of[f] == q_of[f];
    return with_of[step] == 2 || (square && p_of[step_of[step]] <= 8);
}

static __device__ constexpr bool all_powers()
{
    int all = TA * TB;

    for (int f = 0; f < COUNT; f++)
        all *= (p_of[f] & (p_of[f] - 1)) == 0 && (q_of[f] & (q_of[f] - 1)) == 0;
    return all > 0 && (TA & (TA - 1)) == 0 && (TB & (TB - 1)) == 0;
}
static constexpr bool POWERS = all_powers();

/* The number of a column.  Lanes beyond the indices behind the step's have columns that are apart
 * times these from each other: two groups of bits change places. */
static __device__ constexpr int column_at(int number, int behind, int apart)
{
    const int low = number % behind, high = number / behind, lanes = 32 / behind;

    if (apart == 1)
        return number;
    return low + behind * (high / (lanes * apart) * (lanes * apart) + high % lanes * apart +
                           high / lanes % apart);
}

/* An element is left out after so many. */
static __device__ constexpr int padded_by(int element, int pad)
{
    return pad ? element + element / pad : element;
}

/* The most lanes that want the same bank at the same time. */
static __device__ constexpr int conflicts(int step, int pad, int apart)
{
    const int behind = behind_of(step), columns = columns_of(step), size = block_of(step, false);
    int most = 0, used[BANKS] = {};

    for (int lane = 0; lane < BANKS && lane < columns; lane++) {
        const int column = column_at(lane, behind, apart);
        const int bank =
            padded_by(column / behind * (size * behind) + column % behind, pad) % BANKS;
        if (++used[bank] > most)
            most = used[bank];
    }
    return most;
}

static __device__ constexpr int apart_of(int step, int pad)
{
    const int behind = behind_of(step), columns = columns_of(step);
    int best = 1;

    if (!POWERS || behind >= 32 || with_of[step] == 0)
        return 1;
    for (int apart = 2; apart * 32 <= columns; apart *= 2)
        if (conflicts(step, pad, apart) < conflicts(step, pad, best))
            best = apart;
    return best;
}

static __device__ constexpr int pad_of()
{
    int best = 0, least = 1 << 30;

    for (int pad = POWERS ? BANKS : 0; pad <= 8 * BANKS; pad *= 2) {
        int all = 0;
        for (int step = 0; step < STEPS; step++)
            all += conflicts(step, pad, apart_of(step, pad)) * with_of[step];
        if (all < least)
            best = pad, least = all;
        if (pad == 0)
            break;
    }
    return best;
}
static constexpr int PAD = pad_of(), FACTORS = factor_at(COUNT);

static __device__ constexpr int padded(int element)
{
    return padded_by(element, PAD);
}

/* A tile of x as it is copied: after so many elements 16 bytes are left out. */
static constexpr int AT_ONCE = 16 / (int)sizeof(x_element);

static __device__ constexpr int ahead_by(int element, int pad)
{
    return pad ? element + element / pad * AT_ONCE : element;
}

static __device__ constexpr int ahead_pad_of()
{
    const int behind = behind_of(0), size = block_of(0, false), apart = apart_of(0, PAD);
    int best = 0, least = 1 << 30;

    if (!POWERS || with_of[0] == 0 || X_KIND != KRON_REAL)
        return 0;
    for (int pad = 0; pad <= 1024; pad = pad ? pad * 2 : 16 * AT_ONCE) {
        int most = 0, used[BANKS] = {};
        for (int lane = 0; lane < BANKS; lane++) {
            const int column = column_at(lane, behind, apart);
            const int at = ahead_by(column / behind * (size * behind) + column % behind, pad);
            if (++used[at % BANKS] > most)
                most = used[at % BANKS];
        }
        if (most < least)
            best = pad, least = most;
    }
    return best;
}
static constexpr int AHEAD_PAD = ahead_pad_of();

static __device__ constexpr int ahead(int element)
{
    return ahead_by(element, AHEAD_PAD);
}
static constexpr int STAGE = (ahead(TB * IN * TA) + AT_ONCE - 1) / AT_ONCE * AT_ONCE;

/* ---- To and from memory --------------------------------------------------------------------- */

struct tile {
    long long item, unit, column;
    int units; /* that there are */
};

/* The matrix of an item. */
template <typename T>
static __device__ T *matrix_of(const struct kron_params &a, const struct kron_side &side,
                               long long item)
{
    if constexpr (BATCHED)
        return item_of<T>(a, side, item);
    else
        return (T *)side.data;
}

static __device__ struct tile tile_of(const struct kron_params &a, long long number)
{
    const long long line = quotient(number, a.col_tiles);
    const long long item = BATCHED ? quotient(line, a.unit_tiles) : 0;
    const long long units = a.rows * a.before;
    struct tile t;

    t.column = (number - line * a.col_tiles) * TA;
    t.unit = (line - item * a.unit_tiles) * TB;
    t.item = a.first + item;
    t.units = units - t.unit < TB ? (int)(units - t.unit) : TB;
    return t;
}

/* What threads need of a tile. */
struct place {
    const x_element *x;     /* LINEAR: of the tile */
    const x_element *ahead; /* STAGES: the copy of its tile */
    y_element *y;
    const y_element *z;
    REAL alpha, beta;
    long long column;
    int units;
};

static __shared__ long long x_offset[LINEAR ? 1 : TB], y_offset[LINEAR ? 1 : TB],
    z_offset[LINEAR ? 1 : TB];

/* Where an element of a unit is, behind its unit's beginning. */
static __device__ long long inside(const struct kron_params &a, int element)
{
    return TA == AFTER ? element
                       : (long long)(element / TA) * (AFTER ? AFTER : a.after) + element % TA;
}

/* What is added to reach an element of a tile whose units have so many; offset is of its unit. */
static __device__ long long reach(const struct kron_params &a, const struct place &t, int element,
                                  int elements, const long long *offset)
{
    if constexpr (LINEAR && (TB == 1 || TA == AFTER))
        return inside(a, element);
    const int unit = element / (elements * TA);
    if constexpr (LINEAR)
        return unit * ((long long)elements * (AFTER ? AFTER : a.after)) +
               inside(a, element % (elements * TA));
    return offset[unit < t.units ? unit : 0] + t.column + inside(a, element % (elements * TA));
}

static __device__ bool is_there(const struct place &t, int element, int elements)
{
    return TB == 1 || element / (elements * TA) < t.units;
}

static __device__ void put(const struct place &t, long long at, long long z_at, REAL value)
{
    if constexpr (!PLAIN) {
        value *= t.alpha;
        if (t.beta != 0)
            value += t.beta * real_of<Y_KIND>(t.z[z_at]);
    }
    t.y[at] = stored_of<Y_KIND>(value);
}

static __device__ void read_factors(const struct kron_params &a, long long item, REAL *to)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const struct kron_side &side = a.factor[i];
        const f_element *f = matrix_of<const f_element>(a, side, item);
        const int width = row_of(q_of[i]);
        for (int e = threadIdx.x; e < p_of[i] * width; e += THREADS) {
            const int p = e / width, q = e % width;
            REAL value = q == 0 ? 1 : 0;
            if (side.data && q < q_of[i])
                value = real_of<F_KIND>(f[p * side.row_stride + q * side.col_stride]);
            to[factor_at(i) + e] = value;
        }
    }
}

/* ---- A step --------------------------------------------------------------------------------- */

template <int Q> static __device__ void read_row(REAL (&row)[Q], const REAL *f)
{
    constexpr int LANES = 16 / (int)sizeof(REAL);
    struct alignas(16) pack {
        REAL v[LANES];
    };

#pragma unroll
    for (int q = 0; q < Q; q += LANES) {
        const struct pack some = *(const struct pack *)(f + q);
#pragma unroll
        for (int i = 0; i < LANES && q + i < Q; i++)
            row[q + i] = some.v[i];
    }
}

/* Columns of a thread in a step.  Numbers of powers of two have no bits in common with a thread's,
 * so that one place, and constants, lead to all. */
template <int STEP> struct columns {
    static constexpr int R = behind_of(STEP), ALL = columns_of(STEP);
    static constexpr int P = block_of(STEP, false), Q = block_of(STEP, true);
    static constexpr int V = (ALL + THREADS - 1) / THREADS, APART = apart_of(STEP, PAD);
    static constexpr bool FULL = ALL % THREADS == 0;
    static constexpr bool BITS = POWERS && FULL && (THREADS & (THREADS - 1)) == 0;

    static __device__ constexpr int first_of(int number, int size)
    {
        const int column = column_at(number, R, APART);

        return column / R * (size * R) + column % R;
    }
    static __device__ bool has(int i)
    {
        return FULL || (int)threadIdx.x + i * THREADS < ALL;
    }
    /* The first element of the i-th column, whose elements are R apart, and its place in shared
     * memory. */
    static __device__ int start(int i, int size)
    {
        if constexpr (BITS)
            return first_of((int)threadIdx.x, size) + first_of(i * THREADS, size);
        return first_of((int)threadIdx.x + (has(i) ? i : 0) * THREADS, size);
    }
    static __device__ int start_padded(int i, int size)
    {
        if constexpr (BITS)
            return padded(first_of((int)threadIdx.x, size)) + padded(first_of(i * THREADS, size));
        return padded(start(i, size));
    }

    static __device__ int start_ahead(int i, int size)
    {
        if constexpr (BITS)
            return ahead(first_of((int)threadIdx.x, size)) + ahead(first_of(i * THREADS, size));
        return ahead(start(i, size));
    }

    template <int LENGTH>
    static __device__ void write(const struct kron_params &a, const struct place &t, REAL *tile,
                                 const REAL (&value)[LENGTH], int i)
    {
        static_assert(LENGTH == Q, "a column");
        if constexpr (STEP + 1 < STEPS) {
            const int at = start_padded(i, Q);
#pragma unroll
            for (int q = 0; q < Q; q++)
                if (has(i))
                    tile[at + padded(q * R)] = value[q];
        } else {
            const int s = start(i, Q);
            const long long at = reach(a, t, s, OUT, y_offset);
            const long long z_at = PLAIN ? 0 : reach(a, t, s, OUT, z_offset);
            if (has(i) && is_there(t, s, OUT))
#pragma unroll
                for (int q = 0; q < Q; q++)
                    put(t, at + inside(a, q * R), z_at + inside(a, q * R), value[q]);
        }
    }
};

/* One factor: sums of V columns, whose elements are read when they are needed. */
template <int STEP> struct streamed {
    typedef columns<STEP> c;
    static constexpr int FACTOR = step_of[STEP], P = c::P, Q = c::Q, R = c::R, V = c::V;
    /* Rows of the factor at a time, so that what is between them in shared memory is the same. */
    static constexpr bool EVEN = !PAD || 8 * R % PAD == 0 || PAD % (P * R) == 0;
    static constexpr int ONCE = P >= 8 && EVEN ? 8 : P, REST = P % ONCE;

    static __device__ void multiply(REAL (&sum)[V][Q], const REAL (&x)[V], const REAL *f)
    {
        REAL row[Q];
        read_row(row, f);
#pragma unroll
        for (int i = 0; i < V; i++)
#pragma unroll
            for (int q = 0; q < Q; q++)
                sum[i][q] += x[i] * row[q];
    }
    template <int COUNT>
    static __device__ void some_of_x(const struct kron_params &a, const struct place &t, int p0,
                                     const REAL *f, REAL (&sum)[V][Q])
    {
        REAL x[COUNT][V];
#pragma unroll
        for (int i = 0; i < V; i++) {
            const int s = c::start(i, P);
            if constexpr (STAGES > 0) {
                const x_element *from = t.ahead + c::start_ahead(i, P) + ahead(p0 * R);
#pragma unroll
                for (int p = 0; p < COUNT; p++)
                    x[p][i] = real_of<X_KIND>(from[ahead(p * R)]);
                continue;
            }
            const x_element *from = t.x + reach(a, t, s, IN, x_offset) + inside(a, p0 * R);
            const bool there = c::has(i) && is_there(t, s, IN);
#pragma unroll
            for (int p = 0; p < COUNT; p++)
                x[p][i] = there ? real_of<X_KIND>(from[inside(a, p * R)]) : (REAL)0;
        }
#pragma unroll
        for (int p = 0; p < COUNT; p++)
            multiply(sum, x[p], f + (p0 + p) * row_of(Q));
    }
    template <int COUNT>
    static __device__ void some_of_tile(const REAL *tile, int p0, const REAL *f, REAL (&sum)[V][Q])
    {
        const REAL *from = tile + padded(p0 * R);
#pragma unroll
        for (int p = 0; p < COUNT; p++) {
            REAL x[V];
#pragma unroll
            for (int i = 0; i < V; i++)
                x[i] = from[c::start_padded(i, P) + padded(p * R)];
            multiply(sum, x, f + (p0 + p) * row_of(Q));
        }
    }
    static __device__ void from_x(const struct kron_params &a, const struct place &t, const REAL *f,
                                  REAL (&sum)[V][Q])
    {
#pragma unroll 1
        for (int p0 = 0; p0 + ONCE <= P; p0 += ONCE)
            some_of_x<ONCE>(a, t, p0, f, sum);
        if constexpr (REST > 0)
            some_of_x<REST>(a, t, P - REST, f, sum);
    }
    static __device__ void from_tile(const REAL *tile, const REAL *f, REAL (&sum)[V][Q])
    {
#pragma unroll 1
        for (int p0 = 0; p0 + ONCE <= P; p0 += ONCE)
            some_of_tile<ONCE>(tile, p0, f, sum);
        if constexpr (REST > 0)
            some_of_tile<REST>(tile, P - REST, f, sum);
    }
    static __device__ void run(const struct kron_params &a, const struct place &t, REAL *tile,
                               const REAL *factors)
    {
        const REAL *f = factors + factor_at(FACTOR);
        REAL sum[V][Q] = {};

        if constexpr (STEP == 0)
            from_x(a, t, f, sum);
        else
            from_tile(tile, f, sum);
        if (P != Q && STEP > 0 && STEP + 1 < STEPS)
            __syncthreads();
#pragma unroll
        for (int i = 0; i < V; i++)
            c::write(a, t, tile, sum[i], i);
    }
};

/* One or two square factors, the right one first, of columns that are held in registers. */
template <int STEP> struct held {
    typedef columns<STEP> c;
    static constexpr int LEFT = step_of[STEP], RIGHT = LEFT + with_of[STEP] - 1;
    static constexpr int P1 = p_of[LEFT], P2 = p_of[RIGHT], G = c::P, R = c::R, V = c::V;

    /* Blocks of P elements that are APART from each other: WIDE sums at a time. */
    template <int P, int BESIDE> static __device__ void multiply(REAL (&x)[V][G], const REAL *f)
    {
        constexpr int BLOCKS_OF = V * G / P, SOME = WIDE / P < 1 ? 1 : WIDE / P;
#pragma unroll
        for (int first = 0; first < BLOCKS_OF; first += SOME) {
            REAL sum[SOME][P] = {};
#pragma unroll
            for (int p = 0; p < P; p++) {
                REAL row[P];
                read_row(row, f + p * row_of(P));
#pragma unroll
                for (int i = 0; i < SOME; i++)
#pragma unroll
                    for (int q = 0; q < P; q++)
                        if (first + i < BLOCKS_OF)
                            sum[i][q] += x[place_of<P, BESIDE>(first + i, p) / G]
                                          [place_of<P, BESIDE>(first + i, p) % G] *
                                         row[q];
            }
#pragma unroll
            for (int i = 0; i < SOME; i++)
#pragma unroll
                for (int q = 0; q < P; q++)
                    if (first + i < BLOCKS_OF)
                        x[place_of<P, BESIDE>(first + i, q) / G]
                         [place_of<P, BESIDE>(first + i, q) % G] = sum[i][q];
        }
    }
    template <int P, int BESIDE> static __device__ constexpr int place_of(int block, int p)
    {
        return block / BESIDE * (P * BESIDE) + p * BESIDE + block % BESIDE;
    }
    static __device__ void run(const struct kron_params &a, const struct place &t, REAL *tile,
                               const REAL *factors)
    {
        REAL x[V][G];
#pragma unroll
        for (int i = 0; i < V; i++) {
            if constexpr (STEP == 0 && STAGES > 0) {
                const x_element *from = t.ahead + c::start_ahead(i, G);
#pragma unroll
                for (int e = 0; e < G; e++)
                    x[i][e] = real_of<X_KIND>(from[ahead(e * R)]);
            } else if constexpr (STEP == 0) {
                const int s = c::start(i, G);
                const x_element *from = t.x + reach(a, t, s, IN, x_offset);
                const bool there = c::has(i) && is_there(t, s, IN);
#pragma unroll
                for (int e = 0; e < G; e++)
                    x[i][e] = there ? real_of<X_KIND>(from[inside(a, e * R)]) : (REAL)0;
            } else {
                const int at = c::start_padded(i, G);
#pragma unroll
                for (int e = 0; e < G; e++)
                    x[i][e] = tile[at + padded(e * R)];
            }
        }
        multiply<P2, 1>(x, factors + factor_at(RIGHT));
        if constexpr (RIGHT > LEFT)
            multiply<P1, P2>(x, factors + factor_at(LEFT));
#pragma unroll
        for (int i = 0; i < V; i++)
            c::write(a, t, tile, x[i], i);
    }
};

/* No factor: from x, or to y, as they lie. */
template <int STEP> struct copied {
    static constexpr int ALL = elements_at(STEP, 0, COUNT) * TA * TB, ONCE = STEP == 0 ? 16 : 8;

    static __device__ void run(const struct kron_params &a, const struct place &t, REAL *tile)
    {
#pragma unroll 1
        for (int first = threadIdx.x; first < ALL; first += THREADS * ONCE) {
            REAL v[ONCE];
#pragma unroll
            for (int i = 0; i < ONCE; i++) {
                const int e = first + i * THREADS;
                v[i] = 0;
                if constexpr (STEP > 0)
                    v[i] = e < ALL ? tile[padded(e)] : (REAL)0;
                else if (STAGES > 0)
                    v[i] = e < ALL ? real_of<X_KIND>(t.ahead[ahead(e)]) : (REAL)0;
                else if (e < ALL && is_there(t, e, IN))
                    v[i] = real_of<X_KIND>(t.x[reach(a, t, e, IN, x_offset)]);
            }
#pragma unroll
            for (int i = 0; i < ONCE; i++) {
                const int e = first + i * THREADS;
                if constexpr (STEP == 0) {
                    if (e < ALL)
                        tile[padded(e)] = v[i];
                } else if (e < ALL && is_there(t, e, OUT))
                    put(t, reach(a, t, e, OUT, y_offset), PLAIN ? 0 : reach(a, t, e, OUT, z_offset),
                        v[i]);
            }
        }
    }
};

template <int STEP>
static __device__ void run_step(const struct kron_params &a, const struct place &t, REAL *tile,
                                const REAL *factors)
{
    if constexpr (with_of[STEP] == 0)
        copied<STEP>::run(a, t, tile);
    else if constexpr (is_held(STEP))
        held<STEP>::run(a, t, tile, factors);
    else
        streamed<STEP>::run(a, t, tile, factors);
    __syncthreads();
}

template <int STEP>
static __device__ void run_steps(const struct kron_params &a, const struct place &t, REAL *tile,
                                 const REAL *factors)
{
    if constexpr (STEP < STEPS) {
        run_step<STEP>(a, t, tile, factors);
        run_steps<STEP + 1>(a, t, tile, factors);
    }
}

/* Asks for a tile of x. */
static __device__ void copy_ahead(const struct kron_params &a, const struct place &t, x_element *to)
{
#pragma unroll 4
    for (int e = (int)threadIdx.x * AT_ONCE; e < TB * IN * TA; e += THREADS * AT_ONCE)
        if (is_there(t, e, IN))
            ptx_copy_async<16>(to + ahead(e), t.x + reach(a, t, e, IN, x_offset), 16);
}

/* A block's place in memory; offsets of units are in shared memory if they are not LINEAR. */
static __device__ struct place place_of(const struct kron_params &a, const struct tile &t)
{
    struct place p = {};

    p.column = t.column, p.units = t.units;
    p.x = matrix_of<const x_element>(a, a.x, t.item);
    p.y = matrix_of<y_element>(a, a.y, t.item);
    if constexpr (LINEAR) {
        p.x += t.unit * IN * a.after + t.column;
        p.y += t.unit * OUT * a.after + t.column;
    } else {
        for (int u = threadIdx.x; u < t.units; u += THREADS) {
            x_offset[u] = unit_offset(a, a.x, t.unit + u, IN);
            y_offset[u] = unit_offset(a, a.y, t.unit + u, OUT);
            z_offset[u] = PLAIN ? 0 : unit_offset(a, a.z, t.unit + u, OUT);
        }
    }
    if constexpr (!PLAIN) {
        const struct finish f = finish_of(a, t.item);
        p.alpha = f.alpha, p.beta = f.beta, p.z = f.z;
        if (LINEAR && f.z)
            p.z += t.unit * OUT * a.after + t.column;
    }
    return p;
}

/* The tile of the block that comes `later` after this one is copied to its stage. */
static __device__ void ask_for(const struct kron_params &a, long long number, long long tiles,
                               x_element *to)
{
    if (number < tiles)
        copy_ahead(a, place_of(a, tile_of(a, number)), to);
    ptx_copy_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    kron_matmul_tile(const __grid_constant__ struct kron_params a)
{
    extern __shared__ __align__(16) REAL memory[]; /* factors, stages, the tile */
    const long long tiles = a.unit_tiles * a.col_tiles * a.items;
    x_element *stage = (x_element *)(memory + FACTORS);
    REAL *tile = (REAL *)(stage + STAGES * STAGE);
    long long read = -1;
    int now = 0;

    if (STAGES > 0)
        ask_for(a, blockIdx.x, tiles, stage);
    for (long long number = blockIdx.x; number < tiles; number += gridDim.x) {
        const struct tile t = tile_of(a, number);
        struct place p = place_of(a, t);
        if (read != t.item)
            read_factors(a, t.item, memory);
        read = t.item;
        if (STAGES > 0)
            ptx_copy_wait<0>();
        __syncthreads();
        if constexpr (STAGES > 0)
            p.ahead = stage + now * STAGE;
        if constexpr (STAGES == 2) {
            now = 1 - now;
            ask_for(a, number + gridDim.x, tiles, stage + now * STAGE);
        }
        run_step<0>(a, p, tile, memory);
        if constexpr (STAGES == 1)
            ask_for(a, number + gridDim.x, tiles, stage);
        run_steps<1>(a, p, tile, memory);
    }
}
