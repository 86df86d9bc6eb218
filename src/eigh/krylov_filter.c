/*
 * krylov_filter.c - the polynomial of A by which the Krylov solver multiplies, see krylov.h
 *
 * T_3 is odd: what lies beyond the interval at the other end becomes smaller still, so that the
 * interval need not hold it.  It grows on one side of it only, in the order of the values.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov.h"
#include <math.h>

enum {
    DEGREE = 3,
    SLOPE_SHARE = 3 /* the slope at a value over it: about what residuals are made smaller by (seen
                       on random matrices) */
};

int64_t gram_krylov_degree(const struct krylov *z)
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

bool gram_krylov_choose_filter(struct krylov *z)
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

double gram_krylov_slope(const struct krylov *z, double filtered)
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

gram_status gram_krylov_multiply(struct krylov *z)
{
    z->products += gram_krylov_degree(z);
    if (z->radius == 0)
        return z->multiply(z->user, z->width, z->q, z->w);
    return multiply_filtered(z);
}
