/*
 * cpu_solve_refine.c - solutions of f64 accuracy from a factor in f32
 *
 * Plain steps for all columns together, as LAPACK's dsposv; then flexible GMRES, preconditioned by
 * the factor, column by column (Carson and Higham, A new analysis of iterative refinement and its
 * application to accurate solution of ill-conditioned sparse linear systems, SIAM J. Sci. Comput.
 * 39, 2017; Saad, A flexible inner-outer preconditioned GMRES algorithm, 1993).
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_solve_extra.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PLAIN_STEPS = 10, /* each wins at least two bits, or they end */
    GMRES_STEPS = 5
};

static double largest(int64_t n, const double *v)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++) {
        double size = fabs(v[i]);
        if (isnan(size))
            return INFINITY;
        most = size > most ? size : most;
    }
    return most;
}

/* v = alpha A u + beta v for columns. */
static void multiply(const struct extra_work *w, int64_t columns, double alpha, const double *u,
                     double beta, double *v)
{
    int64_t n = w->n;

    gram_blas_gemm(GRAM_F64, (int64_t[]){n, columns, n}, alpha,
                   (struct gram_blas_matrix){w->a, n, false},
                   (struct gram_blas_matrix){u, n, false}, beta, v, n);
}

/* Of one column, from its residual; infinite where that is NaN. */
static double backward_of(const struct extra_work *w, int64_t column)
{
    int64_t n = w->n;
    double r = largest(n, w->r + column * n);
    double scale = w->norm * largest(n, (const double *)w->x + column * n) +
                   largest(n, (const double *)w->b + column * n);

    if (!isfinite(r))
        return INFINITY;
    return r > 0 ? r / scale : 0;
}

double cpu_solve_backward(const struct extra_work *w, int64_t columns)
{
    double worst = 0;

    memcpy(w->r, w->b, (size_t)(w->n * columns) * sizeof *w->r);
    multiply(w, columns, -1, w->x, 1, w->r);
    for (int64_t j = 0; j < columns; j++) {
        double error = backward_of(w, j);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

static double accepted(const struct extra_work *w)
{
    return sqrt((double)w->n) * (DBL_EPSILON / 2);
}

/* to = A^-1 from by the f32 factor, columns scaled to where f32 has its range. */
static void precondition(const struct extra_work *w, int64_t columns, const double *from,
                         double *to, bool add)
{
    int64_t n = w->n;

    for (int64_t j = 0; j < columns; j++) {
        double scale = largest(n, from + j * n);
        for (int64_t i = 0; i < n; i++)
            w->d[i + j * n] = scale > 0 ? (float)(from[i + j * n] / scale) : 0;
    }
    cpu_solve_extra_apply(w, GRAM_F32, columns, w->d);
    for (int64_t j = 0; j < columns; j++) {
        double scale = ldexp(largest(n, from + j * n), -w->exponent);
        for (int64_t i = 0; i < n; i++) {
            double d = (double)w->d[i + j * n] * scale;
            to[i + j * n] = add ? to[i + j * n] + d : d;
        }
    }
}

static double dot(int64_t n, const double *u, const double *v)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += u[i] * v[i];
    return sum;
}

/* to += factor * from */
static void add_scaled(int64_t n, double factor, const double *from, double *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* The least squares of GMRES: R's columns, the rotations that made them, the turned residual. */
struct small_system {
    double r[REFINE_RESTART][REFINE_RESTART + 1], c[REFINE_RESTART], s[REFINE_RESTART];
    double g[REFINE_RESTART + 1];
};

static void rotate(struct small_system *q, int k)
{
    double *h = q->r[k], length;

    for (int i = 0; i < k; i++) {
        double upper = q->c[i] * h[i] + q->s[i] * h[i + 1];
        h[i + 1] = q->c[i] * h[i + 1] - q->s[i] * h[i];
        h[i] = upper;
    }
    length = hypot(h[k], h[k + 1]);
    q->c[k] = length > 0 ? h[k] / length : 1;
    q->s[k] = length > 0 ? h[k + 1] / length : 0;
    h[k] = length;
    q->g[k + 1] = -q->s[k] * q->g[k];
    q->g[k] *= q->c[k];
}

/* One more correction of a column of x whose residual is r: the best of a Krylov space.  Stops when
 * the residual has shrunk by 1e6: more would be lost in the rounding of x. */
static void gmres(const struct extra_work *w, double *x, const double *r)
{
    struct small_system q = {.g = {0}};
    double *v = w->basis, *z = v + (REFINE_RESTART + 1) * w->n, beta = sqrt(dot(w->n, r, r));
    int64_t n = w->n;
    int k = 0;

    if (!(beta > 0 && isfinite(beta)))
        return;
    for (int64_t i = 0; i < n; i++)
        v[i] = r[i] / beta;
    q.g[0] = beta;
    while (k < REFINE_RESTART && k < n && fabs(q.g[k]) > 1e-6 * beta) {
        double *next = v + (k + 1) * n, length;
        precondition(w, 1, v + k * n, z + k * n, false);
        multiply(w, 1, 1, z + k * n, 0, next);
        for (int i = 0; i <= k; i++) {
            q.r[k][i] = dot(n, next, v + i * n);
            add_scaled(n, -q.r[k][i], v + i * n, next);
        }
        length = q.r[k][k + 1] = sqrt(dot(n, next, next));
        if (!isfinite(length))
            break;
        rotate(&q, k++);
        if (!(length > 0))
            break;
        for (int64_t i = 0; i < n; i++)
            next[i] /= length;
    }
    for (int j = k - 1; j >= 0; j--) { /* the triangular system, and x */
        for (int i = j + 1; i < k; i++)
            q.g[j] -= q.r[i][j] * q.g[i];
        q.g[j] = q.r[j][j] != 0 ? q.g[j] / q.r[j][j] : 0;
        add_scaled(n, q.g[j], z + j * n, x);
    }
}

/* GMRES for one column, until its backward error is accepted or no longer halves. */
static double finish_column(const struct extra_work *w, int64_t column, int *steps)
{
    int64_t n = w->n;
    double *x = (double *)w->x + column * n, *r = w->r + column * n;
    const double *b = (const double *)w->b + column * n;
    double error = backward_of(w, column), before = INFINITY;

    if (!isfinite(error)) { /* the plain steps diverged */
        memset(x, 0, (size_t)n * sizeof *x);
        memcpy(r, b, (size_t)n * sizeof *r);
    }
    for (int i = 0; i < GMRES_STEPS && !(error <= accepted(w)) && !(error > before / 2); i++) {
        before = error;
        gmres(w, x, r);
        memcpy(r, b, (size_t)n * sizeof *r);
        multiply(w, 1, -1, x, 1, r);
        error = backward_of(w, column);
        ++*steps;
    }
    return error;
}

bool cpu_solve_refine(const struct extra_work *w, int64_t columns, double *backward, int *steps)
{
    double error = INFINITY, before, worst = 0;

    memset(w->x, 0, (size_t)(w->n * columns) * sizeof(double));
    memcpy(w->r, w->b, (size_t)(w->n * columns) * sizeof(double));
    for (int i = 0; i < PLAIN_STEPS; i++) {
        before = error;
        precondition(w, columns, w->r, w->x, true);
        error = cpu_solve_backward(w, columns);
        ++*steps;
        if (error <= accepted(w) || !(error <= before / 4))
            break;
    }
    for (int64_t j = 0; !(error <= accepted(w)) && j < columns; j++) {
        double of_column = finish_column(w, j, steps);
        worst = of_column <= worst ? worst : of_column;
    }
    *backward = error <= accepted(w) ? error : worst;
    return *backward <= accepted(w);
}
