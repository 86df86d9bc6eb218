/*
 * krylov.c - the Krylov solver, see krylov.h: the problem, its polynomial, and the iteration
 *
 * It is without state of its own, so that the library and its plugins have a copy each.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MORE_KEPT = 12,  /* Ritz vectors that are kept beyond the wanted ones and as many again */
    DEGREE = 3,      /* of the polynomial */
    SLOPE_SHARE = 3, /* the slope at a value over it: about what residuals are made smaller by
                           (seen on random matrices) */
    PRODUCTS = 1000, /* of blocks, where nothing else would do */
    LEAST_PRODUCTS = 60,
    PRODUCT_SHARE = 16, /* n over it: products of blocks of 8 that take a quarter of the dense
                           driver's time (Zen 4, n = 4000) */
    PAYS_LEAST = 2000,  /* n, and how much larger than k it is, from which on few pairs are worth */
    PAYS_SHARE = 200    /* products: bench/results/2026-11-21-eigh-krylov.md */
};

/* ---- Eigenproblems as the solver takes them -------------------------------------------------- */

struct krylov gram_krylov_problem(gram_context *g, const struct gram_eigh_op *op, bool falls_back)
{
    double eps = op->a.dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON;
    struct krylov z = {
        .g = g,
        .dtype = op->a.dtype,
        .n = op->a.rows,
        .k = op->count,
        .smallest = op->first == 0,
        .tolerance = op->tolerance > 0 ? op->tolerance : fmin(10 * (double)op->a.rows * eps, 1e-5),
        .most_products = op->products > 0 ? op->products : PRODUCTS,
        .seed = op->seed,
        .small_eigh = op->small_eigh,
    };

    if (falls_back && op->products == 0)
        z.most_products = gram_most(LEAST_PRODUCTS, op->a.rows / PRODUCT_SHARE);
    return z;
}

bool gram_krylov_takes(const struct gram_eigh_op *op)
{
    enum {
        MOST_PAIRS = 1 << 15 /* products of sizes stay far from overflow */
    };

    return op->count <= MOST_PAIRS && !op->by_value &&
           (op->first == 0 || op->first + op->count == op->a.rows);
}

bool gram_krylov_pays(const struct gram_eigh_op *op)
{
    return op->a.rows >= PAYS_LEAST && op->count > 0 && op->count <= op->a.rows / PAYS_SHARE;
}

void gram_krylov_order(const struct krylov *z, int32_t *order)
{
    for (int64_t i = 0; i < z->k; i++) { /* one by one to their place: they are nearly in order */
        int64_t at = i;
        for (; at > 0 && z->wanted[order[at - 1]] > z->wanted[i]; at--)
            order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
}

void gram_krylov_report(const struct krylov *z, gram_eigh_report *to)
{
    double residual = z->norm > 0 ? z->residual / z->norm : 0;

    if (!to)
        return;
    to->products += z->products;
    if (z->complete && z->converged == z->k)
        to->residual = fmax(to->residual, residual);
}

/* ---- The polynomial -------------------------------------------------------------------------- */

/* T_3 is odd: what lies beyond the interval at the other end becomes smaller still, so that the
 * interval need not hold it.  It grows on one side of it only, in the order of the values.  The
 * degree is the number of products that a step takes. */
static int64_t degree_of(const struct krylov *z)
{
    return z->radius == 0 ? 1 : DEGREE;
}

/* The first basis has brought residuals less than half of the way down. */
static bool is_slow(const struct krylov *z)
{
    double worst = 0;

    for (int64_t i = 0; i < z->k; i++)
        worst = fmax(worst, z->residuals[i]);
    return worst > sqrt(z->tolerance) * z->norm;
}

/* Chooses p by the Ritz values of a basis, the best first; false: none is worth it, or it is too
 * late. */
static bool choose_filter(struct krylov *z)
{
    /* p is 26 at most at the first pair: few digits are lost; and it is above 1 at the last one by
     * what steps can tell apart: values that coincide are left to products of A. */
    static const double highest = 2, lowest = 1e-3;
    double cut = z->values[gram_least(z->k + 1, z->dim - 1)], end = z->values[z->dim - 1];
    double centre = (cut + end) / 2, radius = (cut - end) / 2;
    bool decided =
        z->decided; /* later on there is more to lose: copies of a value that are found */

    z->decided = true;
    if (decided || !z->filters || !is_slow(z) || !((z->values[0] - centre) / radius <= highest) ||
        !((z->values[z->k - 1] - cut) / radius >= lowest))
        return false;
    z->centre = centre;
    z->radius = radius;
    return true;
}

/* What residuals of p(A) at p(value) are to be divided by: an estimate from below. */
static double slope_at(const struct krylov *z, double filtered)
{
    double t;

    if (z->radius == 0)
        return 1;
    t = cosh(acosh(fmax(filtered, 1)) / DEGREE);
    return (12 * t * t - 3) / fabs(z->radius) / SLOPE_SHARE;
}

/* By T_j+1(x) = 2 x T_j(x) - T_j-1(x). */
static gram_status multiply_filtered(struct krylov *z)
{
    char *before = NULL, *now = z->q, *next = z->x, *free = z->w;

    for (int j = 0; j < DEGREE; j++) {
        const double scale = (j > 0 ? 2 : 1) / z->radius;
        const double by[3] = {scale, -scale * z->centre, j > 0 ? -1 : 0};
        TRY(z->multiply(z->user, z->width, now, next));
        TRY(z->ops->blend(z, z->width, j == DEGREE - 1 ? z->w : next,
                          (char *const[3]){next, now, before}, by));
        before = now;
        now = next;
        next = free;
        free = before;
    }
    return GRAM_OK;
}

/* W = A Q or p(A) Q, counted. */
static gram_status multiply(struct krylov *z)
{
    z->products += degree_of(z);
    if (z->radius == 0)
        return z->multiply(z->user, z->width, z->q, z->w);
    return multiply_filtered(z);
}

/* ---- Scratch --------------------------------------------------------------------------------- */

void gram_krylov_plan(struct krylov *z)
{
    z->element = gram_dtype_size(z->dtype);
    z->keep = gram_least(2 * z->k + MORE_KEPT, z->n);
    z->most = gram_least(2 * z->k + z->more, z->n);
}

void gram_krylov_take(struct krylov *z, struct gram_layout *l)
{
    const size_t m = (size_t)z->most, b = (size_t)z->block;
    const size_t square = m * m, small = b * b + 2 * b;
    int64_t lwork, liwork;

    z->small_eigh->sizes(gram_most(z->most, z->block), &lwork, &liwork);
    gram_take_many(l, &z->t, square, sizeof(double));
    gram_take_many(l, &z->s, square > small ? square : small, sizeof(double));
    gram_take_many(l, &z->gram, b * b, sizeof(double));
    gram_take_many(l, &z->values, m, sizeof(double));
    gram_take_many(l, &z->residuals, m, sizeof(double));
    gram_take_many(l, &z->before, m, sizeof(double));
    gram_take_many(l, &z->wanted, (size_t)z->k, sizeof(double));
    gram_take_many(l, &z->column, m * b, sizeof(double));
    gram_take_many(l, &z->other, m * b, sizeof(double));
    gram_take_many(l, &z->mix, b * b, sizeof(double));
    gram_take_many(l, &z->work, (size_t)lwork, sizeof(double));
    gram_take_many(l, &z->iwork, (size_t)liwork, sizeof(int32_t));
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
    TRY(multiply(z));
    z->steps++;
    z->dim += z->width;
    z->last = z->width;
    TRY(z->ops->project(z, z->dim, z->last));
    z->flops += z->step_flops +
                2 * (double)z->n * (double)z->last * (double)(degree_of(z) * z->n + 4 * z->dim);
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
        z->residuals[i] = residual_of(z, &z->s[i * m + d - z->last]) / slope_at(z, z->values[i]);
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
    if (!(left * (double)degree_of(z) < rate * (double)(z->most_products - z->products)))
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
        else if (is_full(z) && choose_filter(z))
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

gram_status gram_krylov_run(struct krylov *z)
{
    double tolerance = z->tolerance / 2;
    int64_t least = 0;
    int failed = 0;

    z->x = z->filters ? z->w + (size_t)(z->n * z->block) * z->element : NULL;
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
