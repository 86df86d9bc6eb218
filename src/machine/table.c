/*
 * table.c - tables of columns, the encoding of their rows as features, and encoders in model files
 *
 * Quantiles interpolate linearly between the two nearest values, as NumPy's do.  Means and
 * deviations are taken of values divided by their largest magnitude: squares cannot overflow.
 *
 * In a model file an encoder is
 *   encoder.squash      I32 [1]            0 or 1
 *   encoder.names       U8                 one text per column
 *   encoder.categories  I64 [columns]      -1: a number
 *   encoder.missing     I32 [columns]      0 or 1
 *   encoder.other       I32 [columns]      0 or 1: further categories share a feature
 *   encoder.scale       F64 [3 columns]    shift, scale, fill
 *   encoder.category    U8                 the categories of all columns, one after the other
 * Where a column's features begin follows from these.  Nothing that is read is taken on trust.
 *
 * SPDX-License-Identifier: MIT
 */
#include "table.h"
#include "core/threads.h"
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

/* A category and how often it was seen. */
struct seen {
    const char *label;
    int64_t times;
};

static int by_label(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->label, ((const struct seen *)b)->label);
}

/* The most frequent first; as often, bytewise. */
static int by_times(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->times != y->times)
        return x->times < y->times ? 1 : -1;
    return by_label(a, b);
}

/* Counts sorted labels into seen, one entry a category, sorted. */
static int64_t count_labels(const char *const *label, int64_t count, struct seen *seen)
{
    int64_t distinct = 0;

    for (int64_t i = 0; i < count; i++)
        if (distinct > 0 && strcmp(seen[distinct - 1].label, label[i]) == 0)
            seen[distinct - 1].times++;
        else
            seen[distinct++] = (struct seen){label[i], 1};
    return distinct;
}

/* Copies the labels of the categories that are kept. */
static bool copy_labels(const struct seen *seen, int64_t count, struct gram_encoded_column *c)
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

/* Chooses among the present labels, which are sorted here. */
static bool choose(const char **label, int64_t present, int64_t most, struct gram_encoded_column *c)
{
    struct seen *seen = malloc(((size_t)present + 1) * sizeof *seen);
    int64_t distinct;
    bool kept;

    if (!seen)
        return false;
    qsort(label, (size_t)present, sizeof *label, by_name);
    distinct = count_labels(label, present, seen);
    c->other = distinct > most;
    if (c->other) {
        qsort(seen, (size_t)distinct, sizeof *seen, by_times);
        distinct = most - 1;
        qsort(seen, (size_t)distinct, sizeof *seen, by_label);
    }
    kept = copy_labels(seen, distinct, c);
    free(seen);
    return kept;
}

/* The features of a column of categories: 0 if these told nothing apart. */
static int64_t category_width(const struct gram_encoded_column *c)
{
    int64_t width = c->categories + c->other + c->missing;

    return width < 2 ? 0 : width;
}

/* The categories of a column of labels, with at most `most` features. */
static gram_status fit_categories(gram_context *g, const gram_column *from, const int64_t *rows,
                                  int64_t count, int64_t most, struct gram_encoded_column *c)
{
    const char **label = malloc((size_t)(count > 0 ? count : 1) * sizeof *label);
    int64_t present = 0;
    bool chosen;

    for (int64_t i = 0; label && i < count; i++)
        if (from->labels[rows[i]])
            label[present++] = from->labels[rows[i]];
    chosen = label && choose(label, present, most, c);
    free(label);
    if (!chosen)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate memory to encode column \"%s\"",
                         from->name);
    c->missing = present < count;
    c->width = category_width(c);
    if (c->width == 0)
        c->missing = false;
    return GRAM_OK;
}

/* The feature that is 1 for a label (NULL: missing), -1 if none is. */
static int64_t category_feature(const struct gram_encoded_column *c, const char *label)
{
    char **found;

    if (c->width == 0)
        return -1;
    if (!label)
        return c->missing ? c->width - 1 : -1;
    found = bsearch(&label, c->category, (size_t)c->categories, sizeof *c->category, by_name);
    if (found)
        return found - c->category;
    return c->other ? c->categories : -1;
}

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

/* ---- An encoder from columns ----------------------------------------------------------------- */

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
        return fit_categories(g, from, rows, count, how->max_categories, c);
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
                           "table has no column to learn from, expected at least one besides the "
                           "target");
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

/* ---- Rows to features ------------------------------------------------------------------------ */

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

static void set_feature(const struct apply *a, int64_t at, double value)
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
                set_feature(a, at, number_feature(e, c, value));
                if (c->missing)
                    set_feature(a, at + 1, isnan(value) ? 1 : 0);
                continue;
            }
            hot = category_feature(c, a->from[j]->labels[row]);
            for (int64_t k = 0; k < c->width; k++)
                set_feature(a, at + k, k == hot ? 1 : 0);
        }
    }
}

static gram_status find_columns(gram_context *g, const struct gram_encoder *e,
                                const gram_table *table, const gram_column **sorted,
                                const gram_column **from)
{
    for (int64_t i = 0; i < e->columns; i++) {
        const struct gram_encoded_column *c = &e->column[i];
        from[i] = find_column(table, sorted, c->name);
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
    const gram_column **sorted = sort_columns(table);
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

/* ---- An encoder to a model file -------------------------------------------------------------- */

/* The arrays of an encoder, one entry a column, and all categories; all from malloc. */
struct columns {
    char **names, **category;
    int64_t *categories;
    int32_t *missing, *other;
    double (*scale)[3];
};

static bool allocate_columns(struct columns *a, size_t columns, size_t categories)
{
    a->names = malloc((columns + 1) * sizeof *a->names);
    a->category = malloc((categories + 1) * sizeof *a->category);
    a->categories = malloc((columns + 1) * sizeof *a->categories);
    a->missing = malloc((columns + 1) * sizeof *a->missing);
    a->other = malloc((columns + 1) * sizeof *a->other);
    a->scale = malloc((columns + 1) * sizeof *a->scale);
    return a->names && a->category && a->categories && a->missing && a->other && a->scale;
}

static int64_t fill_columns(const struct gram_encoder *e, struct columns *a)
{
    int64_t total = 0;

    for (int64_t i = 0; i < e->columns; i++) {
        const struct gram_encoded_column *c = &e->column[i];
        a->names[i] = c->name;
        a->categories[i] = c->category ? c->categories : -1;
        a->missing[i] = c->missing;
        a->other[i] = c->other;
        a->scale[i][0] = c->shift, a->scale[i][1] = c->scale, a->scale[i][2] = c->fill;
        for (int64_t j = 0; c->category && j < c->categories; j++)
            a->category[total++] = c->category[j];
    }
    return total;
}

void gram_model_put_encoder(struct gram_model_writer *w, const struct gram_encoder *encoder)
{
    int64_t n = encoder->columns, total = 0;
    struct columns a = {0};
    int32_t squash = encoder->squash;

    for (int64_t i = 0; i < n; i++)
        total += encoder->column[i].categories;
    if (allocate_columns(&a, (size_t)n, (size_t)total)) {
        total = fill_columns(encoder, &a);
        gram_model_put_copy(w, "encoder.squash", GRAM_I32, 1, &squash);
        gram_model_put_strings(w, "encoder.names", n, a.names);
        gram_model_put_copy(w, "encoder.categories", GRAM_I64, n, a.categories);
        gram_model_put_copy(w, "encoder.missing", GRAM_I32, n, a.missing);
        gram_model_put_copy(w, "encoder.other", GRAM_I32, n, a.other);
        gram_model_put_copy(w, "encoder.scale", GRAM_F64, 3 * n, a.scale);
        gram_model_put_strings(w, "encoder.category", total, a.category);
    } else
        gram_model_put_failed(w);
    free(a.names);
    free(a.category);
    free(a.categories);
    free(a.missing);
    free(a.other);
    free(a.scale);
}

/* ---- An encoder from a model file ------------------------------------------------------------ */

/* The arrays as the file holds them. */
struct stored {
    char **names, **category; /* free() each */
    const void *squash, *categories, *missing, *other, *scale;
    int64_t columns, total;
};

static gram_status find_stored(gram_context *g, const struct gram_model_file *file,
                               struct stored *s)
{
    TRY(gram_model_need_strings(g, file, "encoder.names", -1, &s->columns, &s->names));
    TRY(gram_model_need_strings(g, file, "encoder.category", -1, &s->total, &s->category));
    TRY(gram_model_need_vector(g, file, "encoder.squash", GRAM_I32, 1, &s->squash, NULL));
    TRY(gram_model_need_vector(g, file, "encoder.categories", GRAM_I64, s->columns, &s->categories,
                               NULL));
    TRY(gram_model_need_vector(g, file, "encoder.missing", GRAM_I32, s->columns, &s->missing,
                               NULL));
    TRY(gram_model_need_vector(g, file, "encoder.other", GRAM_I32, s->columns, &s->other, NULL));
    return gram_model_need_vector(g, file, "encoder.scale", GRAM_F64, 3 * s->columns, &s->scale,
                                  NULL);
}

/* What no encoder that was fitted can be. */
static const char *flaw(const struct gram_encoded_column *c, int64_t categories, int64_t left,
                        const int32_t missing_other[2])
{
    const int32_t missing = missing_other[0], other = missing_other[1];

    if (!*c->name)
        return "has no name";
    if (categories < -1 || categories > left)
        return "has the wrong number of categories";
    if (missing != 0 && missing != 1)
        return "does not say whether it has missing values";
    if (other != 0 && (other != 1 || categories < 1))
        return "does not say whether it has other categories";
    if (categories >= 0 && categories + missing + other < 2 && missing)
        return "has only missing values";
    if (!isfinite(c->shift) || !isfinite(c->scale) || !isfinite(c->fill) || c->scale < 0)
        return "has a scale that is negative or not finite";
    return NULL;
}

const char *gram_model_encoder_wrong(const struct gram_encoder *encoder, const char **column)
{
    for (int64_t i = 0; i < encoder->columns; i++) {
        const struct gram_encoded_column *c = &encoder->column[i];
        const int64_t categories = c->category ? c->categories : -1;
        const char *what = flaw(c, categories, categories, (int32_t[]){c->missing, c->other});
        *column = c->name;
        if (what)
            return what;
    }
    return NULL;
}

/* Moves the next categories of s to c; sorted and different, as the binary search needs them. */
static gram_status take_categories(gram_context *g, const struct gram_model_file *file,
                                   char *const *from, int64_t count, struct gram_encoded_column *c)
{
    c->category = calloc((size_t)count + 1, sizeof *c->category);
    for (; c->category && c->categories < count; c->categories++) {
        int64_t i = c->categories;
        if (i > 0 && strcmp(from[i - 1], from[i]) >= 0)
            return gram_model_bad(g, file, "the categories of column \"%s\" are not in order",
                                  c->name);
        c->category[i] = strdup(from[i]);
        if (!c->category[i])
            break;
    }
    if (!c->category || c->categories < count)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the categories of column \"%s\"",
                         c->name);
    return GRAM_OK;
}

static gram_status take_column(gram_context *g, const struct gram_model_file *file,
                               const struct stored *s, int64_t i, int64_t *taken,
                               struct gram_encoder *e)
{
    struct gram_encoded_column *c = &e->column[i];
    int64_t categories = ((const int64_t *)s->categories)[i];
    int32_t missing = ((const int32_t *)s->missing)[i], other = ((const int32_t *)s->other)[i];
    const double *scale = (const double *)s->scale + 3 * i;
    const char *what;

    c->name = strdup(s->names[i]);
    e->columns++;
    if (!c->name)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the name of column %lld",
                         (long long)i);
    c->shift = scale[0], c->scale = scale[1], c->fill = scale[2];
    what = flaw(c, categories, s->total - *taken, (int32_t[]){missing, other});
    if (what)
        return gram_model_bad(g, file, "column \"%s\" %s", c->name, what);
    c->missing = missing, c->other = other;
    c->first = e->width;
    c->width = 1 + missing;
    if (categories >= 0) {
        TRY(take_categories(g, file, s->category + *taken, categories, c));
        *taken += categories;
        c->width = category_width(c);
    }
    e->width += c->width;
    return GRAM_OK;
}

static gram_status take_all(gram_context *g, const struct gram_model_file *file,
                            const struct stored *s, struct gram_encoder *e)
{
    int32_t squash = *(const int32_t *)s->squash;
    int64_t taken = 0;

    if (s->columns == 0)
        return gram_model_bad(g, file, "its encoder has no columns");
    if (squash != 0 && squash != 1)
        return gram_model_bad(g, file, "encoder.squash is %d, expected 0 or 1", (int)squash);
    e->squash = squash;
    e->column = calloc((size_t)s->columns, sizeof *e->column);
    if (!e->column)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate an encoder of %lld columns",
                         (long long)s->columns);
    for (int64_t i = 0; i < s->columns; i++)
        TRY(take_column(g, file, s, i, &taken, e));
    if (taken != s->total)
        return gram_model_bad(g, file, "%lld categories belong to no column",
                              (long long)(s->total - taken));
    qsort(s->names, (size_t)s->columns, sizeof *s->names, by_name);
    for (int64_t i = 1; i < s->columns; i++)
        if (strcmp(s->names[i - 1], s->names[i]) == 0)
            return gram_model_bad(g, file, "two columns are called \"%s\"", s->names[i]);
    return GRAM_OK;
}

gram_status gram_model_need_encoder(gram_context *g, const struct gram_model_file *file,
                                    struct gram_encoder **out)
{
    struct stored s = {0};
    struct gram_encoder *e = calloc(1, sizeof *e);
    gram_status status;

    *out = NULL;
    if (!e)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate an encoder");
    status = find_stored(g, file, &s);
    if (status == GRAM_OK)
        status = take_all(g, file, &s, e);
    free(s.names);
    free(s.category);
    if (status == GRAM_OK)
        *out = e;
    else
        gram_encoder_destroy(e);
    return status;
}
