/*
 * table.c - tables of columns, and the encoding of their rows as features
 *
 * Quantiles interpolate linearly between the two nearest values, as NumPy's do.  Means and
 * deviations are taken of values divided by their largest magnitude: squares cannot overflow.
 *
 * SPDX-License-Identifier: MIT
 */
#include "table.h"
#include "core/threads.h"
#include "date.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables ---------------------------------------------------------------------------------- */

static int by_column_name(const void *a, const void *b)
{
    const gram_column *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

/* Its columns by name, in which one is found without a look at each: for free(), NULL if there is
 * no memory. */
static const gram_column **sort_columns(const gram_table *table)
{
    const gram_column **sorted = malloc(((size_t)table->columns + 1) * sizeof *sorted);

    for (int64_t i = 0; sorted && i < table->columns; i++)
        sorted[i] = &table->column[i];
    if (sorted)
        qsort(sorted, (size_t)table->columns, sizeof *sorted, by_column_name);
    return sorted;
}

/* The column of that name, NULL if there is none. */
static const gram_column *find_column(const gram_table *table, const gram_column **sorted,
                                      const char *name)
{
    const gram_column key = {.name = name}, *at = &key;
    const gram_column **found =
        bsearch(&at, sorted, (size_t)table->columns, sizeof *sorted, by_column_name);

    return found ? *found : NULL;
}

static gram_status check_column(gram_context *g, int64_t index, const gram_column *c, int64_t rows)
{
    if (!c->name || !*c->name)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "table.column[%lld] has no name",
                         (long long)index);
    if (!c->numbers == !c->labels && (rows > 0 || c->numbers))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "column \"%s\" has %s, expected numbers or labels", c->name,
                         c->numbers ? "both numbers and labels" : "neither numbers nor labels");
    for (int64_t i = 0; c->numbers && i < rows; i++)
        if (isinf(c->numbers[i]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "column \"%s\" holds infinity in row %lld, expected numbers or NaN",
                             c->name, (long long)i);
    return GRAM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static gram_status check_names(gram_context *g, const gram_table *table)
{
    size_t count = (size_t)table->columns;
    const char **name = malloc((count ? count : 1) * sizeof *name);
    const char *twice = NULL;

    if (!name)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the names of %zu columns", count);
    for (size_t i = 0; i < count; i++)
        name[i] = table->column[i].name;
    qsort(name, count, sizeof *name, by_name);
    for (size_t i = 1; i < count && !twice; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            twice = name[i];
    free(name);
    if (twice)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "two columns have the name \"%s\"", twice);
    return GRAM_OK;
}

gram_status gram_table_check(gram_context *g, const gram_table *table)
{
    if (!table)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "table is NULL");
    if (table->rows < 0 || table->columns < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "table has %lld rows and %lld columns, expected at least 0",
                         (long long)table->rows, (long long)table->columns);
    if (table->columns > 0 && !table->column)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "table.column is NULL, expected %lld columns",
                         (long long)table->columns);
    for (int64_t i = 0; i < table->columns; i++)
        TRY(check_column(g, i, &table->column[i], table->rows));
    return check_names(g, table);
}

/* ---- Categories of a column of labels -------------------------------------------------------- */

static int by_label(const void *a, const void *b)
{
    return strcmp(((const struct gram_seen *)a)->label, ((const struct gram_seen *)b)->label);
}

/* The most frequent first; as often, bytewise. */
static int by_times(const void *a, const void *b)
{
    const struct gram_seen *x = a, *y = b;

    if (x->times != y->times)
        return x->times < y->times ? 1 : -1;
    return by_label(a, b);
}

/* Counts sorted labels into seen, one entry a category, sorted. */
static int64_t count_labels(const char *const *label, int64_t count, struct gram_seen *seen)
{
    int64_t distinct = 0;

    for (int64_t i = 0; i < count; i++)
        if (distinct > 0 && strcmp(seen[distinct - 1].label, label[i]) == 0)
            seen[distinct - 1].times++;
        else
            seen[distinct++] = (struct gram_seen){label[i], 1};
    return distinct;
}

/* Copies the labels of the categories that are kept. */
static bool copy_labels(const struct gram_seen *seen, int64_t count, struct gram_encoded_column *c)
{
    c->category = calloc((size_t)count + 1, sizeof *c->category);
    c->categories = 0;
    for (int64_t i = 0; c->category && i < count; i++) {
        c->category[i] = strdup(seen[i].label);
        if (!c->category[i])
            return false;
        c->categories++;
    }
    return c->category != NULL;
}

/* Chooses among the categories that were seen. */
static bool choose(const struct gram_seen *seen, int64_t distinct, int64_t most,
                   struct gram_encoded_column *c)
{
    struct gram_seen *sorted;
    bool kept;

    c->other = distinct > most;
    if (!c->other)
        return copy_labels(seen, distinct, c);
    sorted = malloc((size_t)distinct * sizeof *sorted + 1);
    if (!sorted)
        return false;
    memcpy(sorted, seen, (size_t)distinct * sizeof *sorted);
    qsort(sorted, (size_t)distinct, sizeof *sorted, by_times);
    qsort(sorted, (size_t)most - 1, sizeof *sorted, by_label);
    kept = copy_labels(sorted, most - 1, c);
    free(sorted);
    return kept;
}

/* The categories of the rows, sorted, from malloc, and how many rows have one. */
static bool find_seen(const gram_column *from, const int64_t *rows, int64_t count,
                      struct gram_seen **out, int64_t *distinct, int64_t *present)
{
    const char **label = malloc(((size_t)count + 1) * sizeof *label);

    *out = malloc(((size_t)count + 1) * sizeof **out);
    *distinct = *present = 0;
    for (int64_t i = 0; label && i < count; i++)
        if (from->labels[rows[i]])
            label[(*present)++] = from->labels[rows[i]];
    if (label && *out) {
        qsort(label, (size_t)*present, sizeof *label, by_name);
        *distinct = count_labels(label, *present, *out);
    }
    free(label);
    return label && *out;
}

static int count_cycles(int dates)
{
    return !!(dates & GRAM_DATES_YEAR) + !!(dates & GRAM_DATES_WEEK) + !!(dates & GRAM_DATES_DAY);
}

/* The features of a column of labels but for the statistics of its levels. */
static int64_t one_hot_width(const struct gram_encoded_column *c)
{
    const int64_t width = c->categories + c->other + c->missing;

    return width < 2 ? 0 : width; /* one feature would tell nothing apart */
}

int64_t gram_encoded_width(const struct gram_encoded_column *c)
{
    if (c->category)
        return one_hot_width(c) + (c->levels > 0 ? c->statistics : 0);
    return 1 + 2 * count_cycles(c->dates) + c->missing;
}

/* The categories of a column of labels, and the statistics of its levels. */
static bool fit_categories(const gram_column *from, const int64_t *rows, int64_t count,
                           const struct gram_encoding *how, struct gram_encoded_column *c)
{
    struct gram_seen *seen;
    int64_t distinct, present;
    bool done = find_seen(from, rows, count, &seen, &distinct, &present) &&
                choose(seen, distinct, how->max_categories, c);

    c->missing = present < count;
    if (done && one_hot_width(c) == 0)
        c->missing = false;
    else if (done && how->statistics > 0)
        done = gram_encoded_fit_levels(&(struct gram_level_rows){from, rows, count, seen, distinct},
                                       how, c);
    free(seen);
    if (done)
        c->width = gram_encoded_width(c);
    return done;
}

/* The feature that is 1 for a label (NULL: missing), -1 if none is. */
static int64_t category_feature(const struct gram_encoded_column *c, const char *label)
{
    char **found;

    if (c->width == 0)
        return -1;
    if (!label)
        return c->missing ? one_hot_width(c) - 1 : -1;
    found = bsearch(&label, c->category, (size_t)c->categories, sizeof *c->category, by_name);
    if (found)
        return found - c->category;
    return c->other ? c->categories : -1;
}

enum {
    ROWS_AT_A_TIME = 1024,
    LANES = 8 /* columns that are fitted at a time, of which each holds its values twice */
};

/* What a value of a column takes until it is sorted and summed: see table_sort.c. */
static const double value_nanoseconds = 20;

/* Features are kept within this, far beyond any data of use: their squares stay finite in f32. */
static const double most = 1e15;

static gram_status no_memory(gram_context *g, const char *column)
{
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate memory to encode column \"%s\"",
                     column);
}

/* ---- An encoder from columns ----------------------------------------------------------------- */

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
    c->least = sorted[0];
    c->most = sorted[count - 1];
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

static bool fit_numbers(const gram_column *from, const int64_t *rows, int64_t count,
                        enum gram_scaling scaling, struct gram_encoded_column *c)
{
    double *value = malloc(2 * (size_t)count * sizeof *value + 1); /* and what sorting takes */
    int64_t present = 0;

    if (!value)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (!isnan(from->numbers[rows[i]]))
            value[present++] = from->numbers[rows[i]];
    gram_sort_numbers(value, present, value + count);
    fit_scale(c, value, present, scaling);
    free(value);
    c->missing = present > 0 && present < count;
    c->width = gram_encoded_width(c);
    return true;
}

/* The days of the labels that are there, if all of them are dates in that order. */
static bool read_days(const gram_column *from, const int64_t *rows, int64_t count,
                      enum gram_date_order order, double *days, int64_t *present)
{
    *present = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *label = from->labels[rows[i]];
        if (label && !gram_date_parse(label, order, &days[(*present)++]))
            return false;
    }
    return *present > 0;
}

static double place_in_week(double days)
{
    return days - 7 * floor(days / 7);
}

/* The cycles that sorted days cover. */
static int cycles_of(const double *days, int64_t count)
{
    const double span = days[count - 1] - days[0];
    bool same_day = true, same_time = true;

    for (int64_t i = 1; i < count; i++) {
        same_day &= floor(place_in_week(days[i])) == floor(place_in_week(days[0]));
        same_time &= days[i] - floor(days[i]) == days[0] - floor(days[0]);
    }
    return (span >= 365.2425 ? GRAM_DATES_YEAR : 0) |
           (span >= 7 && !same_day ? GRAM_DATES_WEEK : 0) |
           (span >= 1 && !same_time ? GRAM_DATES_DAY : 0);
}

/*
 * Encodes labels as dates if they are dates in one order alone: 1/2/2024 on its own may be in
 * January or in February, and is not guessed at.
 */
static bool fit_dates(const gram_column *from, const int64_t *rows, int64_t count,
                      enum gram_scaling scaling, struct gram_encoded_column *c)
{
    double *days = malloc(2 * (size_t)count * sizeof *days + 1);
    int64_t present;
    int orders = 0, found = 0;

    if (!days)
        return false;
    for (int order = 0; order < GRAM_DATE_ORDERS; order++)
        if (read_days(from, rows, count, (enum gram_date_order)order, days, &present))
            found = order, orders++;
    if (orders == 1 && read_days(from, rows, count, (enum gram_date_order)found, days, &present)) {
        gram_sort_numbers(days, present, days + count);
        fit_scale(c, days, present, scaling);
        c->dates = GRAM_DATES | cycles_of(days, present) | found << GRAM_DATES_ORDER_SHIFT;
        c->missing = present < count;
        c->width = gram_encoded_width(c);
    }
    free(days);
    return true;
}

static bool is_categorical(const struct gram_encoding *how, const char *name)
{
    for (int64_t i = 0; i < how->categorical; i++)
        if (strcmp(how->categorical_name[i], name) == 0)
            return true;
    return false;
}

/* All columns that are encoded, and what they are fitted on. */
struct fitting {
    const gram_column **from;
    struct gram_encoded_column *column;
    int64_t columns, count;
    const int64_t *rows;
    const struct gram_encoding *how;
    bool *done; /* of each column; false: there was no memory */
};

static bool fit_column(const struct fitting *f, int64_t column)
{
    const gram_column *from = f->from[column];
    struct gram_encoded_column *c = &f->column[column];

    c->name = strdup(from->name);
    if (!c->name)
        return false;
    c->least = INFINITY, c->most = -INFINITY;
    if (!from->labels)
        return fit_numbers(from, f->rows, f->count, f->how->scaling, c);
    if (!is_categorical(f->how, from->name) &&
        !fit_dates(from, f->rows, f->count, f->how->scaling, c))
        return false;
    return c->dates || fit_categories(from, f->rows, f->count, f->how, c);
}

/* Every LANES-th column. */
static void fit_lane(void *arg, int64_t index, int thread)
{
    const struct fitting *f = arg;

    (void)thread;
    for (int64_t c = index; c < f->columns; c += LANES)
        f->done[c] = fit_column(f, c);
}

static bool is_target(const char *name, const struct gram_encoding *how)
{
    bool found = false;

    for (int64_t i = 0; i < how->targets; i++)
        found |= strcmp(name, how->target[i].name) == 0;
    return found;
}

/* The columns, of which e has as many as are no targets. */
static gram_status fit_columns(gram_context *g, const gram_table *table, struct fitting *f,
                               struct gram_encoder *e)
{
    for (int64_t i = 0; i < table->columns; i++)
        if (!is_target(table->column[i].name, f->how))
            f->from[f->columns++] = &table->column[i];
    if (f->columns == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "table has no column to learn from, expected at least one besides the "
                         "target");
    e->columns = f->columns;
    gram_for(g, value_nanoseconds * (double)f->count * (double)f->columns,
             gram_least(f->columns, LANES), fit_lane, f);
    for (int64_t i = 0; i < f->columns; i++) {
        if (!f->done[i])
            return no_memory(g, f->from[i]->name);
        e->column[i].first = e->width;
        e->width += e->column[i].width;
    }
    return GRAM_OK;
}

gram_status gram_encoder_fit(gram_context *g, const gram_table *table, const int64_t *rows,
                             int64_t count, const struct gram_encoding *how,
                             struct gram_encoder **out)
{
    const size_t columns = (size_t)table->columns + 1;
    struct gram_encoder *e = calloc(1, sizeof *e);
    struct fitting f = {.from = malloc(columns * sizeof *f.from),
                        .column = calloc(columns, sizeof *f.column),
                        .count = count,
                        .rows = rows,
                        .how = how,
                        .done = calloc(columns, sizeof *f.done)};
    gram_status status = GRAM_OK;

    *out = NULL;
    if (!e || !f.from || !f.column || !f.done)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate an encoder of %lld columns",
                           (long long)table->columns);
    if (e) {
        e->column = f.column;
        e->squash = how->scaling == GRAM_ROBUST;
    } else {
        free(f.column);
    }
    if (status == GRAM_OK)
        status = fit_columns(g, table, &f, e);
    free(f.from);
    free(f.done);
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
        gram_encoded_forget_levels(c);
    }
    free(encoder->column);
    free(encoder);
}

/* ---- Rows to features ------------------------------------------------------------------------ */

struct apply {
    const struct gram_encoder *encoder;
    const gram_column **from; /* of each encoded column */
    const int64_t *rows;
    int64_t count;
    gram_dtype dtype;
    void *features;
    int64_t first; /* of the rows that the encoder was fitted on; -1: these are others */
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

static void set_feature(const struct apply *a, int64_t at, double value)
{
    if (a->dtype == GRAM_F32)
        ((float *)a->features)[at] = (float)value;
    else
        ((double *)a->features)[at] = value;
}

/* Features of a label of a column of dates, from `at` on; what is no date is missing. */
static void set_dates(const struct apply *a, const struct gram_encoded_column *c, int64_t at,
                      const char *label)
{
    static const double turn = 6.283185307179586477, root = 1.414213562373095049; /* of 2 */
    static const struct {
        int cycle;
        double length;
    } cycles[] = {
        {GRAM_DATES_YEAR, 365.2425},
        {GRAM_DATES_WEEK,        7},
        { GRAM_DATES_DAY,        1}
    };
    const enum gram_date_order order = (enum gram_date_order)(c->dates >> GRAM_DATES_ORDER_SHIFT);
    double days = 0;
    const bool known = label && gram_date_parse(label, order, &days);

    days = known ? days : c->fill;
    set_feature(a, at++, number_feature(a->encoder, c, days));
    for (int i = 0; i < 3; i++) {
        const double length = cycles[i].length;
        const double angle = turn * (days - length * floor(days / length)) / length;
        if (!(c->dates & cycles[i].cycle))
            continue;
        set_feature(a, at++, root * sin(angle));
        set_feature(a, at++, root * cos(angle));
    }
    if (c->missing)
        set_feature(a, at, known ? 0 : 1);
}

/* Features of the label of the i-th row in a column of categories. */
static void set_category(const struct apply *a, const struct gram_encoded_column *c, int64_t i,
                         const char *label)
{
    const int64_t hot = category_feature(c, label), width = one_hot_width(c);
    const int64_t at = i * a->encoder->width + c->first;
    const double *statistic = NULL;

    if (c->levels > 0 && a->first >= 0 && c->trained)
        statistic = c->trained + (a->first + i) * c->statistics;
    else if (c->levels > 0)
        statistic = gram_encoded_level(c, label);
    for (int64_t k = 0; k < width; k++)
        set_feature(a, at + k, k == hot ? 1 : 0);
    for (int64_t k = 0; statistic && k < c->statistics; k++)
        set_feature(a, at + width + k, statistic[k]);
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
            int64_t at = i * e->width + c->first;
            if (c->dates) {
                set_dates(a, c, at, a->from[j]->labels[row]);
                continue;
            }
            if (!c->category) {
                double value = a->from[j]->numbers ? a->from[j]->numbers[row] : NAN;
                set_feature(a, at, number_feature(e, c, value));
                if (c->missing)
                    set_feature(a, at + 1, isnan(value) ? 1 : 0);
                continue;
            }
            set_category(a, c, i, a->from[j]->labels[row]);
        }
    }
}

static gram_status find_columns(gram_context *g, const struct gram_encoder *e,
                                const gram_table *table, const gram_column **sorted,
                                const gram_column **from)
{
    for (int64_t i = 0; i < e->columns; i++) {
        const struct gram_encoded_column *c = &e->column[i];
        const bool labels = c->category || c->dates, either = gram_encoded_is_empty(c) && !labels;
        from[i] = find_column(table, sorted, c->name);
        if (!from[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "table has no column \"%s\", which the machine was trained with",
                             c->name);
        if (table->rows > 0 && !either && (labels ? !from[i]->labels : !from[i]->numbers))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "column \"%s\" holds %s, expected %s as in training", c->name,
                             labels ? "numbers" : "labels", labels ? "labels" : "numbers");
    }
    return GRAM_OK;
}

/* a has everything but the columns. */
static gram_status apply(gram_context *g, const gram_table *table, struct apply *a)
{
    const struct gram_encoder *encoder = a->encoder;
    const gram_column **from = malloc(((size_t)encoder->columns + 1) * sizeof *from);
    const gram_column **sorted = sort_columns(table);
    gram_status status;

    a->from = from;

    if (from && sorted)
        status = find_columns(g, encoder, table, sorted, from);
    else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a list of %lld columns",
                           (long long)encoder->columns);
    if (status == GRAM_OK)
        gram_parallel_for(g, gram_ceil_div(a->count, ROWS_AT_A_TIME), apply_rows, a);
    free(sorted);
    free(from);
    return status;
}

gram_status gram_encoder_apply(gram_context *g, const struct gram_encoder *encoder,
                               const gram_table *table, const int64_t *rows, int64_t count,
                               gram_dtype dtype, void *features)
{
    return apply(g, table, &(struct apply){encoder, NULL, rows, count, dtype, features, -1});
}

gram_status gram_encoder_apply_training(gram_context *g, const struct gram_encoder *encoder,
                                        const gram_table *table, const int64_t *rows,
                                        const int64_t first_count[2], gram_dtype dtype,
                                        void *features)
{
    struct apply a = {encoder, NULL, rows, first_count[1], dtype, features, first_count[0]};

    return apply(g, table, &a);
}

void gram_encoder_forget_training(struct gram_encoder *encoder)
{
    for (int64_t i = 0; i < encoder->columns; i++) {
        free(encoder->column[i].trained);
        encoder->column[i].trained = NULL;
    }
}

/* ---- What training rows did not have --------------------------------------------------------- */

bool gram_encoded_is_empty(const struct gram_encoded_column *c)
{
    return c->category ? c->categories == 0 : c->least > c->most;
}

static void note(int64_t row, int64_t *count, int64_t *first)
{
    if ((*count)++ == 0)
        *first = row;
}

/* Whether a value is farther from the range than the range is wide. */
static bool is_far(const struct gram_encoded_column *c, double value)
{
    const double width = c->most - c->least;

    return c->scale > 0 && (value < c->least - width || value > c->most + width);
}

static void look_at_label(const struct gram_encoded_column *c, const char *label, int64_t row,
                          struct gram_unseen_values *out)
{
    double days;

    if (!label && !c->missing)
        note(row, &out->missing, &out->first_missing);
    if (!label)
        return;
    if (!c->dates) {
        if (!c->other &&
            !bsearch(&label, c->category, (size_t)c->categories, sizeof *c->category, by_name))
            note(row, &out->unknown, &out->first_unknown);
        return;
    }
    if (!gram_date_parse(label, (enum gram_date_order)(c->dates >> GRAM_DATES_ORDER_SHIFT), &days))
        note(row, &out->unknown, &out->first_unknown);
    else if (is_far(c, days))
        note(row, &out->far, &out->first_far);
}

gram_status gram_encoder_unseen(gram_context *g, const struct gram_encoder *encoder,
                                const gram_table *table, int64_t column,
                                struct gram_unseen_values *out)
{
    struct gram_encoded_column *c = &encoder->column[column];
    const struct gram_encoder alone = {.columns = 1, .column = c};
    const gram_column **sorted = sort_columns(table), *from = NULL;
    gram_status status;

    *out = (struct gram_unseen_values){.first_unknown = -1, .first_missing = -1, .first_far = -1};
    if (!sorted)
        return no_memory(g, c->name);
    status = find_columns(g, &alone, table, sorted, &from);
    free(sorted);
    /* A column that was constant has no influence, and does not know whether values were missing.
     */
    if (status != GRAM_OK || (c->category ? c->width == 0 : c->scale == 0))
        return status;
    for (int64_t row = 0; row < table->rows; row++) {
        if (from->labels)
            look_at_label(c, from->labels[row], row, out);
        else if (isnan(from->numbers[row]) && !c->missing)
            note(row, &out->missing, &out->first_missing);
        else if (is_far(c, from->numbers[row]))
            note(row, &out->far, &out->first_far);
    }
    return GRAM_OK;
}
