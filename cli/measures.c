/*
 * measures.c - how good predictions are
 *
 * SPDX-License-Identifier: MIT
 */
#include "measures.h"
#include <math.h>
#include <stdlib.h>

/* ---- Classes ------------------------------------------------------------------------------ */

/* A row as one class sees it. */
struct ranked {
    double p;
    int positive;
};

static int by_probability(const void *a, const void *b)
{
    const double x = ((const struct ranked *)a)->p, y = ((const struct ranked *)b)->p;

    return (x > y) - (x < y);
}

/*
 * The area under the curve from sorted probabilities: every positive row wins against the negative
 * rows below it, and half against those with the same probability.
 */
static double area(struct ranked *sorted, int64_t count)
{
    double wins = 0, positives = 0, negatives = 0;

    qsort(sorted, (size_t)count, sizeof *sorted, by_probability);
    for (int64_t i = 0; i < count;) {
        double group_positives = 0, group_negatives = 0;
        const double p = sorted[i].p;
        for (; i < count && sorted[i].p == p; i++)
            *(sorted[i].positive ? &group_positives : &group_negatives) += 1;
        wins += group_positives * (negatives + group_negatives / 2);
        positives += group_positives;
        negatives += group_negatives;
    }
    return positives > 0 && negatives > 0 ? wins / (positives * negatives) : NAN;
}

int64_t class_most_probable(const double *p, int64_t classes)
{
    int64_t best = 0;

    for (int64_t k = 1; k < classes; k++)
        best = p[k] > p[best] ? k : best;
    return best;
}

/* The bin whose upper end is the first that is not below p: (0, 1/15], (1/15, 2/15], ... */
static int bin_of(double p)
{
    const double bin = ceil(p * CALIBRATION_BINS) - 1;

    return bin < 0 ? 0 : bin > CALIBRATION_BINS - 1 ? CALIBRATION_BINS - 1 : (int)bin;
}

/* Everything but the areas, as sums over rows. */
static void count_row(struct class_measures *m, int64_t truth, const double *p)
{
    const int64_t chosen = class_most_probable(p, m->classes);
    struct confidence_bin *bin = &m->bin[bin_of(p[chosen])];

    m->rows++;
    m->confusion[(truth < 0 ? m->classes : truth) * m->classes + chosen]++;
    m->class[chosen].predicted++;
    bin->rows++;
    bin->confidence += p[chosen];
    bin->right += truth == chosen;
    for (int64_t k = 0; k < m->classes; k++) {
        const double e = p[k] - (k == truth);
        m->brier += e * e;
    }
    if (truth < 0) {
        m->unknown++;
        return;
    }
    m->class[truth].rows++;
    m->class[truth].right += truth == chosen;
    m->accuracy += truth == chosen;
    m->log_loss -= log(p[truth]);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static void finish_classes(struct class_measures *m)
{
    double recalls = 0, present = 0, f1s = 0, seen = 0, areas = 0, drawn = 0;

    for (int64_t k = 0; k < m->classes; k++) {
        struct class_measure *c = &m->class[k];
        c->precision = ratio((double)c->right, (double)c->predicted);
        c->recall = ratio((double)c->right, (double)c->rows);
        c->f1 = ratio(2 * (double)c->right, (double)(c->rows + c->predicted));
        if (c->rows > 0)
            recalls += c->recall, present++;
        if (!isnan(c->f1))
            f1s += c->f1, seen++;
        if (!isnan(c->auc))
            areas += c->auc, drawn++;
    }
    m->balanced_accuracy = ratio(recalls, present);
    m->f1 = ratio(f1s, seen);
    m->auc = ratio(areas, drawn);
}

static void finish_rows(struct class_measures *m)
{
    const double rows = (double)m->rows;
    double gap = 0;

    for (int i = 0; i < CALIBRATION_BINS; i++)
        gap += fabs(m->bin[i].confidence - m->bin[i].right);
    m->accuracy = ratio(m->accuracy, rows);
    m->log_loss = ratio(m->log_loss, rows - (double)m->unknown);
    m->brier = ratio(m->classes == 2 ? m->brier / 2 : m->brier, rows);
    m->calibration_error = ratio(gap, rows);
}

enum exit_status class_measures_make(const int64_t *truth, const double *proba, int64_t rows,
                                     int64_t classes, struct class_measures *out,
                                     struct failure *why)
{
    struct ranked *sorted = malloc((size_t)(rows + 1) * sizeof *sorted);

    *out = (struct class_measures){.classes = classes};
    out->class = calloc((size_t)classes + 1, sizeof *out->class);
    out->confusion = calloc((size_t)(classes * (classes + 1) + 1), sizeof *out->confusion);
    if (!sorted || !out->class || !out->confusion) {
        free(sorted);
        return fail_memory(why, "the measures of the classes");
    }
    for (int64_t row = 0; row < rows; row++)
        if (truth[row] != CLASS_MISSING)
            count_row(out, truth[row], proba + row * classes);
    for (int64_t k = 0; k < classes; k++) {
        int64_t count = 0;
        for (int64_t row = 0; row < rows && out->class[k].rows > 0; row++)
            if (truth[row] != CLASS_MISSING)
                sorted[count++] = (struct ranked){proba[row * classes + k], truth[row] == k};
        out->class[k].auc = area(sorted, count);
    }
    free(sorted);
    finish_classes(out);
    finish_rows(out);
    return CLI_OK;
}

void class_measures_free(struct class_measures *m)
{
    free(m->class);
    free(m->confusion);
    m->class = NULL;
    m->confusion = NULL;
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A power of two near the largest truth, by which everything is divided before it is squared. */
static double unit_of(const double *truth, int64_t rows)
{
    double largest = 0;

    for (int64_t i = 0; i < rows; i++)
        largest = fmax(largest, fabs(truth[i])); /* NaN is not a maximum */
    return largest > 0 && isfinite(largest) ? ldexp(1, ilogb(largest)) : 1;
}

enum exit_status number_measures_make(const double *truth, const double *value, int64_t rows,
                                      struct number_measures *out, struct failure *why)
{
    const double unit = unit_of(truth, rows);
    double *errors = malloc((size_t)(rows + 1) * sizeof *errors);
    double mean = 0, squared = 0, absolute = 0, spread = 0, count;
    int64_t n = 0;

    *out = (struct number_measures){0, NAN, NAN, NAN, NAN};
    if (!errors)
        return fail_memory(why, "the errors of the predictions");
    for (int64_t i = 0; i < rows; i++)
        if (!isnan(truth[i]))
            mean += truth[i] / unit, errors[n++] = fabs(value[i] / unit - truth[i] / unit);
    out->rows = n;
    count = (double)n;
    mean /= count;
    for (int64_t i = 0; i < rows; i++)
        if (!isnan(truth[i]))
            spread += (truth[i] / unit - mean) * (truth[i] / unit - mean);
    for (int64_t i = 0; i < n; i++)
        squared += errors[i] * errors[i], absolute += errors[i];
    if (n > 0) {
        qsort(errors, (size_t)n, sizeof *errors, by_size);
        out->median = (errors[(n - 1) / 2] / 2 + errors[n / 2] / 2) * unit;
        out->rmse = sqrt(squared / count) * unit;
        out->mae = absolute / count * unit;
        out->r2 = spread > 0 ? 1 - squared / spread : NAN;
    }
    free(errors);
    return CLI_OK;
}

/* ---- Intervals and sets ------------------------------------------------------------------- */

struct coverage interval_coverage(const double *truth, const double *ends, int64_t rows,
                                  double level)
{
    const double unit = unit_of(truth, rows);
    double count = 0, held = 0, width = 0;

    for (int64_t i = 0; i < rows; i++) {
        const double *end = ends + 2 * i;
        if (isnan(truth[i]))
            continue;
        count++;
        held += end[0] <= truth[i] && truth[i] <= end[1];
        width += end[1] / unit - end[0] / unit;
    }
    return (struct coverage){level, ratio(held, count), ratio(width, count) * unit};
}

struct coverage set_coverage(const int64_t *truth, const int32_t *place, int64_t rows,
                             int64_t classes, double level)
{
    double count = 0, held = 0, size = 0;

    for (int64_t i = 0; i < rows; i++) {
        const int32_t *set = place + i * classes;
        if (truth[i] == CLASS_MISSING)
            continue;
        count++;
        held += truth[i] >= 0 && set[truth[i]] > 0;
        for (int64_t k = 0; k < classes; k++)
            size += set[k] > 0;
    }
    return (struct coverage){level, ratio(held, count), ratio(size, count)};
}
