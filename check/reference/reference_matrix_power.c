/*
 * reference_matrix_power.c - powers of symmetric matrices by Jacobi's method, in long double
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void reference_matrix_power(const struct reference_matrix_power *p, long double *a, long double *v,
                            long double *w, long double *x)
{
    int64_t n = p->n;
    long double power =
        p->power != 0 ? (long double)p->power : (long double)p->numerator / p->denominator;
    long double ridge = p->ridge, low = 0;

    reference_eigh(n, a, w, v);
    if (p->relative && n > 0)
        ridge *= fmaxl(w[n - 1], 0);
    if (p->factor && n > 0)
        ridge = fmaxl(ridge, (long double)n * 0x1p-50L * fmaxl(w[n - 1], 0));
    if (p->factor && ridge == 0)
        ridge = 1;
    if (n > 0)
        low = (long double)p->floor * (fmaxl(w[n - 1], 0) + ridge);
    memset(x, 0, (size_t)(n * n) * sizeof *x);
    for (int64_t k = 0; k < n; k++) {
        long double f = powl(fmaxl(fmaxl(w[k], 0) + ridge, low), power);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                x[i * n + j] += v[i * n + k] * f * v[j * n + k];
    }
}

/* r <- a r (or r a); t is n by n. */
static void multiply(int64_t n, const long double *a, bool from_left, long double *r,
                     long double *t)
{
    const long double *left = from_left ? a : r, *right = from_left ? r : a;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += left[i * n + k] * right[k * n + j];
            t[i * n + j] = sum;
        }
    memcpy(r, t, (size_t)(n * n) * sizeof *r);
}

/* Row i of x^q to t, by one vector after the other; t has room for 2 n. */
static void row_of_power(int64_t n, const long double *x, int q, int64_t i, long double *t)
{
    for (int64_t l = 0; l < n; l++)
        t[l] = x[i * n + l];
    for (int s = 1; s < q; s++) {
        for (int64_t l = 0; l < n; l++) {
            t[n + l] = 0;
            for (int64_t m = 0; m < n; m++)
                t[n + l] += t[m] * x[m * n + l];
        }
        memcpy(t, t + n, (size_t)n * sizeof *t);
    }
}

long double reference_matrix_power_error(const struct reference_matrix_power *p,
                                         const long double *b, const long double *x, long double *t,
                                         long double *r)
{
    int64_t n = p->n;
    int k = abs(p->numerator), q = p->denominator, excess = 0;
    int x_taken = 0, b_taken = 0;
    long double most = 0, scale = 0;

    for (int64_t i = 0; i < n * n; i++)
        r[i] = i / n == i % n;
    for (int i = 0; p->numerator > 0 && i < k; i++)
        multiply(n, b, true, r, t);
    while (p->numerator < 0 && (x_taken < q || b_taken < k)) /* in the order that gram.h tells */
        if (excess > 0) {
            multiply(n, x, x_taken++ % 2 == 0, r, t);
            excess -= k;
        } else {
            multiply(n, b, b_taken++ % 2 == 1, r, t);
            excess += q;
        }
    for (int64_t i = 0; i < n; i++) {
        if (p->numerator > 0)
            row_of_power(n, x, q, i, t);
        for (int64_t j = 0; j < n; j++) {
            long double expected = p->numerator > 0 ? t[j] : i == j;
            most = fmaxl(most, fabsl(r[i * n + j] - expected));
            scale = fmaxl(scale, fabsl(r[i * n + j]));
        }
    }
    return p->numerator > 0 && scale > 0 ? most / scale : most;
}
