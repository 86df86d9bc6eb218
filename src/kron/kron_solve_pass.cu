/*
 * kron_solve_pass.cu - one factor's part of a solve with a Kronecker product, in one pass
 *
 * to[unit][.][a] = U^-1 L^-1 P from[unit][.][a], for all units and all a < after, with the LU of
 * kron_solve_factor.cu in shared memory.  A block has some right-hand sides in shared memory at a
 * time.  RIGHTS of them belong to a thread, which takes PANEL of their elements into registers at a
 * time, subtracts the columns of L, or of U, times the elements that are known, and solves with the
 * triangle on the diagonal.  All threads read the same of L and U.  from may be to.
 *
 * Parameters (-D), set by cuda_kron_solve_small.c:
 *   REAL      float or double
 *   ORDER     of the factor
 *   RIGHTS    right-hand sides of a thread
 *   STAGED    1: less than a warp of them lie side by side, so units come and go as they lie
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.cuh"
#include "kron_params.h"

#define THREADS KRON_SOLVE_PASS_THREADS
#define LANES   (16 / (int)sizeof(REAL))
#define COLUMN  KRON_SOLVE_STEP(ORDER)
#define PANEL   KRON_SOLVE_PANEL
#define PANELS  (KRON_SOLVE_PADDED(ORDER) / PANEL)
#define TALL    KRON_SOLVE_ODD(ORDER)

struct factor {
    alignas(16) REAL lu[PANELS * PANEL * COLUMN];
    int place[ORDER]; /* where a row goes */
};

/* The columns of a thread; their elements are `step` apart. */
struct column {
    REAL *tile;
    int at[RIGHTS], step;
};

static __device__ void load_factor(struct factor &s, const struct kron_solve_pass_params &a,
                                   long long group)
{
    const REAL *lu =
        (const REAL *)a.lu.data + batch_offset(a.shape, a.ndim, a.lu.batch_stride, group);
    const int *row =
        (const int *)a.row.data + batch_offset(a.shape, a.ndim, a.row.batch_stride, group);

    __syncthreads();
    for (int e = (int)threadIdx.x; e < PANELS * PANEL * COLUMN; e += THREADS)
        s.lu[e] = e < ORDER * COLUMN ? lu[e] : (REAL)0;
    for (int e = (int)threadIdx.x; e < ORDER; e += THREADS)
        s.place[row[e]] = e;
    __syncthreads();
}

static __device__ void read_panel(REAL (&v)[RIGHTS][PANEL], const struct column &c, int first)
{
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
        for (int r = 0; r < RIGHTS; r++)
            v[r][i] = ORDER % PANEL == 0 || first + i < ORDER
                          ? c.tile[c.at[r] + (first + i) * c.step]
                          : (REAL)0;
}

static __device__ void write_panel(const REAL (&v)[RIGHTS][PANEL], const struct column &c,
                                   int first)
{
#pragma unroll
    for (int i = 0; i < PANEL; i++)
#pragma unroll
        for (int r = 0; r < RIGHTS; r++)
            if (ORDER % PANEL == 0 || first + i < ORDER)
                c.tile[c.at[r] + (first + i) * c.step] = v[r][i];
}

/* v - the rows of the panel of columns begin .. end - 1, times their elements. */
static __device__ void subtract(REAL (&v)[RIGHTS][PANEL], const struct column &c, const REAL *lu,
                                int begin, int end)
{
    struct alignas(16) pack {
        REAL v[LANES];
    };

#pragma unroll 2
    for (int k = begin; k < end; k++) {
        REAL x[RIGHTS];
#pragma unroll
        for (int r = 0; r < RIGHTS; r++)
            x[r] = c.tile[c.at[r] + k * c.step];
#pragma unroll
        for (int first = 0; first < PANEL; first += LANES) {
            const struct pack some = *(const struct pack *)(lu + k * COLUMN + first);
#pragma unroll
            for (int i = 0; i < LANES; i++)
#pragma unroll
                for (int r = 0; r < RIGHTS; r++)
                    v[r][first + i] -= some.v[i] * x[r];
        }
    }
}

/* The triangles on the diagonal, whose first element is at lu. */
static __device__ void solve_lower(REAL (&v)[RIGHTS][PANEL], const REAL *lu)
{
#pragma unroll
    for (int k = 0; k < PANEL - 1; k++)
#pragma unroll
        for (int i = k + 1; i < PANEL; i++)
#pragma unroll
            for (int r = 0; r < RIGHTS; r++)
                v[r][i] -= lu[k * COLUMN + i] * v[r][k];
}

static __device__ void solve_upper(REAL (&v)[RIGHTS][PANEL], const REAL *lu)
{
#pragma unroll
    for (int k = PANEL - 1; k >= 0; k--)
#pragma unroll
        for (int r = 0; r < RIGHTS; r++) {
            v[r][k] *= lu[k * COLUMN + k];
#pragma unroll
            for (int i = 0; i < k; i++)
                v[r][i] -= lu[k * COLUMN + i] * v[r][k];
        }
}

static __device__ void substitute(const struct factor &s, const struct column &c)
{
    REAL v[RIGHTS][PANEL];

#pragma unroll 1
    for (int first = 0; first < PANELS * PANEL; first += PANEL) {
        read_panel(v, c, first);
        subtract(v, c, s.lu + first, 0, first);
        solve_lower(v, s.lu + first * (COLUMN + 1));
        write_panel(v, c, first);
    }
#pragma unroll 1
    for (int first = (PANELS - 1) * PANEL; first >= 0; first -= PANEL) {
        read_panel(v, c, first);
        subtract(v, c, s.lu + first, first + PANEL, ORDER);
        solve_upper(v, s.lu + first * (COLUMN + 1));
        write_panel(v, c, first);
    }
}

#if STAGED
/* Units first .. first + count - 1 of a group, between memory and `tile`: a unit is [TALL][after]
 * there, so that threads with neighbouring units read from different banks. */
template <bool BACK>
static __device__ void move_units(REAL *tile, REAL *memory, const int *place, int count, int after)
{
    const int size = ORDER * after;

#  pragma unroll 8
    for (int e = (int)threadIdx.x; e < count * size; e += THREADS) {
        const int unit = e / size, k = (e - unit * size) / after, i = (e - unit * size) - k * after;
        if (BACK)
            memory[e] = tile[(unit * TALL + k) * after + i];
        else
            tile[(unit * TALL + place[k]) * after + i] = memory[e];
    }
    __syncthreads();
}

static __device__ void solve_tile(const struct kron_solve_pass_params &a, const struct factor &s,
                                  REAL *tile, long long group, long long number)
{
    const int after = (int)a.after, once = THREADS * RIGHTS / after;
    const long long first = number * once;
    const int count = (int)min((long long)once, a.units - first);
    const long long at = (group * a.units + first) * ORDER * after;
    struct column c = {tile, {}, after};

    move_units<false>(tile, (REAL *)a.from + at, s.place, count, after);
#  pragma unroll
    for (int r = 0; r < RIGHTS; r++) {
        const int mine = r * THREADS + (int)threadIdx.x; /* maybe of a unit that is not there */
        c.at[r] = mine / after * (TALL * after) + mine % after;
    }
    substitute(s, c);
    __syncthreads();
    move_units<true>(tile, (REAL *)a.to + at, s.place, count, after);
}
#else
static __device__ void solve_tile(const struct kron_solve_pass_params &a, const struct factor &s,
                                  REAL *tile, long long group, long long number)
{
    const long long all = a.units * a.after;
    long long at[RIGHTS];
    struct column c = {tile, {}, THREADS * RIGHTS};

#  pragma unroll
    for (int r = 0; r < RIGHTS; r++) {
        const long long mine = (number * RIGHTS + r) * THREADS + threadIdx.x;
        const long long unit = mine / a.after;
        const long long first =
            (group * a.units + unit) * ORDER * a.after + (mine - unit * a.after);
        at[r] = mine < all ? first : -1;
        c.at[r] = r * THREADS + (int)threadIdx.x;
        if (at[r] >= 0)
#  pragma unroll 16
            for (int k = 0; k < ORDER; k++)
                c.tile[c.at[r] + s.place[k] * c.step] = ((const REAL *)a.from)[at[r] + k * a.after];
    }
    substitute(s, c);
#  pragma unroll
    for (int r = 0; r < RIGHTS; r++)
        if (at[r] >= 0)
#  pragma unroll 8
            for (int k = 0; k < ORDER; k++)
                ((REAL *)a.to)[at[r] + k * a.after] = c.tile[c.at[r] + k * c.step];
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    kron_solve_pass(const __grid_constant__ struct kron_solve_pass_params a)
{
    extern __shared__ __align__(16) char memory[];
    struct factor &s = *(struct factor *)memory;
    REAL *tile = (REAL *)(memory + KRON_SOLVE_FACTOR_BYTES(ORDER, (int)sizeof(REAL)));
    const int side = THREADS * RIGHTS;
    const long long tiles = STAGED ? (a.units + side / a.after - 1) / (side / a.after)
                                   : (a.units * a.after + side - 1) / side;
    long long before = -1;

    for (long long work = blockIdx.x; work < tiles * a.groups; work += gridDim.x) {
        const long long group = work / tiles;
        if (group != before)
            load_factor(s, a, group);
        before = group;
        solve_tile(a, s, tile, group, work - group * tiles);
    }
}
