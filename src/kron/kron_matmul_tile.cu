/*
 * kron_matmul_tile.cu - several Kronecker factors applied to a tile that lies in registers
 *
 *   y[unit, q_1, ..., q_K, a] = sum over p_1, ..., p_K of
 *                               x[unit, p_1, ..., p_K, a] f_1[p_1, q_1] ... f_K[p_K, q_K]
 *
 * A block takes TB units and TA of the indices after the group.  It contracts in steps of one
 * factor, or of two neighbours whose block of elements fits in registers: a thread has all elements
 * of V columns (all indices but those of the step).  The first step takes them from x, the last one
 * gives them to y, and between two steps they go through shared memory; so the first and the last
 * one have many indices behind them, which are neighbours in memory, and the others come between.
 * Neighbouring threads have neighbouring columns; where few indices are behind a step's, a warp has
 * columns that are apart from each other and come from all banks.
 *
 * Parameters (-D), set by cuda_kron_tile.c:
 *   REAL, X_KIND, Y_KIND, F_KIND, WHOLE   see kron_pass.cuh; WHOLE: REAL is of integers
 *   P_OF, Q_OF   sizes of the factors, in their order in the product
 *   STEP_OF      the factor of each step
 *   WITH_OF      factors of each step: 1, 2 where the next one belongs to it, 0: the first or last
 *                step copies
 *   TB, TA       of a tile; TA divides the indices after the group
 *   AFTER        the indices after the group, 0: not known yet
 *   BATCHED      0: one item
 *   LINEAR       1: units lie one behind the other
 *   PLAIN        1: y is the product, 0: alpha times it, plus beta z
 *   STAGES       tiles of x that asynchronous copies bring to shared memory while others are
 *                computed with: 0, 1 (after the first step has taken one) or 2 (before it); where
 *                16 bytes are neighbours in a tile and in memory, LINEAR is 1 and BATCHED is 0
 *   WIDE         sums of a thread at a time in steps of two factors
 *   THREADS, BLOCKS   of a block; on a processor at least
 *   MMA          1: by tensor cores, with these; REAL is float or double, all factors are square,
 *                and there are no steps of two of them
 *   DOUBLES      1: REAL is double
 *   GAP_OF       elements left out behind those that are behind a factor's index
 *   SPREAD_OF    1: lane t of four has index t of every four, 2: 2 t of every eight, and 2 t + 1
 *   ROW_OF       of a row of a factor in shared memory
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_tile_sizes.cuh"
#if MMA
#  include "kron_mma.cuh"
#endif

/* ---- Where the elements of a tile are in x and y -------------------------------------------- */

struct tile {
    long long item, unit, column;
    int units; /* that there are */
};

/* The matrix of an item. */
template <typename T>
static __device__ T *matrix_of(const struct kron_params &a, const struct device_view &side,
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

/* What is added to reach an element of a tile whose units have `elements`; `offset` is that of the
 * element's unit. */
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
    for (int i = 0; i < COUNT; i++)
        read_factor<THREADS, 4>(a.factor[i], matrix_of<const f_element>(a, a.factor[i], item),
                                p_of[i], q_of[i], width_of(i), to + factor_at(i));
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
        return first_of(has(i) ? (int)threadIdx.x + i * THREADS : 0, size);
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

    static __device__ void write(const struct kron_params &a, const struct place &t, REAL *tile,
                                 const REAL *value, int i)
    {
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
                x[i] = c::has(i) ? from[c::start_padded(i, P) + padded(p * R)] : (REAL)0;
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

    /* WIDE sums at a time. */
    template <int P, int BESIDE> static __device__ void multiply(REAL (&x)[V * G], const REAL *f)
    {
        multiply_blocks<P, BESIDE, (WIDE / P < 1 ? 1 : WIDE / P), row_of(P)>(x, f);
    }
    static __device__ void run(const struct kron_params &a, const struct place &t, REAL *tile,
                               const REAL *factors)
    {
        REAL x[V * G];
#pragma unroll
        for (int i = 0; i < V; i++) {
            if constexpr (STEP == 0 && STAGES > 0) {
                const x_element *from = t.ahead + c::start_ahead(i, G);
#pragma unroll
                for (int e = 0; e < G; e++)
                    x[i * G + e] = real_of<X_KIND>(from[ahead(e * R)]);
            } else if constexpr (STEP == 0) {
                const int s = c::start(i, G);
                const x_element *from = t.x + reach(a, t, s, IN, x_offset);
                const bool there = c::has(i) && is_there(t, s, IN);
#pragma unroll
                for (int e = 0; e < G; e++)
                    x[i * G + e] = there ? real_of<X_KIND>(from[inside(a, e * R)]) : (REAL)0;
            } else {
                const int at = c::start_padded(i, G);
#pragma unroll
                for (int e = 0; e < G; e++)
                    x[i * G + e] = c::has(i) ? tile[at + padded(e * R)] : (REAL)0;
            }
        }
        multiply<P2, 1>(x, factors + factor_at(RIGHT));
        if constexpr (RIGHT > LEFT)
            multiply<P1, P2>(x, factors + factor_at(LEFT));
#pragma unroll
        for (int i = 0; i < V; i++)
            c::write(a, t, tile, x + i * G, i);
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
#if MMA

/* ---- Steps by tensor cores ------------------------------------------------------------------ */

/* A warp has 16 columns at a time, and all their elements: A is x, B the square factor, which it
 * keeps in registers during the step if they suffice.  Fragments are those of ptx.cuh, but which p
 * is the k-th and which q the n-th is chosen such that a thread's sums belong where it has read:
 * nothing is in a warp's way but the end of the step. */
template <int STEP> struct multiplied {
    static constexpr int FACTOR = step_of[STEP], P = p_of[FACTOR], SPREAD = spread_of[FACTOR];
    static constexpr int AT = factor_at(FACTOR), WIDTH = width_of(FACTOR);
    static constexpr int R = behind_of(STEP), ALL = columns_of(STEP), WARPS = THREADS / 32;
    static constexpr int EIGHTS = (P + 7) / 8;
    static constexpr bool ROOM = THREADS * BLOCKS < 512; /* more than 128 registers */
    static constexpr int ONCE = EIGHTS < 3 ? 4 / EIGHTS : 1;
    /* The factor, in registers. */
    static constexpr bool KEPT =
        EIGHTS == 1 || (EIGHTS == 2 && !DOUBLES) || (ROOM && (EIGHTS == 2 || !DOUBLES));
    static constexpr bool FULL = ALL % (16 * WARPS * ONCE) == 0;
    static constexpr int X_PARTS = STEP > 0 || X_KIND == DEVICE_REAL ? 2 : 1;
    static constexpr int F_PARTS = F_KIND == DEVICE_REAL ? 2 : 1;

    /* Of the i-th eight indices of the factor, lane t of four has this one and SPREAD t. */
    static __device__ constexpr int index_of(int i, int half)
    {
        return SPREAD == 1 ? 8 * i + 4 * half : 8 * i + half;
    }
    static __device__ constexpr bool is_index(int i, int half, int t)
    {
        return P % 8 == 0 || index_of(i, half) + t * SPREAD < P;
    }
    /* The i-th eight rows of the factor. */
    static __device__ void read_factor(fragment (&f)[EIGHTS][2][2], int i, const REAL *from)
    {
        const int lane = (int)threadIdx.x % 32, t = lane % 4;
        const int q0 = lane / 8 * SPREAD + lane / 4 % 2 * index_of(0, 1);

        from += t * SPREAD * WIDTH + q0;
#  pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
#  pragma unroll
            for (int half = 0; half < 2; half++) {
                REAL v = 0;
                if (is_index(i, half, t) && (P % 8 == 0 || index_of(j, 0) + q0 < P))
                    v = from[index_of(i, half) * WIDTH + index_of(j, 0)];
                f[j][0][half] = fragment_of(v);
            }
            if constexpr (F_PARTS == 2)
                split(f[j]);
        }
    }
    /* The first element of a column. */
    static __device__ int start(int column)
    {
        return (FULL || column < ALL) ? column / R * (P * R) + column % R : 0;
    }
    static __device__ void read(const struct kron_params &a, const struct place &t,
                                const REAL *tile, int column, int side, REAL (&v)[EIGHTS][4])
    {
        const int s = start(column), k = (int)threadIdx.x % 4, mine = k * (SPREAD * R);
        const bool there = (FULL || column < ALL) && (STEP > 0 || is_there(t, s, IN));
        const x_element *x = t.ahead;

        if constexpr (STEP == 0 && STAGES > 0)
            x += ahead(s) + ahead(mine);
        else if constexpr (STEP == 0)
            x = t.x + reach(a, t, s, IN, x_offset) + inside(a, mine);
        else
            tile += padded(s) + padded(mine);
#  pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#  pragma unroll
            for (int half = 0; half < 2; half++) {
                const int e = index_of(i, half) * R;
                v[i][half * 2 + side] = 0;
                if (!there || !is_index(i, half, k))
                    continue;
                if constexpr (STEP == 0)
                    v[i][half * 2 + side] =
                        real_of<X_KIND>(x[STAGES > 0 ? ahead(e) : inside(a, e)]);
                else
                    v[i][half * 2 + side] = tile[padded(e)];
            }
    }
    /* Sums of the columns of this thread's side: parts 0 and 1, or 2 and 3. */
    static __device__ void write(const struct kron_params &a, const struct place &t, REAL *tile,
                                 int column, int side, const REAL (&sum)[EIGHTS][4])
    {
        const int s = start(column), k = (int)threadIdx.x % 4, mine = k * (SPREAD * R);
        long long at = 0, z_at = 0;

        if (!(FULL || column < ALL) || (STEP + 1 == STEPS && !is_there(t, s, OUT)))
            return;
        if constexpr (STEP + 1 == STEPS) {
            at = reach(a, t, s, OUT, y_offset) + inside(a, mine);
            z_at = PLAIN ? 0 : reach(a, t, s, OUT, z_offset) + inside(a, mine);
        } else {
            tile += padded(s) + padded(mine);
        }
#  pragma unroll
        for (int j = 0; j < EIGHTS; j++)
#  pragma unroll
            for (int half = 0; half < 2; half++) {
                const int e = index_of(j, half) * R;
                if (!is_index(j, half, k))
                    continue;
                if constexpr (STEP + 1 == STEPS)
                    put(t, at + inside(a, e), z_at + inside(a, e), sum[j][side * 2 + half]);
                else
                    tile[padded(e)] = sum[j][side * 2 + half];
            }
    }
    static __device__ void run(const struct kron_params &a, const struct place &t, REAL *tile,
                               const REAL *factors)
    {
        const int g = (int)threadIdx.x % 32 / 4, warp = (int)threadIdx.x / 32;
        fragment f[KEPT ? EIGHTS : 1][EIGHTS][2][2];

        factors += AT;
        if constexpr (KEPT)
#  pragma unroll
            for (int i = 0; i < EIGHTS; i++)
                read_factor(f[i], i, factors);
#  pragma unroll 1
        for (int first = warp * 16 + g; first - g < ALL; first += 16 * WARPS * ONCE) {
            REAL v[ONCE][EIGHTS][4];
#  pragma unroll
            for (int i = 0; i < ONCE * 2; i++)
                read(a, t, tile, first + i / 2 * (16 * WARPS) + i % 2 * 8, i % 2, v[i / 2]);
#  pragma unroll
            for (int n = 0; n < ONCE; n++) {
                REAL sum[EIGHTS][4] = {};
#  pragma unroll
                for (int i = 0; i < EIGHTS; i++) {
                    fragment x[2][4];
#  pragma unroll
                    for (int part = 0; part < 4; part++)
                        x[0][part] = fragment_of(v[n][i][part]);
                    if constexpr (X_PARTS == 2)
                        split(x);
                    if constexpr (!KEPT)
                        read_factor(f[0], i, factors);
                    multiply<X_PARTS, F_PARTS>(sum, x, f[KEPT ? i : 0]);
                }
#  pragma unroll
                for (int side = 0; side < 2; side++)
                    write(a, t, tile, first + n * (16 * WARPS) + side * 8, side, sum);
            }
        }
    }
};
#endif

template <int STEP>
static __device__ void run_step(const struct kron_params &a, const struct place &t, REAL *tile,
                                const REAL *factors)
{
    if constexpr (with_of[STEP] == 0)
        copied<STEP>::run(a, t, tile);
#if MMA
    else
        multiplied<STEP>::run(a, t, tile, factors);
#else
    else if constexpr (is_held(STEP))
        held<STEP>::run(a, t, tile, factors);
    else
        streamed<STEP>::run(a, t, tile, factors);
#endif
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
