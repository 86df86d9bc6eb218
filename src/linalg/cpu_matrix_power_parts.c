/*
 * cpu_matrix_power_parts.c - what the methods are made of: products, norms, the largest eigenvalue
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "cpu/move.h"
#include "cpu_matrix_power.h"
#include "power_ridge.h"
#include <math.h>

enum {
    TILE = 32,   /* of a transposition: as in move.c */
    PANEL = 256, /* columns of a product of which only the lower triangle is wanted: as fast as the
                    whole width in OpenBLAS's sgemm on a Zen 4 */
    LANCZOS_STEPS = 32
};

static double element(const struct gram_view *v, const char *data, int64_t at)
{
    return v->dtype == GRAM_F32 ? (double)((const float *)(const void *)data)[at]
                                : ((const double *)(const void *)data)[at];
}

#define SUFFIX f32
#define real   float
#include "matrix_power_tile.h"

#define SUFFIX f64
#define real   double
#include "matrix_power_tile.h"

void cpu_matrix_power_load(const struct power_work *w, void *to)
{
    const struct gram_matrix_power_op *op = w->plan->op;

    w->plan->kernels->load(&op->a, w->a, op->uplo, w->exponent, to);
    cpu_mirror(w->plan->work, w->n, to);
}

void cpu_matrix_power_product(const struct power_work *w, const void *a, const void *b, void *c)
{
    int64_t n = w->n;

    gram_blas_gemm(w->plan->work, (int64_t[]){n, n, n}, 1, (struct gram_blas_matrix){a, n, false},
                   (struct gram_blas_matrix){b, n, false}, 0, c, n);
}

void cpu_matrix_power_symmetric(const struct power_work *w, const void *a, const void *b, void *c)
{
    gram_dtype work = w->plan->work;
    int64_t n = w->n, size = (int64_t)gram_dtype_size(work);

    if (a == b)
        gram_blas_syrk(work, GRAM_LOWER, n, n, 1, (struct gram_blas_matrix){a, n, false}, 0, c, n);
    else
        for (int64_t j = 0; j < n; j += PANEL) {
            int64_t columns = gram_least(PANEL, n - j);
            gram_blas_gemm(work, (int64_t[]){n - j, columns, n}, 1,
                           (struct gram_blas_matrix){(const char *)a + j * size, n, false},
                           (struct gram_blas_matrix){(const char *)b + j * n * size, n, false}, 0,
                           (char *)c + (j + j * n) * size, n);
        }
    cpu_mirror(work, n, c);
}

/* How many eigenvalues of the tridiagonal matrix with diagonal d and off-diagonal e lie below x:
 * the negative pivots of its elimination (Sturm; Golub and Van Loan, 8.4.1). */
static int below(int count, const double *d, const double *e, double x)
{
    double pivot = 1;
    int negative = 0;

    for (int i = 0; i < count; i++) {
        pivot = d[i] - x - (i > 0 ? e[i - 1] * e[i - 1] / pivot : 0);
        if (pivot == 0)
            pivot = 0x1p-1000;
        negative += pivot < 0;
    }
    return negative;
}

static double largest_of_tridiagonal(int count, const double *d, const double *e)
{
    double low = INFINITY, high = -INFINITY;

    for (int i = 0; i < count; i++) { /* Gershgorin's discs */
        double radius = (i > 0 ? fabs(e[i - 1]) : 0) + (i < count - 1 ? fabs(e[i]) : 0);
        low = fmin(low, d[i] - radius);
        high = fmax(high, d[i] + radius);
    }
    for (int i = 0; i < 60 && low < high; i++) {
        double middle = low + (high - low) / 2;
        if (below(count, d, e, middle) == count)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Lanczos without reorthogonalisation (Golub and Van Loan, 10.1): the outermost Ritz values need
 * none.  They never exceed the eigenvalues but by rounding. */
struct power_ends cpu_matrix_power_ends(const struct power_work *w, const void *a, void *vectors)
{
    const struct matrix_power_kernels *k = w->plan->kernels;
    int64_t n = w->n, size = (int64_t)gram_dtype_size(w->plan->work);
    char *v = vectors, *u = v + n * size, *next = u + n * size;
    double d[LANCZOS_STEPS] = {0}, e[LANCZOS_STEPS] = {0}, beta = 0;
    struct power_ends ends;
    int steps = 0;

    k->start(n, v);
    k->orthogonalise(n, (double[]){0, 0, 1 / sqrt(k->dot(n, v, v))}, v, v, v);
    while (steps < LANCZOS_STEPS && steps < n) {
        char *kept = u;
        gram_blas_gemm(w->plan->work, (int64_t[]){n, 1, n}, 1,
                       (struct gram_blas_matrix){a, n, false},
                       (struct gram_blas_matrix){v, n, false}, 0, next, n);
        d[steps] = k->dot(n, v, next);
        k->orthogonalise(n, (double[]){d[steps], beta, 1}, v, steps ? u : v, next);
        beta = sqrt(k->dot(n, next, next));
        e[steps++] = beta;
        if (!(beta > 1e-6 * fabs(d[0]))) /* an invariant subspace */
            break;
        k->orthogonalise(n, (double[]){0, 0, 1 / beta}, v, v, next);
        u = v, v = next, next = kept;
    }
    ends.largest = largest_of_tridiagonal(steps, d, e);
    for (int i = 0; i < steps; i++)
        d[i] = -d[i];
    ends.smallest = -largest_of_tridiagonal(steps, d, e);
    return ends;
}

double cpu_matrix_power_ridge(const struct power_work *w, double smallest, double largest)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    double ridge = op->ridge_relative ? w->ridge * fmax(largest, 0) : ldexp(w->ridge, -w->exponent);

    if (!op->factor)
        return ridge;
    ridge = fmax(fmax(ridge, gram_power_least_ridge(op, w->plan->work) * largest), -2 * smallest);
    return ridge > 0 ? ridge : 1; /* of a factor that is 0, the root is I */
}

/* r <- r b, or b r; t takes its place. */
static void multiply(const struct power_work *w, bool from_left, const void *b, void **r, void **t)
{
    void *kept = *r;

    cpu_matrix_power_product(w, from_left ? b : *r, from_left ? *r : b, *t);
    *r = *t;
    *t = kept;
}

/* x^q against b^k. */
static double error_of_root(const struct power_work *w, const void *b, void *r, void *t)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    const struct matrix_power_kernels *kernels = w->plan->kernels;
    void *c = w->spare[3];
    double scale;

    kernels->combine(w->n, 0, 1, b, r);
    for (int i = 1; i < op->numerator; i++)
        multiply(w, false, b, &r, &t);
    kernels->combine(w->n, 0, 1, w->x, c);
    for (int i = 1; i < op->denominator; i++)
        multiply(w, false, w->x, &c, &t);
    scale = kernels->distance(w->n, r, 0, 0, NULL);
    return scale > 0 ? kernels->distance(w->n, c, 0, 1, r) / scale
                     : kernels->distance(w->n, c, 0, 0, NULL);
}

double cpu_matrix_power_error(const struct power_work *w)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    const struct matrix_power_kernels *kernels = w->plan->kernels;
    int q = op->denominator, k = -op->numerator, excess = q, x_taken = 0, b_taken = 1;
    void *b = w->spare[0], *r = w->spare[1], *t = w->spare[2];

    cpu_matrix_power_load(w, b);
    kernels->combine(w->n, w->shift, 1, b, b);
    if (op->numerator > 0)
        return error_of_root(w, b, r, t);
    kernels->combine(w->n, 0, 1, b, r);
    while (x_taken < q || b_taken < k) { /* r = b^(excess / q) so far */
        if (excess > 0) {
            multiply(w, x_taken++ % 2 == 0, w->x, &r, &t);
            excess -= k;
        } else {
            multiply(w, b_taken++ % 2 == 1, b, &r, &t);
            excess += q;
        }
    }
    return kernels->distance(w->n, r, 1, 0, NULL);
}
