/*
 * reference_eigh.c - symmetric eigenproblems, and how wrong pairs are
 *
 * Pairs by cyclic Jacobi rotations (Golub and Van Loan, Matrix Computations, 8.5); values alone, of
 * larger matrices, by bisection of a tridiagonal one (8.3 and 8.4).  In long double, so that they
 * can judge results in double.  Matrices are plain row-major arrays.  Norms of the measures are
 * 1-norms, the largest sum of magnitudes of a column, as in LAPACK's tests.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <float.h>
#include <math.h>

/* a <- J^T a J, v <- v J with the rotation of rows and columns p and q that clears a[p][q]. */
static void rotate(int64_t n, long double *a, long double *v, int64_t p, int64_t q)
{
    long double apq = a[p * n + q], theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    long double t = (theta < 0 ? -1 : 1) / (fabsl(theta) + hypotl(theta, 1));
    long double c = 1 / hypotl(t, 1), s = t * c;

    for (int64_t i = 0; i < n; i++) {
        long double x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
    for (int64_t i = 0; i < n; i++) {
        long double x = a[p * n + i], y = a[q * n + i];
        a[p * n + i] = c * x - s * y;
        a[q * n + i] = s * x + c * y;
        x = v[i * n + p], y = v[i * n + q];
        v[i * n + p] = c * x - s * y;
        v[i * n + q] = s * x + c * y;
    }
}

static void exchange(long double *a, long double *b)
{
    long double kept = *a;

    *a = *b;
    *b = kept;
}

void reference_eigh(int64_t n, long double *a, long double *w, long double *v)
{
    long double norm = 0;
    bool rotated = true;

    for (int64_t i = 0; i < n * n; i++) {
        v[i] = i / n == i % n;
        norm = fmaxl(norm, fabsl(a[i]));
    }
    for (int sweep = 0; rotated && sweep < 60; sweep++) {
        rotated = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                long double scale = sqrtl(fabsl(a[p * n + p])) * sqrtl(fabsl(a[q * n + q]));
                if (fabsl(a[p * n + q]) <= LDBL_EPSILON * fmaxl(scale, 1e-6L * norm))
                    continue; /* right to eps, or far below what rounding leaves */
                rotate(n, a, v, p, q);
                rotated = true;
            }
    }
    for (int64_t i = 0; i < n; i++)
        w[i] = a[i * n + i];
    for (int64_t i = 0; i < n; i++) /* ascending */
        for (int64_t j = i + 1; j < n; j++)
            if (w[j] < w[i]) {
                exchange(&w[i], &w[j]);
                for (int64_t k = 0; k < n; k++)
                    exchange(&v[k * n + i], &v[k * n + j]);
            }
}

/* H a H with the reflection H that clears row k of a beyond its element k + 1; v is scratch. */
static void reflect(int64_t n, long double *a, int64_t k, long double *v)
{
    long double square = 0, length, product = 0, *p = v + n;

    for (int64_t i = k + 1; i < n; i++) {
        v[i] = a[k * n + i];
        square += v[i] * v[i];
    }
    length = sqrtl(square);
    if (length == 0)
        return;
    v[k + 1] += v[k + 1] < 0 ? -length : length;
    square = 2 * (square + length * fabsl(a[k * n + k + 1])); /* v.v */
    for (int64_t i = k; i < n; i++) {
        p[i] = 0;
        for (int64_t j = k + 1; j < n; j++)
            p[i] += 2 * a[i * n + j] * v[j] / square;
        product += i > k ? p[i] * v[i] / square : 0;
    }
    for (int64_t i = k + 1; i < n; i++)
        p[i] -= product * v[i];
    v[k] = 0;
    for (int64_t i = k; i < n; i++)
        for (int64_t j = k; j < n; j++)
            a[i * n + j] -= v[i] * p[j] + p[i] * v[j];
}

/* How many eigenvalues of a tridiagonal matrix are below x: negative pivots of it less x. */
static int64_t count_below(int64_t n, const long double *a, long double x)
{
    long double pivot = 1;
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++) {
        long double off = i > 0 ? a[i * n + i - 1] : 0;
        pivot = a[i * n + i] - x - off * off / pivot;
        if (pivot == 0)
            pivot = LDBL_EPSILON * LDBL_EPSILON * (fabsl(x) + LDBL_MIN);
        count += pivot < 0;
    }
    return count;
}

void reference_eigenvalues(int64_t n, long double *a, long double *v, double *w)
{
    long double radius = 0;

    for (int64_t k = 0; k + 2 < n; k++)
        reflect(n, a, k, v);
    for (int64_t i = 0; i < n; i++)
        radius = fmaxl(radius, fabsl(a[i * n + i]) + 2 * fabsl(i > 0 ? a[i * n + i - 1] : 0) +
                                   2 * fabsl(i + 1 < n ? a[(i + 1) * n + i] : 0));
    for (int64_t j = 0; j < n; j++) {
        long double low = -radius, high = radius;
        for (int step = 0; step < 100 && low < high; step++) {
            long double middle = low + (high - low) / 2;
            if (count_below(n, a, middle) > j)
                high = middle;
            else
                low = middle;
        }
        w[j] = (double)(low + (high - low) / 2);
    }
}

static double norm(int64_t n, const double *a)
{
    double most = 0;

    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += fabs(a[i * n + j]);
        most = sum > most ? sum : most;
    }
    return most;
}

double reference_eigh_residual(int64_t n, int64_t k, const double *a, const double *w,
                               const double *v)
{
    double most = 0, scale = norm(n, a);

    for (int64_t j = 0; j < k; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double off = -w[j] * v[i * k + j];
            for (int64_t l = 0; l < n; l++)
                off += a[i * n + l] * v[l * k + j];
            sum += fabs(off);
        }
        if (isnan(sum))
            return INFINITY;
        most = sum > most ? sum : most;
    }
    return scale > 0 ? most / scale : most;
}

double reference_orthogonality(int64_t n, int64_t k, const double *v)
{
    double most = 0;

    for (int64_t j = 0; j < k; j++) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            double product = i == j ? -1 : 0;
            for (int64_t l = 0; l < n; l++)
                product += v[l * k + i] * v[l * k + j];
            sum += fabs(product);
        }
        if (isnan(sum))
            return INFINITY;
        most = sum > most ? sum : most;
    }
    return most;
}
