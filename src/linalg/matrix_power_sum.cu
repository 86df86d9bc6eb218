/*
 * matrix_power_sum.cu - polynomials of degree 2 of matrices
 *
 * matrix_power_sum: to = factor[0] I + factor[1] from + factor[2] other; I for an item that is
 * done.
 *
 * Parameters (-D): REAL.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power.cuh"

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
