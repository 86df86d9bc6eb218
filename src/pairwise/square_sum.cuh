/*
 * square_sum.cuh - a sum of cdist_mma.cu from its product, and the same from the numbers themselves
 *
 * Part of cdist_mma.cu, whose parameters it uses.
 *
 * SPDX-License-Identifier: MIT
 */

/* THREADS is the number of rows of x and y in a tile: a row's end each. */
static __device__ void load_end(const struct square_params *a, struct shared_state *shared)
{
#if !IS_DOUBLE
    const int which = threadIdx.x >= TILE_ROWS;
    const struct tile *tile = &shared->tile;
    const row_end *from = a->side[which].rows + (which ? tile->j - TILE_ROWS : tile->i) +
                          (tile->item - a->first) * a->side[which].item_rows;

    shared->end[threadIdx.x] = from[threadIdx.x];
#endif
}

#if IS_DOUBLE
/* The sum that acc comes to; spoiled: it is not exact enough. */
static __device__ double whole_sum(double acc, const row_end &x, const row_end &y, bool *spoiled)
{
    const double limit = x.limit + y.limit, s = fma(-2.0, acc, limit);
    const bool good = 8 * s >= limit && limit >= SMALLEST_NORM && limit <= LARGEST_NORM;

    *spoiled = STEP == PAIR_TWO && !good && limit != 0;
    if (STEP == PAIR_TWO)
        return good ? s : 0;
    return FUNCTION == PAIR_COSINE ? acc * x.factor * y.factor : acc;
}
#else
/* The sum that acc, of scaled rows, comes to; spoiled: it is not exact enough. */
static __device__ float whole_sum(float acc, const row_end &x, const row_end &y, bool *spoiled)
{
    const float limit = x.limit + y.limit;
    float s;
    bool good;

    if (STEP == PAIR_TWO) {
        s = fmaf(acc * (-2 * x.factor), y.factor, limit);
        good = 2 * s >= limit && limit >= SMALLEST_NORM && limit <= LARGEST_NORM;
        *spoiled = !good && limit == limit && limit != 0;
    } else if (FUNCTION == PAIR_COSINE) {
        s = acc * x.factor * y.factor;
        good = limit == limit;
        *spoiled = false;
    } else {
        const int e = (int)(x.factor + y.factor), half = e / 2 < -126 ? -126 : e / 2,
                  rest = e - e / 2 < -126 ? -126 : e - e / 2;
        s = acc * power_of_two(half) * power_of_two(rest);
        good = fabsf(acc) >= limit;
        *spoiled = !good && limit == limit;
    }
    return good ? s : limit; /* 0, NaN, or spoiled */
}
#endif

/* The sum of a row and a column of the tile by a warp, from the numbers themselves. */
static __device__ REAL direct_sum(const struct pair_params *a, const struct tile *tile, int row,
                                   int col)
{
    const struct pair_map *none = nullptr;
    const element *x = tile->from[0] + row * a->x.row_stride;
    const element *y = tile->from[1] + col * a->y.row_stride;
    REAL sum = 0;

#pragma unroll 4
    for (long long k = threadIdx.x % 32; k < a->depth; k += 32)
        sum = step(sum, value_of(x[k * a->x.col_stride]), value_of(y[k * a->y.col_stride]), none,
                   0);
    for (int lane = 16; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    return sum;
}
