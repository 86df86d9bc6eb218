/*
 * matrix_power_run.c - powers by products of matrices, and their error, for any device
 *
 * gram.h has the formulas and their sources.  Iterates are polynomials in one symmetric matrix, so
 * that they commute, but for Newton-Schulz: with M X made symmetric its rounding errors grow, and
 * its products are whole ones.
 *
 * It is without state of its own, so that the library and its plugins have a copy each.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power.h"
#include <math.h>
#include <stdlib.h>

static void swap(char **a, char **b)
{
    char *kept = *a;

    *a = *b;
    *b = kept;
}

/* ---- Products, by way of T ------------------------------------------------------------------- */

/* to = a b; to may be a or b. */
static gram_status multiply(struct gram_power_run *r, const char *a, const char *b, char **to)
{
    TRY(r->passes->multiply(r, a, b, r->s.t));
    swap(to, &r->s.t);
    return GRAM_OK;
}

static gram_status commute(struct gram_power_run *r, const char *a, const char *b, char **to)
{
    TRY(r->passes->commute(r, a, b, r->s.t));
    swap(to, &r->s.t);
    return GRAM_OK;
}

static gram_status raise(struct gram_power_run *r, const char *b)
{
    TRY(r->passes->raise(r, r->s.x, b, r->s.t));
    swap(&r->s.x, &r->s.t);
    return GRAM_OK;
}

static gram_status combine(struct gram_power_run *r, enum gram_power_numbers what, const char *from,
                           char *to)
{
    return r->passes->combine(r, what, from, to);
}

/* ---- MINIMAX --------------------------------------------------------------------------------- */

/*
 * The best w = a + b y for eigenvalues y in [low, high]: y^(1/q) (a + b y) rises from low to
 * y' = -a / (b (1 + q)) and falls to high, so it leaves 1 least where its values at low and high
 * are 1 - e and that at y' is 1 + e.  Returns e.
 */
double gram_power_minimax(double q, double low, double high, double ab[2])
{
    double p = 1 / q;
    double t = high - low > 1e-9 * high
                   ? (pow(high, p) - pow(low, p)) / (pow(high, 1 + p) - pow(low, 1 + p))
                   : 1 / ((1 + q) * low);
    double least = pow(low, p) * (1 - t * low), peak = 1 / (t * (1 + q));
    double most = pow(peak, p) * (1 - t * peak);

    ab[0] = 2 / (least + most);
    ab[1] = -ab[0] * t;
    return (most - least) / (most + least);
}

/* ---- Iterations ------------------------------------------------------------------------------ */

/* X = X W, M = W^q M; X is I at first, and M is not wanted at last. */
static gram_status multiply_coupled(struct gram_power_run *r, bool first, bool last)
{
    struct gram_power_matrices *s = &r->s;

    if (first)
        TRY(combine(r, GRAM_POWER_COPY, s->w, s->x));
    else
        TRY(commute(r, s->x, s->w, &s->x));
    for (int q = last ? 0 : r->op->denominator; q > 0; q /= 2) {
        if (q % 2)
            TRY(commute(r, s->w, s->m, &s->m));
        if (q > 1)
            TRY(commute(r, s->w, s->w, &s->w));
    }
    return GRAM_OK;
}

/* X becomes B^(-1/q): Newton, or the polynomials of MINIMAX. */
static gram_status coupled(struct gram_power_run *r)
{
    bool last = false;

    TRY(combine(r, GRAM_POWER_FIRST, r->s.b, r->s.m));
    for (int i = 0; !last; i++) {
        TRY(r->passes->begin_step(r, i));
        TRY(r->passes->polynomial(r, i, r->s.m, &last));
        TRY(multiply_coupled(r, i == 0, last));
    }
    TRY(r->passes->end(r));
    return combine(r, GRAM_POWER_LAST, r->s.x, r->s.x);
}

/* X becomes the square root of X, M its inverse; the largest eigenvalue of X is at most about 1. */
static gram_status newton_schulz(struct gram_power_run *r)
{
    struct gram_power_matrices *s = &r->s;
    bool last = false;

    TRY(r->passes->restart(r));
    TRY(combine(r, GRAM_POWER_IDENTITY, s->m, s->m));
    for (int i = 0; !last; i++) {
        TRY(r->passes->begin_step(r, i));
        TRY(multiply(r, s->m, s->x, &s->w));
        TRY(r->passes->polynomial(r, i, s->w, &last));
        TRY(multiply(r, s->x, s->w, &s->x));
        TRY(multiply(r, s->w, s->m, &s->m));
    }
    return r->passes->end(r);
}

/* X becomes B^(1/q), or B^(-1/q) if the power is negative. */
static gram_status square_roots(struct gram_power_run *r)
{
    TRY(combine(r, GRAM_POWER_FIRST, r->s.b, r->s.x));
    for (int q = r->op->denominator; q > 1; q /= 2)
        TRY(newton_schulz(r));
    if (r->op->numerator < 0)
        swap(&r->s.x, &r->s.m);
    return combine(r, GRAM_POWER_LAST, r->s.x, r->s.x);
}

/* X = X^k; M is free. */
static gram_status raise_to(struct gram_power_run *r, int k)
{
    if (k > 1)
        TRY(combine(r, GRAM_POWER_COPY, r->s.x, r->s.m));
    for (int i = 1; i < k; i++)
        TRY(raise(r, r->s.m));
    return GRAM_OK;
}

/* The power of B from what a method makes: B^(-1/q), or, Newton-Schulz, B^(1/q) where k > 0. */
gram_status gram_power_iterate(struct gram_power_run *r)
{
    const bool roots = r->op->method == GRAM_POWER_NEWTON_SCHULZ;
    const int k = r->op->numerator, q = r->op->denominator, whole = k > 0 ? (k + q - 1) / q : 0;

    if (k > 0 && q == 1) { /* a whole power */
        TRY(combine(r, GRAM_POWER_COPY, r->s.b, r->s.x));
        return raise_to(r, k);
    }
    TRY(roots ? square_roots(r) : coupled(r));
    TRY(raise_to(r, k < 0 || roots ? abs(k) : whole * q - k));
    for (int i = 0; i < whole && !roots; i++)
        TRY(raise(r, r->s.b));
    return GRAM_OK;
}

/* ---- The error estimate ---------------------------------------------------------------------- */

/* X^q against B^k: |B^k|, |X^q - B^k| and |X^q|. */
static gram_status compare_root(struct gram_power_run *r)
{
    struct gram_power_matrices *s = &r->s;

    TRY(combine(r, GRAM_POWER_COPY, s->b, s->m));
    for (int i = 1; i < r->op->numerator; i++)
        TRY(multiply(r, s->m, s->b, &s->m));
    TRY(combine(r, GRAM_POWER_COPY, s->x, s->w));
    for (int i = 1; i < r->op->denominator; i++)
        TRY(multiply(r, s->w, s->x, &s->w));
    TRY(r->passes->distance(r, 0, s->m, 0, NULL));
    TRY(r->passes->distance(r, 1, s->w, 0, s->m));
    return r->passes->distance(r, 2, s->w, 0, NULL);
}

/* Where the power is negative, X^q B^k against I.  Its factors are taken from both sides in turn,
 * and in an order that keeps the product near to I: M is B^(excess / q) so far. */
gram_status gram_power_estimate(struct gram_power_run *r)
{
    struct gram_power_matrices *s = &r->s;
    int q = r->op->denominator, k = -r->op->numerator, excess = q, x_taken = 0, b_taken = 1;

    TRY(r->passes->reload(r));
    if (r->op->numerator > 0)
        return compare_root(r);
    TRY(combine(r, GRAM_POWER_COPY, s->b, s->m));
    while (x_taken < q || b_taken < k) {
        bool by_x = excess > 0;
        char *by = by_x ? s->x : s->b;
        bool left = by_x ? x_taken++ % 2 == 0 : b_taken++ % 2 == 1;
        TRY(multiply(r, left ? by : s->m, left ? s->m : by, &s->m));
        excess += by_x ? -k : q;
    }
    return r->passes->distance(r, 0, s->m, 1, NULL);
}
