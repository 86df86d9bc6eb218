/*
 * kron_tile_steps.cuh - the steps of kron_matmul_tile.cu
 *
 * Part of kron_matmul_tile.cu.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_tile_memory.cuh"

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
