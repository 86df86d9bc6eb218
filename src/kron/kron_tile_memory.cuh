/*
 * kron_tile_memory.cuh - where the elements of a tile of kron_matmul_tile.cu are in x and y
 *
 * Part of kron_matmul_tile.cu.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_tile_sizes.cuh"

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
