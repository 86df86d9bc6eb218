/*
 * reference_soap.c - SOAP of one tensor, as the paper and its authors' program have it
 *
 * Vyas et al., SOAP: Improving and Stabilizing Shampoo using Adam, 2024, algorithm 3.  Tensors are
 * plain row-major arrays; every product goes along the first dimension and leaves it last, so that
 * one round over all dimensions brings them back in order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <string.h>

enum {
    MOST = REFERENCE_SOAP_MOST
};

static int64_t count(const struct reference_soap *s)
{
    int64_t n = 1;

    for (int k = 0; k < s->order; k++)
        n *= s->shape[k];
    return n;
}

/* x, whose first dimension is k, with basis k (or its transpose) along it; it becomes the last. */
static void turn(const struct reference_soap *s, int k, bool back, double *x)
{
    double t[MOST];
    int64_t n = s->shape[k], rest = count(s) / n;

    for (int64_t r = 0; r < rest; r++)
        for (int64_t j = 0; j < n; j++) {
            double sum = s->basis[k] ? 0 : x[j * rest + r];
            for (int64_t i = 0; s->basis[k] && i < n; i++)
                sum += x[i * rest + r] * s->q[k][back ? j * n + i : i * n + j];
            t[r * n + j] = sum;
        }
    memcpy(x, t, (size_t)(n * rest) * sizeof *x);
}

static void project(const struct reference_soap *s, bool back, double *x)
{
    for (int k = 0; k < s->order; k++)
        turn(s, k, back, x);
}

/* gg = beta gg + (1 - beta) (sum over all indices but the k'th of g g) */
static void accumulate(struct reference_soap *s, int k, const double *g)
{
    int64_t n = s->shape[k], after = 1, all = count(s);
    double sum[MOST] = {0};

    for (int d = k + 1; d < s->order; d++)
        after *= s->shape[d];
    for (int64_t e = 0; e < all; e++)
        for (int64_t j = 0; j < n; j++) {
            int64_t i = e / after % n;
            sum[i * n + j] += g[e] * g[e + (j - i) * after];
        }
    for (int64_t i = 0; i < n * n; i++)
        s->gg[k][i] = s->shampoo_beta * s->gg[k][i] + (1 - s->shampoo_beta) * sum[i];
}

/* The eigenvectors of gg, those of the largest eigenvalues first. */
static void first_basis(struct reference_soap *s, int k)
{
    long double a[MOST], w[MOST], v[MOST];
    int64_t n = s->shape[k];

    for (int64_t i = 0; i < n * n; i++)
        a[i] = s->gg[k][i];
    reference_eigh(n, a, w, v);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            s->q[k][i * n + j] = (double)v[i * n + n - 1 - j];
}

/* The indices of d from its largest element to its smallest. */
static void sort_descending(int64_t n, const double *d, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = i; j > 0 && d[order[j]] > d[order[j - 1]]; j--) {
            int64_t kept = order[j];
            order[j] = order[j - 1];
            order[j - 1] = kept;
        }
}

/* Columns of a made orthonormal from the first to the last (Gram and Schmidt, twice). */
static void orthonormalise(int64_t n, double *a)
{
    for (int64_t j = 0; j < n; j++) {
        double length = 0;
        for (int again = 0; again < 2; again++)
            for (int64_t l = 0; l < j; l++) {
                double product = 0;
                for (int64_t i = 0; i < n; i++)
                    product += a[i * n + l] * a[i * n + j];
                for (int64_t i = 0; i < n; i++)
                    a[i * n + j] -= product * a[i * n + l];
            }
        for (int64_t i = 0; i < n; i++)
            length += a[i * n + j] * a[i * n + j];
        for (int64_t i = 0; i < n; i++)
            a[i * n + j] /= sqrt(length);
    }
}

/* One step of power iteration, its columns by estimated eigenvalue; v is sorted with them. */
static void next_basis(struct reference_soap *s, int k)
{
    double product[MOST], d[MOST], old[MOST];
    int64_t n = s->shape[k], order[MOST] = {0}, after = 1, all = count(s);

    for (int64_t j = 0; j < n; j++) {
        d[j] = 0;
        for (int64_t i = 0; i < n; i++) {
            product[i * n + j] = 0;
            for (int64_t l = 0; l < n; l++)
                product[i * n + j] += s->gg[k][i * n + l] * s->q[k][l * n + j];
            d[j] += s->q[k][i * n + j] * product[i * n + j];
        }
    }
    sort_descending(n, d, order);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            s->q[k][i * n + j] = product[i * n + order[j]];
    orthonormalise(n, s->q[k]);
    for (int e = k + 1; e < s->order; e++)
        after *= s->shape[e];
    memcpy(old, s->v, (size_t)all * sizeof *old);
    for (int64_t e = 0; e < all; e++) {
        int64_t j = e / after % n;
        s->v[e] = old[e + (order[j] - j) * after];
    }
}

static void update_basis(struct reference_soap *s, const double *g)
{
    project(s, true, s->m);
    for (int k = 0; k < s->order; k++)
        if (s->basis[k])
            accumulate(s, k, g);
    for (int k = 0; k < s->order; k++)
        if (s->basis[k] && s->step % s->refresh == 0)
            next_basis(s, k);
    project(s, false, s->m);
}

void reference_soap_begin(struct reference_soap *s, const double *g)
{
    for (int k = 0; k < s->order; k++)
        if (s->basis[k]) {
            accumulate(s, k, g);
            first_basis(s, k);
        }
}

void reference_soap_step(struct reference_soap *s, const double *g, double *u)
{
    double projected[MOST], scale = 1, square = 0;
    int64_t n = count(s);

    memcpy(projected, g, (size_t)n * sizeof *g);
    project(s, false, projected);
    s->step++;
    for (int64_t i = 0; i < n; i++) {
        s->m[i] = s->beta1 * s->m[i] + (1 - s->beta1) * projected[i];
        s->v[i] = s->beta2 * s->v[i] + (1 - s->beta2) * projected[i] * projected[i];
        u[i] = s->m[i] / (sqrt(s->v[i]) + s->epsilon);
    }
    if (s->bias_correction)
        scale = sqrt(1 - pow(s->beta2, (double)s->step)) / (1 - pow(s->beta1, (double)s->step));
    project(s, true, u);
    for (int64_t i = 0; i < n; i++)
        square += u[i] * u[i];
    if (s->normalize)
        scale /= 1e-30 + sqrt(square / (double)n);
    for (int64_t i = 0; i < n; i++)
        u[i] *= scale;
    update_basis(s, g);
}
