/*
 * metric_loops.h - template: what panels become for a metric before its sums
 *
 * Parameters: SOURCE, real and HALF; see each_dtype.h.  panel[k * width + r] is row r, column k;
 * the first count rows exist.  Sums are made in double.
 *
 * SPDX-License-Identifier: MIT
 */

/* Columns times factors. */
static void CAT(scale, SOURCE)(const struct metric_panel *p)
{
    real *panel = p->panel;

    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++) {
            const double e = (double)panel[k * p->width + r], f = p->factors[k];
            panel[k * p->width + r] = (real)(f == 0 && e == e ? 0 : e * f); /* also for infinity */
        }
}

static void CAT(roots, SOURCE)(const struct metric_panel *p)
{
    real *panel = p->panel;

    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++) {
            double e = (double)panel[k * p->width + r];
            panel[k * p->width + r] = (real)(sqrt(e) * p->factors[k]);
        }
}

/* 1 where a number is not 0, as a NaN is. */
static void CAT(ones, SOURCE)(const struct metric_panel *p)
{
    real *panel = p->panel;

    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++)
            panel[k * p->width + r] = panel[k * p->width + r] != 0;
}

/* The third column, which nobody has packed: cosines of the first. */
static void CAT(cosines, SOURCE)(const struct metric_panel *p)
{
    real *panel = p->panel;

    for (int64_t r = 0; r < p->width; r++)
        panel[2 * p->width + r] = r < p->count ? (real)cos((double)panel[r]) : 0;
}

/* Weighted means, where centred; factors are the roots of weights.  The second pass adds what the
 * first one lost, so that a row of equal numbers becomes zeros. */
static void CAT(find_means, SOURCE)(const struct metric_panel *p, double *mean)
{
    const real *panel = p->panel;

    for (int64_t r = 0; r < p->count; r++)
        mean[r] = 0;
    for (int pass = 0; pass < 2 && p->centred; pass++) {
        double sum[METRIC_WIDTH] = {0};
        for (int64_t k = 0; k < p->depth; k++) {
            double w = p->factors[k] * p->factors[k];
            for (int64_t r = 0; r < p->count; r++)
                sum[r] += w * ((double)panel[k * p->width + r] - mean[r]);
        }
        for (int64_t r = 0; r < p->count; r++)
            mean[r] += sum[r] / p->total;
    }
}

/* Rows of length 1, less their means where centred. */
static void CAT(normalise, SOURCE)(const struct metric_panel *p)
{
    double mean[METRIC_WIDTH], square[METRIC_WIDTH] = {0};
    real *panel = p->panel;

    CAT(find_means, SOURCE)(p, mean);
    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++) {
            double e = ((double)panel[k * p->width + r] - mean[r]) * p->factors[k];
            square[r] += e * e;
        }
    for (int64_t r = 0; r < p->count; r++)
        square[r] = square[r] >= DBL_MIN && square[r] < INFINITY ? 1 / sqrt(square[r]) : NAN;
    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++) {
            double e = ((double)panel[k * p->width + r] - mean[r]) * p->factors[k];
            panel[k * p->width + r] = (real)(e * square[r]);
        }
}

/* Rows of sum 1; -1 everywhere in a row that is no distribution, which the terms know. */
static void CAT(distribute, SOURCE)(const struct metric_panel *p)
{
    double sum[METRIC_WIDTH] = {0};
    bool none[METRIC_WIDTH] = {false};
    real *panel = p->panel;

    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++) {
            sum[r] += (double)panel[k * p->width + r];
            none[r] |= panel[k * p->width + r] < 0;
        }
    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t r = 0; r < p->count; r++) {
            double e = (double)panel[k * p->width + r] / sum[r];
            panel[k * p->width + r] = none[r] || sum[r] == 0 ? -1 : (real)e;
        }
}
