/*
 * solve_exchange.cuh - exchanges of rows, one after the other, as what comes where in the end
 *
 * Part of files that include solve_tile.cuh.  Up to TILE exchanges of rows first, first + 1, ...
 * with others touch twice as many rows; a warp follows them, four places a lane, and columns are
 * then read and written once.
 *
 * SPDX-License-Identifier: MIT
 */
#define PLACES (2 * TILE / 32) /* of a lane */

/* Row row[p] gets what was in row from[p]; places of no row have -1. */
struct moves {
    int row[2 * TILE], from[2 * TILE];
};

/* What place p of the warp holds; p is the same in all lanes. */
static __device__ __forceinline__ int at_place(const int v[PLACES], int p)
{
    int found = -1;

#pragma unroll
    for (int q = 0; q < PLACES; q++) {
        const int there = __shfl_sync(WARP, v[q], p % 32);
        found = p / 32 == q ? there : found;
    }
    return found;
}

static __device__ __forceinline__ void put_place(int v[PLACES], int p, int value)
{
#pragma unroll
    for (int q = 0; q < PLACES; q++)
        v[q] = 32 * q + (int)threadIdx.x % 32 == p ? value : v[q];
}

/* The place of a row beyond the first TILE: where it is, or k's own. */
static __device__ __forceinline__ int place_beyond(int row[PLACES], int from[PLACES], int other,
                                                   int k)
{
    int place = -1;

#pragma unroll
    for (int q = PLACES / 2; q < PLACES; q++) {
        const unsigned found = __ballot_sync(WARP, row[q] == other);
        place = found ? 32 * q + __ffs((int)found) - 1 : place;
    }
    if (place < 0) {
        place = TILE + k;
        put_place(row, place, other);
        put_place(from, place, other);
    }
    return place;
}

/* One warp: row first + k is exchanged with row exchanges[k] - 1, k from 0 on. */
static __device__ void follow(const int *exchanges, int first, int count, struct moves &to)
{
    const int lane = (int)threadIdx.x % 32;
    int row[PLACES], from[PLACES];

#pragma unroll
    for (int q = 0; q < PLACES; q++)
        row[q] = from[q] = q < PLACES / 2 && 32 * q + lane < count ? first + 32 * q + lane : -1;
    for (int k = 0; k < count; k++) {
        const int other = exchanges[k] - 1, near = other - first;
        const int place = near >= 0 && near < count ? near : place_beyond(row, from, other, k);
        const int here = at_place(from, k), there = at_place(from, place);
        put_place(from, k, there);
        put_place(from, place, here);
    }
#pragma unroll
    for (int q = 0; q < PLACES; q++) {
        to.row[32 * q + lane] = row[q];
        to.from[32 * q + lane] = from[q];
    }
}

/* One warp, one column. */
static __device__ void exchange(const struct moves &m, REAL *column)
{
    const int lane = (int)threadIdx.x % 32;
    REAL v[PLACES];

#pragma unroll
    for (int q = 0; q < PLACES; q++) {
        const int p = 32 * q + lane;
        if (m.row[p] != m.from[p])
            v[q] = column[m.from[p]];
    }
    __syncwarp();
#pragma unroll
    for (int q = 0; q < PLACES; q++) {
        const int p = 32 * q + lane;
        if (m.row[p] != m.from[p])
            column[m.row[p]] = v[q];
    }
    __syncwarp();
}
