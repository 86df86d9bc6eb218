/*
 * reference_eigh.c - symmetric eigenproblems by Jacobi's rotations, and how wrong pairs are
 *
 * Matrices are plain row-major arrays of doubles.  Norms are 1-norms, the largest sum of magnitudes
 * of a column, as in LAPACK's tests.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

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

/* Columns p and q of a, or rows where by_rows is set, turned by the angle with cosine c. */
static void turn(int64_t n, double *a, const int64_t pq[2], const double cs[2], int by_rows)
{
    for (int64_t i = 0; i < n; i++) {
        double *x = by_rows ? &a[pq[0] * n + i] : &a[i * n + pq[0]];
        double *y = by_rows ? &a[pq[1] * n + i] : &a[i * n + pq[1]];
        double p = *x, q = *y;
        *x = cs[0] * p - cs[1] * q;
        *y = cs[1] * p + cs[0] * q;
    }
}

void reference_eigh(int64_t n, double *a, double *w, double *v)
{
    double scale = norm(n, a);

    for (int64_t i = 0; i < n * n; i++)
        v[i] = i % (n + 1) == 0;
    for (int rotated = 1, sweep = 0; rotated && sweep < 60; sweep++) {
        rotated = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double apq = a[p * n + q], d = a[q * n + q] - a[p * n + p];
                double t = 2 * apq / (fabs(d) + hypot(d, 2 * apq)) * (d < 0 ? -1 : 1);
                double c = 1 / sqrt(1 + t * t);
                if (fabs(apq) <= 1e-17 * scale)
                    continue;
                rotated = 1;
                turn(n, a, (int64_t[]){p, q}, (double[]){c, t * c}, 0);
                turn(n, a, (int64_t[]){p, q}, (double[]){c, t * c}, 1);
                turn(n, v, (int64_t[]){p, q}, (double[]){c, t * c}, 0);
            }
    }
    for (int64_t i = 0; i < n; i++)
        w[i] = a[i * n + i];
    for (int64_t i = 0; i < n; i++) /* ascending */
        for (int64_t j = i + 1; j < n; j++) {
            double kept = w[i];
            if (w[j] >= w[i])
                continue;
            w[i] = w[j];
            w[j] = kept;
            for (int64_t k = 0; k < n; k++) {
                kept = v[k * n + i];
                v[k * n + i] = v[k * n + j];
                v[k * n + j] = kept;
            }
        }
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
