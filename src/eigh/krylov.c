/*
 * krylov.c - the iteration of the Krylov solver, see krylov.h
 *
 * Without state of its own, so that the library and its plugins have a copy each.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MORE_KEPT = 12, /* Ritz vectors that are kept beyond the wanted ones and as many again */
};

/* Where the host's scratch of a run lies. */
static size_t place(struct krylov *z, char *scratch)
{
    size_t at = 0;
    int64_t m = z->most, b = z->block, lwork, liwork;
    struct {
        void *to;
        size_t bytes;
    } parts[] = {
        {        &z->t, (size_t)(m * m) * sizeof(double)},
        {        &z->s,          (size_t)gram_most(m * m,b * b + 2 * b) * sizeof(double)},
        {     &z->gram, (size_t)(b * b) * sizeof(double)                                },
        {   &z->values,       (size_t)m * sizeof(double)},
        {&z->residuals,       (size_t)m * sizeof(double)                                },
        {   &z->before,       (size_t)m * sizeof(double)},
        {   &z->wanted,    (size_t)z->k * sizeof(double)                                },
        {   &z->column, (size_t)(m * b) * sizeof(double)},
        {    &z->other, (size_t)(m * b) * sizeof(double)                                },
        {      &z->mix, (size_t)(b * b) * sizeof(double)},
        {     &z->work,                                0                                },
        {    &z->iwork,                                0},
    };
    const size_t count = sizeof parts / sizeof *parts;

    z->small_eigh->sizes(gram_most(m, b), &lwork, &liwork);
    parts[count - 2].bytes = (size_t)lwork * sizeof(double);
    parts[count - 1].bytes = (size_t)liwork * sizeof(int32_t);
    for (size_t i = 0; i < count; i++) {
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
    z->most = gram_least(2 * z->k + z->more, z->n);
    z->host_bytes = place(z, NULL);
    z->bytes = z->ops->place(z, NULL);
}

bool gram_krylov_small_eigh(const struct krylov *z, int64_t n, double *a, int64_t ld, double *w)
{
    int64_t lwork, liwork;

    z->small_eigh->sizes(n, &lwork, &liwork);
    return z->small_eigh->solve(n, a, ld, w, z->work, lwork, z->iwork, liwork) == 0;
}

static double *t_at(const struct krylov *z, int64_t i, int64_t j)
{
    return &z->t[j * z->most + i];
}

/* Multiplies by Q, which joins the basis; W becomes what of the product is outside. */
static gram_status expand(struct krylov *z)
{
    if (gram_cancelled(z->g))
        return gram_fail(z->g, GRAM_CANCELLED, "cancelled");
    TRY(z->ops->append(z, z->dim));
    TRY(gram_krylov_multiply(z));
    z->steps++;
    z->dim += z->width;
    z->last = z->width;
    TRY(z->ops->project(z, z->dim, z->last));
    z->flops += z->step_flops + 2 * (double)z->n * (double)z->last *
                                    (double)(gram_krylov_degree(z) * z->n + 4 * z->dim);
    return GRAM_OK;
}

/* The next Q: what W holds, or random numbers. */
static gram_status next_block(struct krylov *z, bool fresh)
{
    z->width = gram_least(z->block, z->n - z->dim);
    if (z->width == 0)
        return GRAM_OK;
    if (fresh || z->width != z->last) /* few columns are left: any will do */
        TRY(z->ops->random(z, z->width));
    return z->ops->orthonormalise(z, z->dim);
}

/* The new block's part of T. */
static gram_status extend(struct krylov *z)
{
    int64_t b = z->last, at = z->dim - b;
    const double *h = z->column;

    TRY(z->ops->fetch(z));
    for (int64_t c = 0; c < b; c++)
        for (int64_t i = 0; i < z->dim; i++) {
            double value = h[c * z->dim + i];
            z->not_finite = z->not_finite || !isfinite(value);
            if (i >= at) /* the new block's own part, symmetric but for rounding */
                value = (value + h[(i - at) * z->dim + at + c]) / 2;
            *t_at(z, i, at + c) = *t_at(z, at + c, i) = value;
        }
    return GRAM_OK;
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
    const bool filtered = z->radius != 0, ascending = z->smallest && !filtered;

    for (int64_t j = 0; j < d; j++)
        memcpy(&z->s[j * m], &z->t[j * m], (size_t)d * sizeof(double));
    if (!gram_krylov_small_eigh(z, d, z->s, m, z->values)) {
        z->not_finite = true;
        return;
    }
    if (!filtered)
        z->norm = fmax(z->norm, fmax(fabs(z->values[0]), fabs(z->values[d - 1])));
    z->far = z->values[ascending ? d - 1 : 0];
    if (!ascending)
        for (int64_t i = 0, j = d - 1; i < j; i++, j--) {
            double keep = z->values[i];
            z->values[i] = z->values[j], z->values[j] = keep;
            memcpy(z->column, &z->s[i * m], (size_t)d * sizeof(double));
            memcpy(&z->s[i * m], &z->s[j * m], (size_t)d * sizeof(double));
            memcpy(&z->s[j * m], z->column, (size_t)d * sizeof(double));
        }
    for (int64_t i = 0; i < d; i++)
        z->residuals[i] =
            residual_of(z, &z->s[i * m + d - z->last]) / gram_krylov_slope(z, z->values[i]);
    z->flops = 0;
}

/* How many wanted pairs have an estimated residual below `tolerance` times the norm. */
static int64_t below(const struct krylov *z, double tolerance)
{
    int64_t count = 0;

    for (int64_t i = 0; i < gram_least(z->k, z->dim); i++)
        count += z->residuals[i] <= tolerance * z->norm;
    return count;
}

/* Cuts the basis down to the best Ritz vectors; Q stays. */
static gram_status restart(struct krylov *z)
{
    int64_t keep = gram_least(z->keep, z->dim);

    TRY(z->ops->turn(z, z->dim, keep, z->s));
    for (int64_t j = 0; j < keep; j++)
        for (int64_t i = 0; i < keep; i++)
            *t_at(z, i, j) = i == j ? z->values[i] : 0;
    z->dim = keep;
    return GRAM_OK;
}

/* Begins again with p(A), from a block of mixtures of the best Ritz vectors. */
static gram_status begin_filtered(struct krylov *z)
{
    static const double pi = 3.14159265358979323846;
    const int64_t d = z->dim, m = z->most, b = z->block;
    const int64_t keep = gram_least(gram_most(z->keep, b), d);
    double *mixed = z->t; /* which is of A */

    for (int64_t c = 0; c < b; c++)
        for (int64_t i = 0; i < d; i++) {
            double sum = 0;
            for (int64_t j = 0; j < keep;
                 j++) /* by columns of an orthogonal matrix without zeros */
                sum += z->s[j * m + i] *
                       cos(pi * (double)((2 * j + 1) * (2 * c + 1)) / (double)(4 * keep));
            mixed[c * m + i] = sum * sqrt(2 / (double)keep);
        }
    TRY(z->ops->turn(z, d, b, mixed));
    TRY(z->ops->extract(z, 0, b));
    z->width = b;
    z->dim = 0;
    z->look = z->steps + m / b / 2;
    z->worst = 0;
    z->looked = z->steps;
    return GRAM_OK;
}

/* A small basis decides whether to filter, and does for p(A). */
static bool is_full(const struct krylov *z)
{
    bool small = z->filters && (z->radius != 0 || !z->decided);

    return z->dim + z->width > (small ? gram_least(2 * z->k + z->few, z->most) : z->most);
}

/* True when it pays, or is time, to look at the Ritz values. */
static bool is_due(const struct krylov *z)
{
    double d = (double)z->dim;

    if (z->width == 0 || is_full(z) || z->products >= z->most_products)
        return z->dim >= z->k;
    return z->dim >= z->k && z->steps >= z->look && z->flops >= z->small_flops * d * d * d;
}

/* With A from nothing, where p(A) is not for the values: they have copies, or estimates deceive. */
static gram_status begin_unfiltered(struct krylov *z)
{
    z->radius = 0;
    z->dim = 0;
    return next_block(z, true);
}

/* When to look again: p(A) makes residuals smaller by about the same factor in every step.  False:
 * by too little. */
static bool look_later(struct krylov *z, double tolerance)
{
    double worst = 0, left, rate;

    if (z->radius == 0)
        return true;
    for (int64_t i = 0; i < gram_least(z->k, z->dim); i++)
        worst = fmax(worst, z->residuals[i]);
    worst = log(worst / z->norm);
    left = worst - log(tolerance);
    rate = (z->worst - worst) / (double)(z->steps - z->looked);
    z->worst = worst;
    z->looked = z->steps;
    z->look = 0;
    if (left <= 0)
        return true;
    if (!(left * (double)gram_krylov_degree(z) < rate * (double)(z->most_products - z->products)))
        return false;
    z->look = z->steps + (int64_t)(left / rate);
    return true;
}

/* Expands and restarts until the estimates say that all wanted pairs are there, after least
 * products at the earliest, or the basis has all n dimensions. */
static gram_status iterate(struct krylov *z, double tolerance, int64_t least)
{
    int64_t begin = z->products;

    z->look = 0;
    while (!z->not_finite) {
        TRY(expand(z));
        TRY(next_block(z, false));
        TRY(extend(z));
        if (z->not_finite || !is_due(z))
            continue;
        rayleigh_ritz(z);
        z->complete =
            z->width == 0 || (z->products - begin >= least && below(z, tolerance) == z->k);
        if (z->complete || z->products >= z->most_products)
            break;
        if (!look_later(z, tolerance))
            TRY(begin_unfiltered(z));
        else if (is_full(z) && gram_krylov_choose_filter(z))
            TRY(begin_filtered(z));
        else if (is_full(z))
            TRY(restart(z));
    }
    return GRAM_OK;
}

/* Multiplies the wanted Ritz vectors, which become the first columns of V: their values and
 * residuals.  Q is kept behind the basis meanwhile. */
static gram_status verify(struct krylov *z)
{
    int64_t next = z->width;
    double limit;

    z->decided = true;
    TRY(restart(z));
    if (next > 0)
        TRY(z->ops->append(z, z->dim));
    z->converged = 0;
    z->residual = 0;
    for (int64_t at = 0; at < z->k; at += z->block) {
        int64_t cols = gram_least(z->block, z->k - at);
        TRY(z->ops->extract(z, at, cols));
        TRY(z->multiply(z->user, cols, z->q, z->w));
        z->products++;
        TRY(z->ops->residuals(z, at, cols, &z->wanted[at], &z->residuals[at]));
    }
    for (int64_t i = 0; i < z->k; i++)
        z->norm = fmax(z->norm, fabs(z->wanted[i]));
    limit = z->tolerance * z->norm;
    for (int64_t i = 0; i < z->k; i++) {
        z->converged += z->residuals[i] <= limit;
        z->residual = fmax(z->residual, z->residuals[i]);
        z->not_finite = z->not_finite || !isfinite(z->residuals[i]);
    }
    z->width = next;
    return next > 0 ? z->ops->extract(z, z->dim, next) : GRAM_OK;
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

gram_status gram_krylov_run(struct krylov *z, void *host, void *memory)
{
    double tolerance = z->tolerance / 2;
    int64_t least = 0;
    int failed = 0;

    place(z, host);
    z->ops->place(z, memory);
    z->random = z->seed;
    for (int64_t i = 0; i < z->k; i++)
        z->before[i] = INFINITY;
    TRY(next_block(z, true));
    for (;;) {
        TRY(iterate(z, tolerance, least));
        if (z->not_finite)
            return GRAM_OK;
        TRY(verify(z));
        if (z->not_finite || !z->complete || z->width == 0)
            return GRAM_OK;
        least = steps_for_copies(z);
        failed += z->converged < z->k;
        if (z->radius != 0 && (failed > 1 || least > 0)) {
            TRY(begin_unfiltered(z));
            tolerance = z->tolerance / 2;
        } else if (z->converged < z->k) {
            tolerance /= 4;
        } else if (least == 0 || same_as_before(z)) {
            return GRAM_OK;
        } else {
            TRY(next_block(z, true));
        }
    }
}
