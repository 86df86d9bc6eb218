/*
 * kron_tile_mma.cuh - steps of kron_matmul_tile.cu by tensor cores
 *
 * Part of kron_matmul_tile.cu.  A warp has 16 columns at a time, and all their elements: A is x, B
 * the square factor, which it keeps in registers during the step if they suffice.  Fragments are
 * those of ptx.cuh, but which p is the k-th and which q the n-th is chosen such that a thread's
 * sums belong where it has read: nothing is in a warp's way but the end of the step.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_mma.cuh"

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
    static constexpr int X_PARTS = STEP > 0 || X_KIND == KRON_REAL ? 2 : 1;
    static constexpr int F_PARTS = F_KIND == KRON_REAL ? 2 : 1;

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
#pragma unroll
        for (int j = 0; j < EIGHTS; j++) {
#pragma unroll
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
#pragma unroll
        for (int i = 0; i < EIGHTS; i++)
#pragma unroll
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
#pragma unroll
        for (int j = 0; j < EIGHTS; j++)
#pragma unroll
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
#pragma unroll
            for (int i = 0; i < EIGHTS; i++)
                read_factor(f[i], i, factors);
#pragma unroll 1
        for (int first = warp * 16 + g; first - g < ALL; first += 16 * WARPS * ONCE) {
            REAL v[ONCE][EIGHTS][4];
#pragma unroll
            for (int i = 0; i < ONCE * 2; i++)
                read(a, t, tile, first + i / 2 * (16 * WARPS) + i % 2 * 8, i % 2, v[i / 2]);
#pragma unroll
            for (int n = 0; n < ONCE; n++) {
                REAL sum[EIGHTS][4] = {};
#pragma unroll
                for (int i = 0; i < EIGHTS; i++) {
                    fragment x[2][4];
#pragma unroll
                    for (int part = 0; part < 4; part++)
                        x[0][part] = fragment_of(v[n][i][part]);
                    if constexpr (X_PARTS == 2)
                        split(x);
                    if constexpr (!KEPT)
                        read_factor(f[0], i, factors);
                    multiply<X_PARTS, F_PARTS>(sum, x, f[KEPT ? i : 0]);
                }
#pragma unroll
                for (int side = 0; side < 2; side++)
                    write(a, t, tile, first + n * (16 * WARPS) + side * 8, side, sum);
            }
        }
    }
};
