/*
 * table_encoder.c - statistics of training columns, and rows of features by them
 *
 * Quantiles interpolate linearly between the two nearest values, as NumPy's do.  Means and
 * deviations are taken of values divided by their largest magnitude: squares cannot overflow.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_AT_A_TIME = 1024
};

/* Features are kept within this, far beyond any data of use: their squares stay finite in f32. */
static const double most = 1e15;

static gram_status no_memory(gram_context *g, const char *column)
{
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate memory to encode column \"%s\"",
                     column);
}

/* ---- Fitting -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int64_t count, double q)
{
    double at = q * (double)(count - 1);
    int64_t low = (int64_t)at, high = low + 1 < count ? low + 1 : low;
    double part = at - (double)low;

    return sorted[low] * (1 - part) + sorted[high] * part;
}

/* Mean and population standard deviation of sorted values. */
static void moments(const double *v, int64_t count, double *mean, double *deviation)
{
    double unit = fmax(fabs(v[0]), fabs(v[count - 1])), sum = 0, squares = 0;

    unit = unit > 0 ? unit : 1;
    for (int64_t i = 0; i < count; i++)
        sum += v[i] / unit;
    sum /= (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (v[i] / unit - sum) * (v[i] / unit - sum);
    *mean = sum * unit;
    *deviation = sqrt(squares / (double)count) * unit;
}

static void fit_scale(struct gram_encoded_column *c, const double *sorted, int64_t count,
                      enum gram_scaling scaling)
{
    double mean, deviation, spread;

    if (count == 0)
        return; /* shift, scale and fill stay 0 */
    c->fill = c->shift = quantile(sorted, count, 0.5);
    if (sorted[0] == sorted[count - 1])
        return; /* not by the deviation, which rounding makes positive */
    moments(sorted, count, &mean, &deviation);
    spread = (quantile(sorted, count, 0.75) - quantile(sorted, count, 0.25)) / 1.349;
    if (scaling == GRAM_STANDARDISE)
        c->shift = mean;
    if (scaling == GRAM_STANDARDISE || !(spread > 0 && isfinite(1 / spread)))
        spread = deviation;
    c->scale = isfinite(spread) && isfinite(1 / spread) ? 1 / spread : 0;
}

static gram_status fit_numbers(gram_context *g, const gram_column *from, const int64_t *rows,
                               int64_t count, enum gram_scaling scaling,
                               struct gram_encoded_column *c)
{
    double *value = malloc((size_t)(count > 0 ? count : 1) * sizeof *value);
    int64_t present = 0;

    if (!value)
        return no_memory(g, from->name);
    for (int64_t i = 0; i < count; i++)
        if (!isnan(from->numbers[rows[i]]))
            value[present++] = from->numbers[rows[i]];
    qsort(value, (size_t)present, sizeof *value, by_value);
    fit_scale(c, value, present, scaling);
    free(value);
    c->missing = present > 0 && present < count;
    c->width = 1 + c->missing;
    return GRAM_OK;
}

static gram_status fit_column(gram_context *g, const gram_column *from, const int64_t *rows,
                              int64_t count, const struct gram_encoding *how,
                              struct gram_encoded_column *c)
{
    c->name = strdup(from->name);
    if (!c->name)
        return no_memory(g, from->name);
    if (from->labels)
        return gram_categories_fit(g, from, rows, count, how->max_categories, c);
    return fit_numbers(g, from, rows, count, how->scaling, c);
}

gram_status gram_encoder_fit(gram_context *g, const gram_table *table, const char *target,
                             const int64_t *rows, int64_t count, const struct gram_encoding *how,
                             struct gram_encoder **out)
{
    struct gram_encoder *e = calloc(1, sizeof *e);
    gram_status status = GRAM_OK;

    *out = NULL;
    if (e)
        e->column = calloc((size_t)table->columns + 1, sizeof *e->column);
    if (!e || !e->column) {
        gram_encoder_destroy(e);
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate an encoder of %lld columns",
                         (long long)table->columns);
    }
    e->squash = how->scaling == GRAM_ROBUST;
    for (int64_t i = 0; status == GRAM_OK && i < table->columns; i++) {
        struct gram_encoded_column *c = &e->column[e->columns];
        if (target && strcmp(table->column[i].name, target) == 0)
            continue;
        e->columns++;
        status = fit_column(g, &table->column[i], rows, count, how, c);
        c->first = e->width;
        e->width += c->width;
    }
    if (status == GRAM_OK && e->columns == 0)
        status = gram_fail(g, GRAM_INVALID_ARGUMENT,
                           "table has no column to learn from, expected one besides the target");
    if (status == GRAM_OK)
        *out = e;
    else
        gram_encoder_destroy(e);
    return status;
}

void gram_encoder_destroy(struct gram_encoder *encoder)
{
    if (!encoder)
        return;
    for (int64_t i = 0; i < encoder->columns; i++) {
        struct gram_encoded_column *c = &encoder->column[i];
        for (int64_t j = 0; j < c->categories; j++)
            free(c->category[j]);
        free(c->category);
        free(c->name);
    }
    free(encoder->column);
    free(encoder);
}

/* ---- Applying ------------------------------------------------------------------------------- */

struct apply {
    const struct gram_encoder *encoder;
    const gram_column **from; /* of each encoded column */
    const int64_t *rows;
    int64_t count;
    gram_dtype dtype;
    void *features;
};

static double number_feature(const struct gram_encoder *e, const struct gram_encoded_column *c,
                             double value)
{
    double t;

    if (c->scale == 0)
        return 0;
    t = ((isnan(value) ? c->fill : value) - c->shift) * c->scale;
    if (e->squash && isfinite(t * t))
        t = t / sqrt(1 + (t / 3) * (t / 3));
    else if (e->squash)
        t = copysign(3, t);
    return t > most ? most : t < -most ? -most : t;
}

static void put(const struct apply *a, int64_t at, double value)
{
    if (a->dtype == GRAM_F32)
        ((float *)a->features)[at] = (float)value;
    else
        ((double *)a->features)[at] = value;
}

static void apply_rows(void *arg, int64_t index, int thread)
{
    const struct apply *a = arg;
    const struct gram_encoder *e = a->encoder;
    int64_t first = index * ROWS_AT_A_TIME, last = first + ROWS_AT_A_TIME;

    (void)thread;
    for (int64_t i = first; i < last && i < a->count; i++) {
        int64_t row = a->rows ? a->rows[i] : i;
        for (int64_t j = 0; j < e->columns; j++) {
            const struct gram_encoded_column *c = &e->column[j];
            int64_t at = i * e->width + c->first, hot;
            if (!c->category) {
                double value = a->from[j]->numbers[row];
                put(a, at, number_feature(e, c, value));
                if (c->missing)
                    put(a, at + 1, isnan(value) ? 1 : 0);
                continue;
            }
            hot = gram_category_feature(c, a->from[j]->labels[row]);
            for (int64_t k = 0; k < c->width; k++)
                put(a, at + k, k == hot ? 1 : 0);
        }
    }
}

static gram_status find_columns(gram_context *g, const struct gram_encoder *e,
                                const gram_table *table, const gram_column **sorted,
                                const gram_column **from)
{
    for (int64_t i = 0; i < e->columns; i++) {
        const struct gram_encoded_column *c = &e->column[i];
        from[i] = gram_table_find(table, sorted, c->name);
        if (!from[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "table has no column \"%s\", which the machine was trained with",
                             c->name);
        if (table->rows > 0 && (c->category ? !from[i]->labels : !from[i]->numbers))
            return gram_fail(
                g, GRAM_INVALID_ARGUMENT, "column \"%s\" holds %s, expected %s as in training",
                c->name, c->category ? "numbers" : "labels", c->category ? "labels" : "numbers");
    }
    return GRAM_OK;
}

gram_status gram_encoder_apply(gram_context *g, const struct gram_encoder *encoder,
                               const gram_table *table, const int64_t *rows, int64_t count,
                               gram_dtype dtype, void *features)
{
    const gram_column **from = malloc(((size_t)encoder->columns + 1) * sizeof *from);
    const gram_column **sorted = gram_table_sorted(table);
    struct apply a = {encoder, from, rows, count, dtype, features};
    gram_status status;

    if (from && sorted)
        status = find_columns(g, encoder, table, sorted, from);
    else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a list of %lld columns",
                           (long long)encoder->columns);
    if (status == GRAM_OK)
        gram_parallel_for(g, gram_ceil_div(count, ROWS_AT_A_TIME), apply_rows, &a);
    free(sorted);
    free(from);
    return status;
}
