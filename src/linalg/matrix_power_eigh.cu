/*
 * matrix_power_eigh.cu - powers from the eigendecomposition that cuSOLVER gives
 *
 * matrix_power_values: whether the power exists, and the square roots of those of the eigenvalues.
 * matrix_power_columns: eigenvectors times these, so that the result is V V^T.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power.cuh"

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
    else if (least < -fmax(4 * n * eps_of(a.wide) * fmax(most, -least), s->shift))
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
