/*
 * cpu_krylov.c - the iteration of the Krylov solver, see cpu_krylov.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_krylov.h"
#include <math.h>
#include <string.h>

enum {
    MORE_VECTORS = 160, /* of a basis beyond the wanted vectors and as many again */
    MORE_KEPT = 12,     /* Ritz vectors that are kept beyond them */
    SMALL_FLOPS = 72,   /* of a small eigenproblem over n^3, times how much slower they are */
};

/* Where the scratch of a run lies. */
static size_t place(struct krylov *z, char *scratch)
{
    size_t at = 0;
    int64_t m = z->most, b = z->block, lwork, liwork;
    int64_t smalls = KRYLOV_PARTS * (int64_t)gram_round64((size_t)(m * b) * z->element);
    struct {
        void *to;
        size_t bytes;
    } parts[] = {
        {        &z->v,(size_t)(z->n * m) * z->element                                         },
        {        &z->q,  (size_t)(z->n * b) * z->element                  },
        {        &z->w,  (size_t)(z->n * b) * z->element                  },
        {    &z->small,
         gram_most_bytes((size_t)smalls,                                   (size_t)(m * gram_most(z->keep, b)) * z->element)},
        {        &z->t, (size_t)(m * m) * sizeof(double)                                             },
        {        &z->s,          (size_t)gram_most(m * m,b * b + 2 * b) * sizeof(double)},
        {     &z->gram, (size_t)(b * b) * sizeof(double)},
        {   &z->values,       (size_t)m * sizeof(double)                  },
        {&z->residuals,       (size_t)m * sizeof(double)                  },
        {   &z->before,       (size_t)m * sizeof(double)                  },
        {   &z->wanted,    (size_t)z->k * sizeof(double)                  },
        {   &z->column, (size_t)(m * b) * sizeof(double)                  },
        {      &z->mix, (size_t)(b * b) * sizeof(double)                  },
        {     &z->work,                                0                  },
        {    &z->iwork,                                0                  },
    };

    gram_blas_syevd_sizes(gram_most(m, b), &lwork, &liwork);
    parts[13].bytes = (size_t)lwork * sizeof(double);
    parts[14].bytes = (size_t)liwork * sizeof(int32_t);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (scratch)
            *(char **)parts[i].to = scratch + at;
        at += gram_round64(parts[i].bytes);
    }
    return at;
}

void gram_krylov_plan(struct krylov *z)
{
    z->element = gram_dtype_size(z->dtype);
    z->keep = gram_least(2 * z->k + MORE_KEPT, z->n);
    z->most = gram_least(2 * z->k + MORE_VECTORS, z->n);
    z->bytes = place(z, NULL);
}

static double *t_at(const struct krylov *z, int64_t i, int64_t j)
{
    return &z->t[j * z->most + i];
}

/* Multiplies by Q, which joins the basis; W becomes what of the product is outside. */
static gram_status expand(struct krylov *z)
{
    int64_t at = z->dim, b = z->width;
    double *h = z->column;

    if (gram_cancelled(z->g))
        return gram_fail(z->g, GRAM_CANCELLED, "cancelled");
    gram_krylov_append(z, at);
    TRY(z->multiply(z->user, b, z->q, z->w));
    z->products++;
    z->dim += b;
    z->last = b;
    gram_blas_one_thread();
    gram_krylov_project(z, z->dim, b, h);
    for (int64_t c = 0; c < b; c++)
        for (int64_t i = 0; i < z->dim; i++) {
            double value = h[c * z->dim + i];
            z->not_finite = z->not_finite || !isfinite(value);
            if (i >= at) /* the new block's own part, symmetric but for rounding */
                value = (value + h[(i - at) * z->dim + at + c]) / 2;
            *t_at(z, i, at + c) = *t_at(z, at + c, i) = value;
        }
    gram_krylov_subtract(z, z->dim, b, h);
    gram_krylov_gram(z, b, z->gram);
    z->flops += 2 * (double)z->n * (double)b * (double)(z->n + 4 * z->dim);
    return GRAM_OK;
}

/* The next Q: what W holds, or random numbers. */
static void next_block(struct krylov *z, bool fresh)
{
    z->width = gram_least(z->block, z->n - z->dim);
    if (z->width == 0)
        return;
    if (fresh || z->width != z->last) /* few columns are left: any will do */
        gram_krylov_random(z, z->width);
    if (!gram_krylov_orthonormalise(z, z->dim))
        z->not_finite = true;
}

/* sqrt(|s^T G s|): the residual of the Ritz vector with these last elements. */
static double residual_of(const struct krylov *z, const double *s)
{
    double sum = 0;

    for (int64_t i = 0; i < z->last; i++)
        for (int64_t j = 0; j < z->last; j++)
            sum += s[i] * z->gram[j * z->last + i] * s[j];
    return sqrt(fabs(sum));
}

/* Ritz values and vectors (in s), the best first, and their residuals. */
static void rayleigh_ritz(struct krylov *z)
{
    int64_t d = z->dim, m = z->most;

    for (int64_t j = 0; j < d; j++)
        memcpy(&z->s[j * m], &z->t[j * m], (size_t)d * sizeof(double));
    if (!gram_krylov_small_eigh(z, d, z->s, m, z->values)) {
        z->not_finite = true;
        return;
    }
    z->norm = fmax(z->norm, fmax(fabs(z->values[0]), fabs(z->values[d - 1])));
    z->far = z->values[z->smallest ? d - 1 : 0];
    if (!z->smallest)
        for (int64_t i = 0, j = d - 1; i < j; i++, j--) {
            double keep = z->values[i];
            z->values[i] = z->values[j], z->values[j] = keep;
            memcpy(z->column, &z->s[i * m], (size_t)d * sizeof(double));
            memcpy(&z->s[i * m], &z->s[j * m], (size_t)d * sizeof(double));
            memcpy(&z->s[j * m], z->column, (size_t)d * sizeof(double));
        }
    for (int64_t i = 0; i < d; i++)
        z->residuals[i] = residual_of(z, &z->s[i * m + d - z->last]);
    z->flops = 0;
}

/* Wanted pairs whose estimated residual is below so much of the norm. */
static int64_t below(const struct krylov *z, double tolerance)
{
    int64_t count = 0;

    for (int64_t i = 0; i < gram_least(z->k, z->dim); i++)
        count += z->residuals[i] <= tolerance * z->norm;
    return count;
}

/* Cuts the basis down to the best Ritz vectors; Q stays. */
static void restart(struct krylov *z)
{
    int64_t keep = gram_least(z->keep, z->dim);

    gram_krylov_turn(z, z->dim, keep, z->s);
    for (int64_t j = 0; j < keep; j++)
        for (int64_t i = 0; i < keep; i++)
            *t_at(z, i, j) = i == j ? z->values[i] : 0;
    z->dim = keep;
}

/* True when it pays, or is time, to look at the Ritz values. */
static bool is_due(const struct krylov *z)
{
    double d = (double)z->dim;

    return z->dim >= z->k && (z->flops >= SMALL_FLOPS * d * d * d || z->width == 0 ||
                              z->dim + z->width > z->most || z->products >= z->most_products);
}

/* Expands and restarts until the estimates say that all wanted pairs are there, after least
 * products at the earliest, or the basis has all n dimensions. */
static gram_status iterate(struct krylov *z, double tolerance, int64_t least)
{
    int64_t begin = z->products;

    while (!z->not_finite) {
        TRY(expand(z));
        next_block(z, false);
        if (z->not_finite || !is_due(z))
            continue;
        rayleigh_ritz(z);
        z->complete =
            z->width == 0 || (z->products - begin >= least && below(z, tolerance) == z->k);
        if (z->complete || z->products >= z->most_products)
            break;
        if (z->dim + z->width > z->most)
            restart(z);
    }
    return GRAM_OK;
}

/* Multiplies the wanted Ritz vectors, which become the first columns of V: their values and
 * residuals.  Q is kept behind the basis meanwhile. */
static gram_status verify(struct krylov *z)
{
    int64_t next = z->width;
    double limit;

    restart(z);
    if (next > 0)
        gram_krylov_append(z, z->dim);
    z->converged = 0;
    z->residual = 0;
    for (int64_t at = 0; at < z->k; at += z->block) {
        int64_t cols = gram_least(z->block, z->k - at);
        gram_krylov_extract(z, at, cols);
        TRY(z->multiply(z->user, cols, z->q, z->w));
        z->products++;
        gram_krylov_residuals(z, at, cols, &z->wanted[at], &z->residuals[at]);
    }
    for (int64_t i = 0; i < z->k; i++)
        z->norm = fmax(z->norm, fabs(z->wanted[i]));
    limit = z->tolerance * z->norm;
    for (int64_t i = 0; i < z->k; i++) {
        z->converged += z->residuals[i] <= limit;
        z->residual = fmax(z->residual, z->residuals[i]);
        z->not_finite = z->not_finite || !isfinite(z->residuals[i]);
    }
    gram_blas_one_thread();
    z->width = next;
    if (next > 0)
        gram_krylov_extract(z, z->dim, next);
    return GRAM_OK;
}

/* Values closer than this count as one. */
static double resolution(const struct krylov *z)
{
    return 4 * z->tolerance * z->norm;
}

/*
 * Steps that a missing copy of a multiple eigenvalue above the last wanted one needs to be seen, or
 * 0 if none can be missing: there are fewer copies than the columns of a block.  A random vector
 * has 1 / sqrt(n) of a copy; s steps enlarge it by the Chebyshev polynomial T_s(1 + 2 gap), with
 * the gap between the copy and the values that the basis does not hold, in units of their spread.
 */
static int64_t steps_for_copies(const struct krylov *z)
{
    int64_t run = 1;

    for (int64_t i = 1; i < z->k; i++) {
        double gap, spread;
        if (fabs(z->wanted[i] - z->wanted[i - 1]) <= resolution(z)) {
            run++;
            continue;
        }
        if (run >= z->block) {
            gap = fabs(z->wanted[i - 1] - z->values[z->dim - 1]);
            spread = fabs(z->values[z->dim - 1] - z->far);
            return 1 + (int64_t)fmin(log(100 * sqrt((double)z->n)) /
                                         acosh(1 + 2 * gap / fmax(spread, resolution(z))),
                                     (double)z->most_products);
        }
        run = 1;
    }
    return 0;
}

/* True if the values are those of the last time. */
static bool same_as_before(struct krylov *z)
{
    bool same = true;

    for (int64_t i = 0; i < z->k; i++) {
        same = same && fabs(z->wanted[i] - z->before[i]) <= resolution(z);
        z->before[i] = z->wanted[i];
    }
    return same;
}

gram_status gram_krylov_run(struct krylov *z, void *scratch)
{
    double tolerance = z->tolerance / 2;
    int64_t least = 0;

    place(z, scratch);
    z->random = z->seed;
    gram_blas_one_thread();
    for (int64_t i = 0; i < z->k; i++)
        z->before[i] = INFINITY;
    next_block(z, true);
    for (;;) {
        TRY(iterate(z, tolerance, least));
        if (z->not_finite)
            return GRAM_OK;
        TRY(verify(z));
        if (z->not_finite || !z->complete || z->width == 0)
            return GRAM_OK;
        if (z->converged < z->k) {
            tolerance /= 4;
            continue;
        }
        least = steps_for_copies(z);
        if (least == 0 || same_as_before(z))
            return GRAM_OK;
        next_block(z, true);
    }
}
