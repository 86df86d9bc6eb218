/*
 * machine_vector.h - template: columns of vectors, with sums in double
 *
 * Parameters, undefined again at the end:
 *   real         float or double
 *   NAME(f)      the name of function f for this type
 *
 * Matrices are n by columns, column-major without gaps.
 *
 * SPDX-License-Identifier: MIT
 */

/* sum of a * b.  Four sums, so that the additions overlap and errors stay small. */
static double NAME(dot)(int64_t n, const real *a, const real *b)
{
    double s[4] = {0};
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            s[l] += (double)a[i + l] * (double)b[i + l];
    for (; i < n; i++)
        s[0] += (double)a[i] * (double)b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* y += alpha x. */
static void NAME(add)(int64_t n, double alpha, const real *x, real *y)
{
    real factor = (real)alpha;

    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* y = x + beta y. */
static void NAME(turn)(int64_t n, double beta, const real *x, real *y)
{
    real factor = (real)beta;

    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] + factor * y[i];
}

#undef real
#undef NAME
