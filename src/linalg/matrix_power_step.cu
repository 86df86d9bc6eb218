/*
 * matrix_power_step.cu - what the methods of gram_matrix_power do between products of matrices
 *
 * matrix_power_combine: to = shift I + factor from, which may be to.
 * matrix_power_sum: to = factor[0] I + factor[1] from + factor[2] other; I for an item that is
 * done.
 * matrix_power_decide: whether an item's iteration is done.  Steps go on for the others: W is I
 * then.
 * matrix_power_distance: the largest magnitude of from - shift I - other.
 * matrix_power_split: from = to + other: to is from cut to the 11 bits of TF32.
 * matrix_power_mirror: what lies above the diagonal of to is what lies below it.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power.cuh"

#include "block_sum.cuh"

struct pair {
    double shift, factor;
};

static __device__ struct pair coefficients(const params &a, const struct power_state *s)
{
    switch (a.what) {
    case POWER_IDENTITY:
        return {1, 0};
    case POWER_RIDGE:
        return {s->shift, 1};
    case POWER_FIRST:
        return s->done ? pair{1, 0} : pair{0, s->first};
    case POWER_STEP:
        return s->done ? pair{1, 0} : pair{s->step[0], s->step[1]};
    case POWER_LAST:
        return {0, s->last};
    default:
        return {0, 1};
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_combine(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const long long item = item_of(a);
    const struct pair c = coefficients(a, &a.state[item]);
    const REAL *from = matrix_of(a, a.from, item);
    REAL *to = matrix_of(a, a.to, item);
    double sum = 0;

    for (long long j = first_column(a); j < a.n; j += columns_apart(a))
        for (long long i = first_row(a); i < a.n; i += a.width) {
            const double v = c.factor == 0 ? 0 : (double)from[i + j * a.ld];
            const double d = v - (i == j);
            sum += d * d;
            to[i + j * a.ld] = (REAL)(c.factor * v + (i == j ? c.shift : 0));
        }
    if (a.what != POWER_STEP)
        return;
    block_sum(sums, (int)threadIdx.x, sum);
    if (threadIdx.x == 0)
        a.sums[item * POWER_PARTS + part_of(a)] = sums[0];
}

/* An error below the limit, or one that was small and no longer halves (rounding). */
static __device__ bool stops(const params &a, double error, double before)
{
    return error <= a.nearly || (before < 0.1 && error > before / 2);
}

static __device__ void after_step(const params &a, struct power_state *s, double error)
{
    if (a.method == POWER_MINIMAX) {
        s->done = s->before <= a.enough;
        if (!s->done)
            minimax_next(a, s);
        return;
    }
    if (!isfinite(error))
        s->outcome = POWER_NOT_CONVERGED;
    s->done = s->outcome || stops(a, error, s->before);
    s->before = error;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_decide(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const long long item = blockIdx.x;
    struct power_state *s = &a.state[item];

    block_sum(sums, (int)threadIdx.x,
              a.what == POWER_AFTER_STEP && threadIdx.x < a.parts
                  ? a.sums[item * POWER_PARTS + threadIdx.x]
                  : 0);
    if (threadIdx.x != 0 || s->outcome || s->zero)
        return;
    if (a.what == POWER_AFTER_STEP && !s->done) {
        after_step(a, s, sqrt(sums[0]));
    } else if (a.what == POWER_RESTART) {
        s->done = 0;
        s->before = INF_OF;
    } else if (a.what == POWER_END && !s->done &&
               !(a.method == POWER_MINIMAX && s->before <= 100 * a.enough)) {
        s->outcome = POWER_NOT_CONVERGED;
        s->done = 1;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_distance(const __grid_constant__ params a)
{
    const long long item = item_of(a);
    const REAL *from = matrix_of(a, a.from, item);
    const REAL *other = a.other ? matrix_of(a, a.other, item) : nullptr;
    unsigned long long most = 0;

    for (long long j = first_column(a); j < a.n; j += columns_apart(a))
        for (long long i = first_row(a); i < a.n; i += a.width) {
            const double v = (double)from[i + j * a.ld] - (i == j ? a.shift : 0) -
                             (other ? (double)other[i + j * a.ld] : 0);
            const unsigned long long mine = magnitude(v);
            most = mine > most ? mine : most;
        }
    largest_to(&a.state[item].size[a.what], most);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_split(const __grid_constant__ params a)
{
    const long long item = item_of(a);
    const REAL *from = matrix_of(a, a.from, item);
    REAL *to = matrix_of(a, a.to, item), *other = matrix_of(a, a.other, item);

    for (long long j = first_column(a); j < a.n; j += columns_apart(a))
        for (long long i = first_row(a); i < a.n; i += a.width) {
            const float v = (float)from[i + j * a.ld];
            const float cut = __uint_as_float(__float_as_uint(v) & 0xFFFFE000u);
            to[i + j * a.ld] = (REAL)cut;
            other[i + j * a.ld] = (REAL)(v - cut);
        }
}

enum {
    MIRROR = 32 /* the side of a tile */
};

/* The tile of row down and column across, down >= across, to its place on the other side. */
static __device__ void mirror_tile(const params &a, REAL *m, long long down, long long across)
{
    __shared__ REAL tile[MIRROR][MIRROR + 1];
    const long long i = threadIdx.x % MIRROR, first = threadIdx.x / MIRROR;

    for (long long j = first; j < MIRROR; j += THREADS / MIRROR)
        if (down * MIRROR + i < a.n && across * MIRROR + j < a.n)
            tile[j][i] = m[down * MIRROR + i + (across * MIRROR + j) * a.ld];
    __syncthreads();
    for (long long j = first; j < MIRROR; j += THREADS / MIRROR) {
        const long long row = across * MIRROR + i, column = down * MIRROR + j;
        if (row < column && column < a.n)
            m[row + column * a.ld] = tile[i][j];
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_mirror(const __grid_constant__ params a)
{
    const long long sides = (a.n + MIRROR - 1) / MIRROR;
    REAL *m = matrix_of(a, a.to, item_of(a));

    for (long long tile = part_of(a); tile < sides * sides; tile += a.parts)
        if (tile / sides >= tile % sides)
            mirror_tile(a, m, tile / sides, tile % sides);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_sum(const __grid_constant__ params a)
{
    const long long item = item_of(a);
    const bool done = a.state[item].done != 0;
    const double one = done ? 1 : a.factor[0], by = done ? 0 : a.factor[1];
    const double by_other = done ? 0 : a.factor[2];
    const REAL *from = matrix_of(a, a.from, item);
    const REAL *other = a.other ? matrix_of(a, a.other, item) : from;
    REAL *to = matrix_of(a, a.to, item);

    for (long long j = first_column(a); j < a.n; j += columns_apart(a))
        for (long long i = first_row(a); i < a.n; i += a.width) {
            const long long at = i + j * a.ld;
            to[at] =
                (REAL)((i == j ? one : 0) + by * (double)from[at] + by_other * (double)other[at]);
        }
}
