/*
 * solve_options.cu - solves with rcond, jitter and refine: matrices in and out, what is decided
 *
 * solve_load: a of the caller's to scratch, both triangles if mirror, transposed if flip.
 * solve_norm: the largest sums of magnitudes of its columns and rows.
 * solve_add_jitter: A + s I to where it is factorised, in f32 and scaled where an item says so.
 * solve_add_accepted_jitter: adds the s that was taken to A.
 * solve_verdict: the first bad element of a factor that cuSOLVER made, its exchanges.
 * solve_decide: a thread an item; what an item does next.
 * solve_store_reports: rcond, jittered and exchanges to the caller's.
 * solve_store_factor: the factor to the caller's.
 * solve_move: right-hand sides in, or out (refine: solutions).
 * solve_result: backward and refinings; at the end info, and NaN for items that failed.
 *
 * Parameters (-D): REAL.  It is the dtype of a; of solve_add_jitter and solve_verdict the factor's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options.cuh"

#define SIDE 32 /* of a square of solve_load */

/* Blocks of an item are neighbours. */
static __device__ long long item_of(const params &a)
{
    return blockIdx.x / a.parts;
}

static __device__ long long part_of(const params &a)
{
    return blockIdx.x % a.parts;
}

/* Squares of the matrix, neighbours of the caller's in the fast direction, pass through shared
 * memory, so that neighbours are written too. */
extern "C" __global__ void __launch_bounds__(THREADS) solve_load(const __grid_constant__ params a)
{
    __shared__ REAL square[SIDE][SIDE + 1];
    const long long item = item_of(a), n = a.n, sides = (n + SIDE - 1) / SIDE;
    const bool by_rows = llabs(a.a.col_stride) <= llabs(a.a.row_stride);
    const long long slow_stride = by_rows ? a.a.row_stride : a.a.col_stride;
    const long long fast_stride = by_rows ? a.a.col_stride : a.a.row_stride;
    const bool straight = a.mirror || by_rows == (a.flip != 0);
    const bool turned = a.mirror || by_rows != (a.flip != 0);
    const bool above = by_rows == (a.upper != 0); /* the triangle has fast >= slow */
    const int lane = (int)threadIdx.x % SIDE, first = (int)threadIdx.x / SIDE;
    const REAL *from = (const REAL *)a.a.data + place_of(a, a.a, item);
    REAL *to = (REAL *)a.matrix + item * n * n;

    for (long long at = part_of(a); at < sides * sides; at += a.parts) {
        const long long s = at / sides * SIDE, f = at % sides * SIDE;
        if (!a.lu && (above ? f < s : f > s))
            continue;
        for (int r = first; r < SIDE; r += THREADS / SIDE) {
            const long long slow = s + r, fast = f + lane;
            const bool read =
                slow < n && fast < n && (a.lu || (above ? fast >= slow : fast <= slow));
            square[r][lane] = read ? from[slow * slow_stride + fast * fast_stride] : (REAL)0;
            if (read && straight)
                to[fast + slow * n] = square[r][lane];
        }
        __syncthreads();
        for (int r = first; turned && r < SIDE; r += THREADS / SIDE) {
            const long long slow = s + lane, fast = f + r;
            if (slow < n && fast < n && (a.lu || (above ? fast >= slow : fast <= slow)))
                to[slow + fast * n] = square[lane][r];
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) solve_norm(const __grid_constant__ params a)
{
    const long long item = item_of(a), n = a.n;
    const REAL *m = (const REAL *)a.matrix + item * n * n;
    double columns = 0, rows = 0;

    for (long long j = part_of(a); j < n; j += a.parts) {
        double sum = 0;
        for (long long i = threadIdx.x; i < n; i += THREADS)
            sum += fabs((double)m[i + j * n]);
        sum = block_total(sum);
        columns = sum > columns || sum != sum ? sum : columns;
    }
    if (a.lu)
        for (long long i = part_of(a) * THREADS + threadIdx.x; i < n; i += a.parts * THREADS) {
            double sum = 0;
            for (long long j = 0; j < n; j++)
                sum += fabs((double)m[i + j * n]);
            rows = sum > rows || sum != sum ? sum : rows;
        }
    rows = block_most(rows);
    if (threadIdx.x == 0) {
        atomicMax(&a.state[item].norm[0], bits_of(columns));
        atomicMax(&a.state[item].norm[1], bits_of(a.lu ? rows : columns));
    }
}

static __device__ double norm_of(const struct solve_state &s, int which)
{
    return __longlong_as_double((long long)s.norm[which]);
}

/* REAL is the factor's dtype. */
extern "C" __global__ void __launch_bounds__(THREADS)
    solve_add_jitter(const __grid_constant__ params a)
{
    const long long item = item_of(a), n = a.n, each = n * n * (a.dtype == DEVICE_F64 ? 8 : 4);
    const struct solve_state *s = &a.state[item];
    const double scale = a.low ? ldexp(1.0, -s->exponent) : 1, shift = a.jitter;
    const char *from = a.matrix + item * each;
    REAL *to = (REAL *)(a.lifted + item * each);

    if (!a.go[item])
        return;
    for (long long e = part_of(a) * THREADS + threadIdx.x; e < n * n; e += a.parts * THREADS) {
        double v = load_double(a.dtype, from, e);
        if (shift != 0 && e % (n + 1) == 0)
            v += shift;
        to[e] = (REAL)(v * scale);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_add_accepted_jitter(const __grid_constant__ params a)
{
    const long long item = item_of(a), n = a.n;
    REAL *m = (REAL *)a.matrix + item * n * n;

    for (long long i = part_of(a) * THREADS + threadIdx.x; i < n; i += a.parts * THREADS)
        m[i * (n + 1)] = (REAL)((double)m[i * (n + 1)] + a.state[item].jitter);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_verdict(const __grid_constant__ params a)
{
    const long long item = blockIdx.x, n = a.n;
    const REAL *m = (const REAL *)(a.lifted + item * n * n * (a.dtype == DEVICE_F64 ? 8 : 4));
    const int code = a.code[item];
    const long long limit = code > 0 ? code - 1 : n; /* beyond it nothing was factorised */
    int bad = code > 0 ? code : SOLVE_NONE;

    for (long long k = threadIdx.x; k < limit; k += THREADS) {
        const REAL d = m[k * (n + 1)];
        if ((a.lu ? d == 0 || d != d : !(d > 0)) && k + 1 < bad)
            bad = (int)k + 1;
    }
    if (bad != SOLVE_NONE)
        atomicMin(&a.state[item].bad, bad);
    for (long long k = threadIdx.x; a.lu && k < n; k += THREADS)
        a.exchanges[item * n + k] = (int)a.outside[item * n + k];
}

static __device__ void begin(const params &a, struct solve_state *s)
{
    s->norm[0] = s->norm[1] = 0;
    s->jitter = s->rcond = s->backward = 0;
    s->steps = s->low = s->exponent = 0;
    s->estimate = s->other = 0;
    s->bad = SOLVE_NONE;
    s->open = 1;
}

/* An item without a factor is to get one. */
static __device__ int try_one(const params &a, struct solve_state *s)
{
    const double norm = norm_of(*s, 1) + a.jitter;

    if (!s->open)
        return 0;
    s->bad = SOLVE_NONE;
    s->low = (int)a.low;
    s->jitter = a.jitter;
    if (a.low) {
        int exponent = 0;
        if (norm < INF_OF)
            frexp(norm, &exponent);
        s->exponent = exponent < -1000 ? -1000 : exponent; /* 2^1000 can be multiplied by */
    }
    return 1;
}

/* What became of it. */
static __device__ void judge(const params &a, struct solve_state *s)
{
    const double norm = norm_of(*s, 0);

    if (a.lu && s->bad == SOLVE_NONE && norm != norm) /* cuSOLVER's LU loses it */
        s->bad = (int)a.n;
    s->open = s->bad != SOLVE_NONE;
}

static __device__ int in_mode(const params &a, long long item, long long mode)
{
    int found = 0;

    for (long long c = 0; c < a.width; c++)
        found += a.column[item * a.width + c].mode == mode;
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS) solve_decide(const __grid_constant__ params a)
{
    const long long item = blockIdx.x * (long long)THREADS + threadIdx.x;

    if (item >= a.count)
        return;
    struct solve_state *s = &a.state[item];
    const bool good = a.what != SOLVE_BEGIN && !s->open;
    switch (a.what) {
    case SOLVE_BEGIN:
        begin(a, s);
        break;
    case SOLVE_TRY:
        a.go[item] = try_one(a, s);
        break;
    case SOLVE_VERDICTS:
        if (s->open)
            judge(a, s);
        break;
    case SOLVE_SETTLED:
        s->norm[0] = s->norm[1] = 0; /* of A + s I */
        break;
    case SOLVE_CHOOSE:
        a.go[item] = good && s->low == a.low;
        break;
    case SOLVE_RESCUE:
        a.go[item] = good && s->low && in_mode(a, item, SOLVE_WIDE);
        if (a.go[item]) {
            s->low = 0;
            s->bad = SOLVE_NONE;
        }
        break;
    case SOLVE_RESCUED:
        s->open = s->bad != SOLVE_NONE;
        a.go[item] = !s->open && in_mode(a, item, SOLVE_WIDE);
        break;
    default:
        a.go[item] = good ? in_mode(a, item, a.mode) : 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_store_reports(const __grid_constant__ params a)
{
    const long long item = blockIdx.x, n = a.n;
    const struct solve_state *s = &a.state[item];
    int *pivots = (int *)a.pivots.data;

    if (threadIdx.x == 0) {
        put(a.rcond, a.dtype, place_of(a, a.rcond, item), s->open ? 0 : n == 0 ? 1 : s->rcond);
        put(a.jittered, a.dtype, place_of(a, a.jittered, item), s->open ? NAN_OF : s->jitter);
    }
    if (pivots)
        for (long long k = threadIdx.x; k < n; k += THREADS)
            pivots[place_of(a, a.pivots, item) + k * a.pivots.col_stride] =
                a.exchanges[item * n + k];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_store_factor(const __grid_constant__ params a)
{
    const long long item = item_of(a), n = a.n, at = place_of(a, a.factor, item);
    const long long row_stride = a.flip ? a.factor.col_stride : a.factor.row_stride;
    const long long col_stride = a.flip ? a.factor.row_stride : a.factor.col_stride;
    const struct solve_state *s = &a.state[item];
    const REAL *m = (const REAL *)a.lifted + item * n * n;
    REAL *to = (REAL *)a.factor.data;

    for (long long j = part_of(a); j < n; j += a.parts)
        for (long long i = threadIdx.x; i < n; i += THREADS)
            if (a.lu || i >= j) {
                REAL v = m[i + j * n];
                /* A factor in which NaN was lost says so when it is given back. */
                if (i == j && s->open && i == s->bad - 1 && (a.lu ? v != 0 : v > 0))
                    v = (REAL)NAN_OF;
                to[at + i * row_stride + j * col_stride] = v;
            }
}

extern "C" __global__ void __launch_bounds__(THREADS) solve_move(const __grid_constant__ params a)
{
    const long long item = item_of(a), n = a.n, out = a.what;
    const struct device_view &side = out ? a.x : a.b;
    const long long at = place_of(a, side, item);
    REAL *data = (REAL *)side.data;
    REAL *block = (REAL *)(out && a.refine ? a.solution : a.block) + item * n * a.width;

    if (a.state[item].open)
        return;
    for (long long e = part_of(a) * THREADS + threadIdx.x; e < n * a.width;
         e += a.parts * THREADS) {
        const long long i = e % n, j = e / n;
        REAL *outside = &data[at + i * side.row_stride + (a.first + j) * side.col_stride];
        if (out)
            *outside = block[e];
        else
            block[e] = *outside;
    }
}

/* last: the end of the call, when no item can fail any more. */
extern "C" __global__ void __launch_bounds__(THREADS) solve_result(const __grid_constant__ params a)
{
    const long long item = item_of(a), n = a.n, at = place_of(a, a.x, item);
    struct solve_state *s = &a.state[item];
    REAL *x = (REAL *)a.x.data;

    for (long long e = part_of(a) * THREADS + threadIdx.x; a.last && s->open && e < n * a.width;
         e += a.parts * THREADS)
        x[at + e % n * a.x.row_stride + e / n * a.x.col_stride] = (REAL)NAN_OF;
    if (part_of(a) != 0 || threadIdx.x != 0)
        return;
    if (a.last && a.info.data)
        ((int *)a.info.data)[place_of(a, a.info, item)] = s->open ? s->bad : 0;
    if (!a.last || s->open)
        put(a.backward, DEVICE_F64, place_of(a, a.backward, item), s->open ? NAN_OF : s->backward);
    if (!a.last && a.refinings.data)
        ((int *)a.refinings.data)[place_of(a, a.refinings, item)] = s->open ? 0 : s->steps;
    s->backward = 0; /* for the next item of shared */
    s->steps = 0;
}
