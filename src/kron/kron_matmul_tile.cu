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
#include "kron_tile_steps.cuh"
#if MMA
#  include "kron_tile_mma.cuh"
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
