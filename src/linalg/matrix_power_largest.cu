/*
 * matrix_power_largest.cu - the largest eigenvalue by Lanczos, and what an iteration begins with
 *
 * Lanczos without reorthogonalisation (Golub and Van Loan, 10.1): the largest Ritz value needs
 * none, and never exceeds the largest eigenvalue but by rounding.  Of the three vectors of an item
 * the turn'th step works on number turn % 3.
 *
 * matrix_power_lanczos_step: makes the product orthogonal to the last two vectors.
 * matrix_power_matvec: the product of the matrix and the last vector; a warp a row.
 * matrix_power_bound: the largest Ritz value, then the ridge, and the numbers of the method.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power.cuh"

#include "block_sum.cuh"

static __device__ REAL *vector_of(const params &a, long long item, long long turn)
{
    return (REAL *)a.vectors + (item * 3 + turn % 3) * a.n;
}

/* In every thread; sums is used again by the next call. */
static __device__ double dot(const params &a, double *sums, const REAL *v, const REAL *w)
{
    double sum = 0;

    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        sum += (double)v[i] * (double)w[i];
    block_sum(sums, (int)threadIdx.x, sum);
    __syncthreads();
    sum = sums[0];
    __syncthreads();
    return sum;
}

/* A number in (-1/2, 1/2) that looks random: Fibonacci hashing. */
static __device__ double noise(long long i)
{
    unsigned long long h = (unsigned long long)(i + 1) * 0x9E3779B97F4A7C15ull;

    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9ull;
    return (double)(h >> 11) * 0x1p-53 - 0.5;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_lanczos_step(const __grid_constant__ params a)
{
    __shared__ double sums[THREADS];
    const long long item = blockIdx.x, k = a.turn;
    struct power_state *s = &a.state[item];
    REAL *w = vector_of(a, item, k);
    const REAL *v = vector_of(a, item, k + 2), *u = vector_of(a, item, k + 1);
    double alpha = 0, beta, length;

    if (s->settled) /* then beta[k - 2] was never written */
        return;
    beta = k > 1 ? s->beta[k - 2] : 0;
    if (k > 0)
        alpha = dot(a, sums, v, w);
    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        w[i] =
            k == 0
                ? (REAL)noise(i)
                : (REAL)((double)w[i] - alpha * (double)v[i] - (k > 1 ? beta * (double)u[i] : 0));
    __syncthreads();
    length = sqrt(dot(a, sums, w, w));
    if (threadIdx.x == 0 && k > 0) {
        s->alpha[k - 1] = alpha;
        s->beta[k - 1] = length;
        s->steps = (int)k;
        s->settled = !(length > 1e-6 * fabs(s->alpha[0])); /* an invariant subspace */
    }
    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        w[i] = (REAL)((double)w[i] / length);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_matvec(const __grid_constant__ params a)
{
    const int warps = THREADS / 32, lane = (int)threadIdx.x % 32;
    const long long item = item_of(a);
    const REAL *b = matrix_of(a, a.from, item), *v = vector_of(a, item, a.turn);
    REAL *w = vector_of(a, item, a.turn + 1);

    if (a.state[item].settled)
        return;
    for (long long i = part_of(a) * warps + threadIdx.x / 32; i < a.n; i += a.parts * warps) {
        double sum = 0;
        for (long long j = lane; j < a.n; j += 32)
            sum += (double)b[j + i * a.ld] * (double)v[j];
        for (int half = 16; half > 0; half /= 2)
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, half);
        if (lane == 0)
            w[i] = (REAL)sum;
    }
}

/* How many eigenvalues of the tridiagonal matrix, times sign, lie below x: the negative pivots of
 * its elimination (Sturm; Golub and Van Loan, 8.4.1). */
static __device__ int below(const struct power_state *s, double sign, double x)
{
    double pivot = 1;
    int negative = 0;

    for (int i = 0; i < s->steps; i++) {
        pivot = sign * s->alpha[i] - x - (i > 0 ? s->beta[i - 1] * s->beta[i - 1] / pivot : 0);
        if (pivot == 0)
            pivot = 0x1p-1000;
        negative += pivot < 0;
    }
    return negative;
}

/* The largest of them; the same in every lane of a warp, each of which tries one of 32 points
 * between. */
static __device__ double largest_ritz(const struct power_state *s, double sign)
{
    double low = INF_OF, high = -INF_OF;

    for (int i = 0; i < s->steps; i++) { /* Gershgorin's discs */
        double radius =
            (i > 0 ? fabs(s->beta[i - 1]) : 0) + (i < s->steps - 1 ? fabs(s->beta[i]) : 0);
        low = fmin(low, sign * s->alpha[i] - radius);
        high = fmax(high, sign * s->alpha[i] + radius);
    }
    for (int round = 0; round < 11; round++) {
        const double width = (high - low) / 33;
        const int place = __ffs((int)__ballot_sync(
            0xFFFFFFFF, below(s, sign, low + ((int)threadIdx.x + 1) * width) == s->steps));
        high = place ? low + place * width : high;
        low = place ? high - width : low + 32 * width;
    }
    return high;
}

/* Of A' are the eigenvalues at its ends. */
static __device__ void add_ridge(const params &a, long long item, double smallest, double largest)
{
    struct power_state *s = &a.state[item];
    const double ridge = ridge_of(a, item);

    if (ridge < 0)
        s->outcome = s->outcome ? s->outcome : POWER_NOT_FINITE;
    s->shift = ridge_for(a, s, fmax(ridge, 0.), smallest, largest);
    s->largest = largest + s->shift;
    if (s->outcome || s->largest > 0)
        return;
    if (a.numerator > 0 && s->most == 0 && s->shift == 0)
        s->zero = 1;
    else if (a.numerator < 0 || a.denominator > 1)
        s->outcome = POWER_NOT_DEFINITE;
}

extern "C" __global__ void __launch_bounds__(32)
    matrix_power_bound(const __grid_constant__ params a)
{
    const long long item = blockIdx.x;
    struct power_state *s = &a.state[item];
    const double largest = largest_ritz(s, 1), q = (double)a.denominator;
    const double smallest = a.least_ridge > 0 ? -largest_ritz(s, -1) : 0;

    if (threadIdx.x != 0)
        return;
    add_ridge(a, item, smallest, largest);
    s->done = s->outcome || s->zero;
    s->before = INF_OF;
    if (a.method == POWER_NEWTON) {
        s->first = (1 + q) / (2 * s->largest);
        s->last = pow(s->first, 1 / q);
        s->step[0] = 1 + 1 / q, s->step[1] = -1 / q;
    } else if (a.method == POWER_SCHULZ) {
        s->first = 1 / s->largest;
        s->last = pow(s->largest, a.numerator < 0 ? -1 / q : 1 / q);
        s->step[0] = 1.5, s->step[1] = -0.5;
    } else {
        s->last = 1;
        if (!s->done)
            minimax_begin(a, s);
    }
}
