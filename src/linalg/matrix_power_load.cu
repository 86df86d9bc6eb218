/*
 * matrix_power_load.cu - a matrix of the caller's into scratch, the power of its eigenvalues, and
 * the result back
 *
 * matrix_power_begin: nothing is known of an item.
 * matrix_power_measure: the largest magnitude of the triangle that is read.
 * matrix_power_load: A' = 2^-exponent A with both triangles, its largest magnitude in [2^-q, 2^q)
 * for the denominator q; an item that holds NaN or infinity becomes I.
 * matrix_power_values: whether the power exists, and the square roots of those of the eigenvalues
 * that cuSOLVER found.
 * matrix_power_columns: eigenvectors times these, so that the result is V V^T.
 * matrix_power_finish: the mean of both triangles, rounded as the caller's dtype has it.
 * matrix_power_verdict: the error estimate and info.
 * matrix_power_store: the result times its power of two; NaN or nothing for an item that failed.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power.cuh"

#define INFINITE 0x7FF0000000000000ull /* the bits of infinity; those of NaN are above */

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_begin(const __grid_constant__ params a)
{
    const long long item = blockIdx.x * (long long)THREADS + threadIdx.x;

    if (item >= a.count)
        return;
    a.state[item].most = 0;
    a.state[item].size[0] = a.state[item].size[1] = a.state[item].size[2] = 0;
    a.state[item].shift = 0;
    a.state[item].steps = a.state[item].settled = 0;
    a.state[item].exponent = a.state[item].outcome = a.state[item].done = a.state[item].zero = 0;
}

/* Element fast of line slow of the triangle, or nothing; neighbouring threads read neighbours. */
static __device__ bool find(const params &a, long long slow, long long fast, long long *i,
                            long long *j)
{
    const bool by_rows = llabs(a.a.col_stride) <= llabs(a.a.row_stride);

    *i = by_rows ? slow : fast;
    *j = by_rows ? fast : slow;
    return a.upper ? *i <= *j : *i >= *j;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_measure(const __grid_constant__ params a)
{
    const long long item = item_of(a), at = place_of(a, a.a, item);
    unsigned long long most = 0;
    long long i, j;

    for (long long slow = first_column(a); slow < a.n; slow += columns_apart(a))
        for (long long fast = first_row(a); fast < a.n; fast += a.width)
            if (find(a, slow, fast, &i, &j)) {
                const unsigned long long mine = magnitude(
                    load_double(a.dtype, a.a.data, at + i * a.a.row_stride + j * a.a.col_stride));
                most = mine > most ? mine : most;
            }
    largest_to(&a.state[item].most, most);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_load(const __grid_constant__ params a)
{
    const long long item = item_of(a), at = place_of(a, a.a, item);
    const unsigned long long most = a.state[item].most;
    REAL *to = matrix_of(a, a.to, item);
    int exponent = 0;
    long long i, j;

    if (most < INFINITE)
        frexp(__longlong_as_double((long long)most), &exponent);
    exponent -= exponent % (int)a.denominator; /* so that its root is a power of two as well */
    for (long long slow = first_column(a); slow < a.n; slow += columns_apart(a))
        for (long long fast = first_row(a); fast < a.n; fast += a.width)
            if (find(a, slow, fast, &i, &j)) {
                const double value =
                    load_double(a.dtype, a.a.data, at + i * a.a.row_stride + j * a.a.col_stride);
                const REAL kept = most < INFINITE ? (REAL)ldexp(value, -exponent) : (REAL)(i == j);
                to[i + j * a.ld] = to[j + i * a.ld] = kept;
            }
    if (part_of(a) == 0 && threadIdx.x == 0) {
        a.state[item].exponent = exponent;
        if (most >= INFINITE)
            a.state[item].outcome = POWER_NOT_FINITE;
    }
}

static __device__ REAL rounded(const params &a, double v)
{
    return (REAL)(a.dtype == DEVICE_F64 ? v : (double)(float)v);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_finish(const __grid_constant__ params a)
{
    const long long item = item_of(a);
    const bool zero = a.state[item].zero;
    REAL *x = matrix_of(a, a.to, item);

    for (long long j = first_column(a); j < a.n; j += columns_apart(a))
        for (long long i = j + first_row(a); i < a.n; i += a.width) {
            const double mean = ((double)x[i + j * a.ld] + (double)x[j + i * a.ld]) / 2;
            x[i + j * a.ld] = x[j + i * a.ld] = zero ? (REAL)0 : rounded(a, mean);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_verdict(const __grid_constant__ params a)
{
    const long long item = blockIdx.x * (long long)THREADS + threadIdx.x;
    double error = NAN_OF, size[3];

    if (item >= a.count)
        return;
    struct power_state *s = &a.state[item];
    for (int i = 0; i < 3; i++)
        size[i] = __longlong_as_double((long long)s->size[i]);
    if (a.n == 0)
        error = 0;
    else if (s->outcome == POWER_DONE && a.estimate) {
        if (a.numerator < 0)
            error = size[0];
        else
            error = size[0] > 0 ? size[1] / size[0] : size[2];
        if (!(error <= a.tolerance))
            s->outcome = POWER_INEXACT;
    }
    if (a.info.data)
        ((int *)a.info.data)[place_of(a, a.info, item)] = s->outcome;
    if (a.error.data)
        store_double(a.dtype, a.error.data, place_of(a, a.error, item), error);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_store(const __grid_constant__ params a)
{
    const long long item = item_of(a), at = place_of(a, a.out, item);
    const struct power_state *s = &a.state[item];
    const bool by_rows = llabs(a.out.col_stride) <= llabs(a.out.row_stride);
    const bool good = s->outcome == POWER_DONE || s->outcome == POWER_INEXACT;
    const int exponent = a.is_real ? 0 : s->exponent / (int)a.denominator * (int)a.numerator;
    const double factor = a.is_real ? exp2(s->exponent * a.power) : 1;
    const REAL *x = matrix_of(a, a.from, item);

    if (s->outcome != POWER_DONE && a.keep)
        return;
    for (long long slow = first_column(a); slow < a.n; slow += columns_apart(a))
        for (long long fast = first_row(a); fast < a.n; fast += a.width) {
            const long long to = by_rows ? slow * a.out.row_stride + fast * a.out.col_stride
                                         : fast * a.out.row_stride + slow * a.out.col_stride;
            /* x is symmetric: its column is the caller's row */
            store_double(a.dtype, a.out.data, at + to,
                         good ? ldexp(factor * (double)x[fast + slow * a.ld], exponent) : NAN_OF);
        }
}

/* ---- By eigenvalues -------------------------------------------------------------------------- */

static __device__ double eps_of(bool wide)
{
    return wide ? 0x1p-52 : 0x1p-23;
}

/* values are ascending. */
static __device__ void check_values(const params &a, long long item, const REAL *values)
{
    struct power_state *s = &a.state[item];
    const double least = (double)values[0], most = (double)values[a.n - 1], n = (double)a.n;
    const double ridge = ridge_of(a, item);

    if (ridge < 0)
        s->outcome = s->outcome ? s->outcome : POWER_NOT_FINITE;
    if (s->outcome)
        return;
    s->shift = ridge_for(a, s, ridge, fmax(least, 0.), most);
    if (a.codes[item] != 0 || !isfinite(least) || !isfinite(most))
        s->outcome = POWER_NOT_CONVERGED;
    else if (a.least_ridge > 0 ||
             (a.floor > 0 && (a.numerator > 0 || fmax(most, 0.) + s->shift > 0)))
        return;
    else if (least < -fmax(4 * n * eps_of(a.dtype == DEVICE_F64) * fmax(most, -least), s->shift))
        s->outcome = POWER_NOT_DEFINITE;
    else if (a.numerator < 0 && fmax(least, 0.) + s->shift <=
                                    n * eps_of(sizeof(REAL) == 8) * (fmax(most, 0.) + s->shift))
        s->outcome = POWER_NOT_DEFINITE;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_values(const __grid_constant__ params a)
{
    const long long item = blockIdx.x;
    const struct power_state *s = &a.state[item];
    REAL *values = (REAL *)a.values + item * a.n;
    double low;

    if (threadIdx.x == 0)
        check_values(a, item, values);
    __syncthreads();
    low = a.floor * (fmax((double)values[a.n - 1], 0.) + s->shift);
    __syncthreads();
    for (long long i = threadIdx.x; i < a.n; i += THREADS)
        values[i] = (REAL)sqrt(pow(fmax(fmax((double)values[i], 0.) + s->shift, low), a.power));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matrix_power_columns(const __grid_constant__ params a)
{
    const long long item = item_of(a);
    const REAL *values = (const REAL *)a.values + item * a.n;
    REAL *v = matrix_of(a, a.to, item);

    for (long long j = first_column(a); j < a.n; j += columns_apart(a))
        for (long long i = first_row(a); i < a.n; i += a.width)
            v[i + j * a.ld] *= values[j];
}
