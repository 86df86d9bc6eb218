/*
 * solve_estimate.cu - an estimate of |A^-1|_1 with the trips of LAPACK's, and none too many
 *
 * Hager's method as Higham made it (Higham, FORTRAN codes for estimating the one-norm of a real or
 * complex matrix, ACM Trans. Math. Softw. 14, 1988): A^-1 x for x = 1/n, its signs s, A^-T s, the
 * unit vector at its largest element, and so on, until nothing grows.  A vector of alternating
 * signs goes with the first.  The launches are always as many; an item that is done has go = 0.
 *
 * solve_estimate: what stands between two solves, a block an item.
 *
 * Parameters (-D): REAL.  It is the factor's dtype.
 *
 * SPDX-License-Identifier: MIT
 */
#include "solve_options.cuh"

/* The place of the largest magnitude, the first of several. */
static __device__ long long place_of_most(const REAL *x, long long n)
{
    __shared__ double size[THREADS];
    __shared__ long long place[THREADS];
    double most = -1;
    long long best = 0;

    for (long long i = threadIdx.x; i < n; i += THREADS)
        if (fabs((double)x[i]) > most)
            most = fabs((double)x[i]), best = i;
    size[threadIdx.x] = most;
    place[threadIdx.x] = best;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            const int other = (int)threadIdx.x + half;
            if (size[other] > size[threadIdx.x] ||
                (size[other] == size[threadIdx.x] && place[other] < place[threadIdx.x])) {
                size[threadIdx.x] = size[other];
                place[threadIdx.x] = place[other];
            }
        }
    }
    __syncthreads();
    best = place[0];
    __syncthreads();
    return best;
}

static __device__ double sum_of(const REAL *x, long long n)
{
    double mine = 0;

    for (long long i = threadIdx.x; i < n; i += THREADS)
        mine += fabs((double)x[i]);
    return block_total(mine);
}

/* x becomes its signs; true if they are those of the last time. */
static __device__ bool take_signs(REAL *x, signed char *signs, long long n, bool first)
{
    double changed = first;

    for (long long i = threadIdx.x; i < n; i += THREADS) {
        const signed char sign = x[i] >= 0 ? 1 : -1;
        if (first || sign != signs[i])
            changed = 1;
        signs[i] = sign;
        x[i] = sign;
    }
    return block_most(changed) == 0;
}

static __device__ void start(REAL *x, REAL *alternating, long long n)
{
    for (long long i = threadIdx.x; i < n; i += THREADS) {
        const double v = n > 1 ? 1 + (double)i / (double)(n - 1) : 1;
        x[i] = (REAL)(1 / (double)n);
        alternating[i] = (REAL)(i % 2 ? -v : v);
    }
}

/* After A^-1 x: true if the estimate has not grown, or no sign has changed. */
static __device__ bool after_solve(struct solve_state *s, REAL *x, signed char *signs, long long n,
                                   bool first)
{
    const double sum = sum_of(x, n), before = s->estimate;
    const bool same = take_signs(x, signs, n, first);

    __syncthreads();
    if (threadIdx.x == 0 && (first || sum > before))
        s->estimate = sum;
    return !first && (same || !(sum > before));
}

/* After A^-T s: true if its largest element is where the last unit vector was. */
static __device__ bool after_transposed(struct solve_state *s, REAL *x, long long n)
{
    const long long most = place_of_most(x, n);
    const bool same = s->turns > 0 && fabs(x[s->place]) == fabs(x[most]);

    __syncthreads();
    for (long long i = threadIdx.x; i < n; i += THREADS)
        x[i] = i == most;
    if (threadIdx.x == 0) {
        s->place = (int)most;
        s->turns++;
    }
    return same;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    solve_estimate(const __grid_constant__ params a)
{
    const long long item = blockIdx.x, n = a.n;
    struct solve_state *s = &a.state[item];
    REAL *x = (REAL *)a.probe + item * n * 2;
    signed char *signs = (signed char *)a.signs + item * n;
    bool done = false;

    if (a.what == SOLVE_ESTIMATED) {
        const double norm = __longlong_as_double((long long)s->norm[a.flip]);
        const double scaled = s->low ? ldexp(norm, -s->exponent) : norm;
        const double inverse = fmax(s->estimate, s->other);
        if (threadIdx.x == 0 && !s->open && s->low == a.low)
            s->rcond = inverse > 0 && scaled > 0 ? 1 / inverse / scaled : 0;
        return;
    }
    if (!a.go[item])
        return;
    if (a.what == SOLVE_ESTIMATE_BEGIN) {
        start(x, x + n, n);
        if (threadIdx.x == 0)
            s->turns = 0;
        return;
    }
    if (a.what == SOLVE_ESTIMATE_FIRST) {
        const double other = sum_of(x + n, n);
        if (threadIdx.x == 0)
            s->other = 2 * other / (3 * (double)n);
        done = after_solve(s, x, signs, n, true) || n == 1;
    } else if (a.what == SOLVE_ESTIMATE_SOLVED) {
        done = after_solve(s, x, signs, n, false);
    } else {
        done = after_transposed(s, x, n);
    }
    __syncthreads();
    if (threadIdx.x == 0 && done)
        a.go[item] = 0;
}
