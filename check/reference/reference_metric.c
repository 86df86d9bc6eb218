/*
 * reference_metric.c - the distances of gram_distance as their formulas say
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

/* Two rows and the weights of their coordinates, one by one. */
struct rows {
    const gram_tensor *x, *y, *weights;
    const struct reference_batch *batch;
    int64_t item, i, j, columns;
    bool packed; /* columns are bits, the first one the highest of the first byte */
};

static double at(const struct rows *r, bool of_y, int64_t k)
{
    if (r->packed)
        return (int)reference_element(of_y ? r->y : r->x, r->batch, r->item, 2,
                                      (int64_t[]){of_y ? r->j : r->i, k / 8}) >>
                   (7 - k % 8) &
               1;
    return reference_element(of_y ? r->y : r->x, r->batch, r->item, 2,
                             (int64_t[]){of_y ? r->j : r->i, k});
}

static double weight(const struct rows *r, int64_t k)
{
    return r->weights ? reference_element(r->weights, r->batch, r->item, 1, (int64_t[]){k}) : 1;
}

/* ---- Sums of one row ------------------------------------------------------------------------- */

static double weights_of(const struct rows *r)
{
    double sum = 0;

    for (int64_t k = 0; k < r->columns; k++)
        sum += weight(r, k);
    return sum;
}

/* The mean is subtracted twice: the second time what rounding left. */
static double mean_of(const struct rows *r, bool of_y)
{
    double mean = 0;

    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (int64_t k = 0; k < r->columns; k++)
            sum += weight(r, k) * (at(r, of_y, k) - mean);
        mean += sum / weights_of(r);
    }
    return mean;
}

/* The sum of a row; negative where it is no distribution. */
static double mass_of(const struct rows *r, bool of_y)
{
    double sum = 0;
    bool none = false;

    for (int64_t k = 0; k < r->columns; k++) {
        none |= at(r, of_y, k) < 0;
        sum += at(r, of_y, k);
    }
    return none || sum == 0 ? -1 : sum;
}

/* ---- Distances ------------------------------------------------------------------------------- */

static double minkowski(const struct rows *r, double p, bool no_root)
{
    double sum = 0;

    for (int64_t k = 0; k < r->columns; k++) {
        double d = fabs(at(r, false, k) - at(r, true, k)), w = weight(r, k);
        if (isinf(p))
            sum = (w > 0 && d > sum) || isnan(d) ? d : sum;
        else
            sum += w * pow(d, p);
    }
    return no_root || isinf(p) ? sum : pow(sum, 1 / p);
}

static double seuclidean(const struct rows *r, bool no_root)
{
    double sum = 0;

    for (int64_t k = 0; k < r->columns; k++)
        sum += pow(at(r, false, k) - at(r, true, k), 2) / weight(r, k);
    return no_root ? sum : sqrt(sum);
}

/* Of unit rows half of the squared difference, which loses no digits between near rows. */
static double angle(const struct rows *r, bool centred)
{
    double mean[2] = {centred ? mean_of(r, false) : 0, centred ? mean_of(r, true) : 0};
    double square[2] = {0, 0}, sum = 0;

    for (int64_t k = 0; k < r->columns; k++)
        for (int side = 0; side < 2; side++)
            square[side] += weight(r, k) * pow(at(r, side, k) - mean[side], 2);
    for (int64_t k = 0; k < r->columns; k++)
        sum += weight(r, k) * pow((at(r, false, k) - mean[0]) / sqrt(square[0]) -
                                      (at(r, true, k) - mean[1]) / sqrt(square[1]),
                                  2);
    return sum / 2;
}

static double jensen_shannon(const struct rows *r, bool no_root)
{
    double mass[2] = {mass_of(r, false), mass_of(r, true)}, sum = 0;

    if (mass[0] < 0 || mass[1] < 0)
        return isnan(mass[0]) || isnan(mass[1]) ? NAN : INFINITY;
    for (int64_t k = 0; k < r->columns; k++) {
        double a = at(r, false, k) / mass[0], b = at(r, true, k) / mass[1], m = (a + b) / 2;
        double t = m > 0 ? (a - b) / (a + b) : 0;
        if (fabs(t) < 1e-3) /* the series of the same, whose logarithms cancel */
            sum += weight(r, k) * m * t * t * (1 + t * t / 6);
        else
            sum += weight(r, k) * ((a == 0 ? 0 : a * log(a / m)) + (b == 0 ? 0 : b * log(b / m)));
        if (isnan(a) || isnan(b))
            sum = NAN;
    }
    return no_root ? sum / 2 : sqrt(sum / 2);
}

static double kullback_leibler(double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a < 0 || b < 0)
        return INFINITY;
    return a == 0 ? 0 : a * log(a / b);
}

/* The other sums: s, and t where there are two. */
static void sums(const struct rows *r, gram_distance_kind kind, double *s, double *t)
{
    *s = *t = 0;
    for (int64_t k = 0; k < r->columns; k++) {
        double a = at(r, false, k), b = at(r, true, k), w = weight(r, k), d = fabs(a - b);
        switch (kind) {
        case GRAM_DISTANCE_CANBERRA:
            *s += a == 0 && b == 0 ? 0 : w * d / (fabs(a) + fabs(b));
            break;
        case GRAM_DISTANCE_BRAYCURTIS:
            *s += w * d, *t += w * fabs(a + b);
            break;
        case GRAM_DISTANCE_HAMMING:
            *s += a != b ? w : 0, *t += w;
            break;
        case GRAM_DISTANCE_JACCARD:
            *s += (a != 0) != (b != 0) ? w : 0, *t += a != 0 || b != 0 ? w : 0;
            break;
        case GRAM_DISTANCE_KULLBACK_LEIBLER:
            *s += w * kullback_leibler(a, b);
            break;
        case GRAM_DISTANCE_HELLINGER:
            *s += w * pow(sqrt(a) - sqrt(b), 2) / 2;
            break;
        case GRAM_DISTANCE_CHI2:
            *s += a + b == 0 ? 0 : w * d * d / (a + b);
            break;
        default: /* GRAM_DISTANCE_NAN_EUCLIDEAN */
            *s += isnan(a) || isnan(b) ? 0 : w * d * d, *t += isnan(a) || isnan(b) ? 0 : w;
            break;
        }
    }
}

static double haversine(const struct rows *r)
{
    const double s = sin((at(r, false, 0) - at(r, true, 0)) / 2);
    const double t = sin((at(r, false, 1) - at(r, true, 1)) / 2);
    const double half = sqrt(s * s + cos(at(r, false, 0)) * cos(at(r, true, 0)) * t * t);

    return 2 * asin(half > 1 ? 1 : half); /* a NaN stays one */
}

static double of_sums(const struct rows *r, gram_distance_kind kind, bool no_root)
{
    double s, t;

    sums(r, kind, &s, &t);
    switch (kind) {
    case GRAM_DISTANCE_BRAYCURTIS:
    case GRAM_DISTANCE_HAMMING:
        return s / t;
    case GRAM_DISTANCE_JACCARD:
        return s == 0 ? 0 : s / t;
    case GRAM_DISTANCE_HELLINGER:
        return no_root ? s : sqrt(s);
    case GRAM_DISTANCE_NAN_EUCLIDEAN:
        s *= weights_of(r) / t;
        return no_root ? s : sqrt(s);
    default:
        return s;
    }
}

double reference_metric(const gram_tensor *x, const gram_tensor *y, const gram_distance *metric,
                        int no_root, const struct reference_batch *batch, const int64_t item_ij[3])
{
    const struct rows r = {x,
                           y ? y : x,
                           metric->weights,
                           batch,
                           item_ij[0],
                           item_ij[1],
                           item_ij[2],
                           metric->bits ? metric->bits : x->shape[x->ndim - 1],
                           metric->bits != 0};

    switch (metric->kind) {
    case GRAM_DISTANCE_MINKOWSKI:
        return minkowski(&r, reference_scalar(metric->p, batch, item_ij[0]), no_root != 0);
    case GRAM_DISTANCE_SEUCLIDEAN:
        return seuclidean(&r, no_root != 0);
    case GRAM_DISTANCE_COSINE:
    case GRAM_DISTANCE_CORRELATION:
        return angle(&r, metric->kind == GRAM_DISTANCE_CORRELATION);
    case GRAM_DISTANCE_JENSENSHANNON:
        return jensen_shannon(&r, no_root != 0);
    case GRAM_DISTANCE_HAVERSINE:
        return haversine(&r);
    default:
        return of_sums(&r, metric->kind, no_root != 0);
    }
}
