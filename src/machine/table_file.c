/*
 * table_file.c - encoders in model files
 *
 * In a model file an encoder is
 *   encoder.squash      I32 [1]            0 or 1
 *   encoder.names       U8                 one text per column
 *   encoder.categories  I64 [columns]      -1: a number
 *   encoder.missing     I32 [columns]      0 or 1
 *   encoder.other       I32 [columns]      0 or 1: further categories share a feature
 *   encoder.scale       F64 [3 columns]    shift, scale, fill
 *   encoder.category    U8                 the categories of all columns, one after the other
 *   encoder.dates       I32 [columns]      GRAM_DATES_* and the order; absent if all are 0
 *   encoder.range       F64 [2 columns]    least, most; absent in files of version 0.1
 *   encoder.levels      I64 [1 + columns]  the statistics of a level, and every column's levels;
 *                                          absent, with the next two, if there are no levels
 *   encoder.level       U8                 the levels of all columns, one after the other
 *   encoder.statistics  F64                of every column with levels, (levels + 1) by statistics
 * Where a column's features begin follows from these.  Nothing that is read is taken on trust.
 *
 * SPDX-License-Identifier: MIT
 */
#include "date.h"
#include "table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* ---- An encoder to a model file -------------------------------------------------------------- */

/* The arrays of an encoder, one entry a column, and all categories; all from malloc. */
struct columns {
    char **names, **category;
    int64_t *categories;
    int32_t *missing, *other, *dates;
    double (*scale)[3], (*range)[2];
};

static bool allocate_columns(struct columns *a, size_t columns, size_t categories)
{
    a->names = malloc((columns + 1) * sizeof *a->names);
    a->category = malloc((categories + 1) * sizeof *a->category);
    a->categories = malloc((columns + 1) * sizeof *a->categories);
    a->missing = malloc((columns + 1) * sizeof *a->missing);
    a->other = malloc((columns + 1) * sizeof *a->other);
    a->dates = malloc((columns + 1) * sizeof *a->dates);
    a->scale = malloc((columns + 1) * sizeof *a->scale);
    a->range = malloc((columns + 1) * sizeof *a->range);
    return a->names && a->category && a->categories && a->missing && a->other && a->dates &&
           a->scale && a->range;
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
        a->dates[i] = c->dates;
        a->scale[i][0] = c->shift, a->scale[i][1] = c->scale, a->scale[i][2] = c->fill;
        a->range[i][0] = c->least, a->range[i][1] = c->most;
        for (int64_t j = 0; c->category && j < c->categories; j++)
            a->category[total++] = c->category[j];
    }
    return total;
}

bool gram_encoder_has_dates(const struct gram_encoder *encoder)
{
    for (int64_t i = 0; i < encoder->columns; i++)
        if (encoder->column[i].dates)
            return true;
    return false;
}

bool gram_encoder_has_levels(const struct gram_encoder *encoder)
{
    bool any = false;

    for (int64_t i = 0; i < encoder->columns; i++)
        any |= encoder->column[i].levels > 0;
    return any;
}

static void put_levels(struct gram_model_writer *w, const struct gram_encoder *e)
{
    int64_t *levels = malloc(((size_t)e->columns + 1) * sizeof *levels), total = 0, numbers = 0;
    char **level;
    double *statistic;

    for (int64_t i = 0; i < e->columns; i++) {
        total += e->column[i].levels;
        numbers += e->column[i].levels ? (e->column[i].levels + 1) * e->column[i].statistics : 0;
    }
    level = malloc((size_t)total * sizeof *level + 1);
    statistic = malloc((size_t)numbers * sizeof *statistic + 1);
    total = numbers = 0;
    for (int64_t i = 0; levels && level && statistic && i < e->columns; i++) {
        const struct gram_encoded_column *c = &e->column[i];
        const int64_t count = (c->levels + 1) * c->statistics;

        levels[1 + i] = c->levels;
        if (c->levels == 0)
            continue;
        levels[0] = c->statistics;
        memcpy(level + total, c->level, (size_t)c->levels * sizeof *level);
        memcpy(statistic + numbers, c->statistic, (size_t)count * sizeof *statistic);
        total += c->levels;
        numbers += count;
    }
    if (levels && level && statistic) {
        gram_model_put_copy(w, "encoder.levels", GRAM_I64, 1 + e->columns, levels);
        gram_model_put_strings(w, "encoder.level", total, level);
        gram_model_put_copy(w, "encoder.statistics", GRAM_F64, numbers, statistic);
    } else
        gram_model_put_failed(w);
    free(levels);
    free(level);
    free(statistic);
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
        gram_model_put_copy(w, "encoder.range", GRAM_F64, 2 * n, a.range);
        gram_model_put_strings(w, "encoder.category", total, a.category);
        if (gram_encoder_has_dates(encoder))
            gram_model_put_copy(w, "encoder.dates", GRAM_I32, n, a.dates);
        if (gram_encoder_has_levels(encoder))
            put_levels(w, encoder);
    } else
        gram_model_put_failed(w);
    free(a.names);
    free(a.category);
    free(a.categories);
    free(a.missing);
    free(a.other);
    free(a.dates);
    free(a.scale);
    free(a.range);
}

/* ---- An encoder from a model file ------------------------------------------------------------ */

/* The arrays as the file holds them. */
struct stored {
    char **names, **category; /* free() each */
    const void *squash, *categories, *missing, *other, *scale;
    const void *dates; /* NULL: there are none */
    const void *range; /* NULL: not known */
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
    if (gram_model_find(file, "encoder.dates"))
        TRY(gram_model_need_vector(g, file, "encoder.dates", GRAM_I32, s->columns, &s->dates,
                                   NULL));
    if (gram_model_find(file, "encoder.range"))
        TRY(gram_model_need_vector(g, file, "encoder.range", GRAM_F64, 2 * s->columns, &s->range,
                                   NULL));
    return gram_model_need_vector(g, file, "encoder.scale", GRAM_F64, 3 * s->columns, &s->scale,
                                  NULL);
}

static const char no_number[] = "has statistics of levels that are not finite";

static bool statistics_hold(const struct gram_encoded_column *c)
{
    const int64_t numbers = c->levels ? (c->levels + 1) * c->statistics : 0;
    bool finite = true;

    for (int64_t i = 0; i < numbers; i++)
        finite &= isfinite(c->statistic[i]) != 0;
    return finite;
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
    if (c->dates != 0 && (!(c->dates & GRAM_DATES) || c->dates < 0 || categories >= 0 || other ||
                          c->dates >> GRAM_DATES_ORDER_SHIFT >= GRAM_DATE_ORDERS))
        return "does not say what its dates are";
    if (categories >= 0 && categories + missing + other < 2 && missing)
        return "has only missing values";
    if (!isfinite(c->shift) || !isfinite(c->scale) || !isfinite(c->fill) || c->scale < 0)
        return "has a scale that is negative or not finite";
    if (isnan(c->least) || isnan(c->most))
        return "has a range that is not a number";
    return NULL;
}

const char *gram_model_encoder_wrong(const struct gram_encoder *encoder, const char **column)
{
    for (int64_t i = 0; i < encoder->columns; i++) {
        const struct gram_encoded_column *c = &encoder->column[i];
        const int64_t categories = c->category ? c->categories : -1;
        const char *what = flaw(c, categories, categories, (int32_t[]){c->missing, c->other});
        *column = c->name;
        if (!what && !statistics_hold(c))
            what = no_number;
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
    c->least = s->range ? ((const double *)s->range)[2 * i] : -INFINITY;
    c->most = s->range ? ((const double *)s->range)[2 * i + 1] : INFINITY;
    c->dates = s->dates ? ((const int32_t *)s->dates)[i] : 0;
    what = flaw(c, categories, s->total - *taken, (int32_t[]){missing, other});
    if (what)
        return gram_model_bad(g, file, "column \"%s\" %s", c->name, what);
    c->missing = missing, c->other = other;
    c->first = e->width;
    if (categories >= 0) {
        TRY(take_categories(g, file, s->category + *taken, categories, c));
        *taken += categories;
    }
    c->width = gram_encoded_width(c);
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

/* Levels and their statistics of one column. */
static gram_status take_levels(gram_context *g, const struct gram_model_file *file,
                               char *const *from, int64_t count, const double *statistic,
                               struct gram_encoded_column *c)
{
    const int64_t numbers = (count + 1) * c->statistics;

    c->level = calloc((size_t)count + 1, sizeof *c->level);
    c->statistic = malloc((size_t)numbers * sizeof *c->statistic);
    for (; c->level && c->levels < count; c->levels++) {
        const int64_t i = c->levels;
        if (i > 0 && strcmp(from[i - 1], from[i]) >= 0)
            return gram_model_bad(g, file, "the levels of column \"%s\" are not in order", c->name);
        if (!(c->level[i] = strdup(from[i])))
            break;
    }
    if (!c->level || !c->statistic || c->levels < count)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the levels of column \"%s\"",
                         c->name);
    memcpy(c->statistic, statistic, (size_t)numbers * sizeof *c->statistic);
    return statistics_hold(c) ? GRAM_OK
                              : gram_model_bad(g, file, "column \"%s\" %s", c->name, no_number);
}

/* What the columns of an encoder have of levels; their features move accordingly. */
static gram_status need_levels(gram_context *g, const struct gram_model_file *file,
                               struct gram_encoder *e, char ***level)
{
    const void *levels, *statistics;
    int64_t total, all = 0, numbers = 0;
    const int64_t *count;

    TRY(gram_model_need_vector(g, file, "encoder.levels", GRAM_I64, 1 + e->columns, &levels, NULL));
    TRY(gram_model_need_strings(g, file, "encoder.level", -1, &total, level));
    count = levels;
    if (count[0] < 1 || count[0] > GRAM_MOST_STATISTICS)
        return gram_model_bad(g, file, "encoder.levels has %lld statistics, expected 1 to %d",
                              (long long)count[0], GRAM_MOST_STATISTICS);
    for (int64_t i = 0; i < e->columns; i++) {
        const int64_t here = count[1 + i];

        if (here < 0 || here > total - all || (here > 0 && e->column[i].width == 0) ||
            (here > 0 && !e->column[i].category))
            return gram_model_bad(g, file, "column \"%s\" has the wrong number of levels",
                                  e->column[i].name);
        all += here;
        numbers += here > 0 ? (here + 1) * count[0] : 0;
    }
    if (all != total)
        return gram_model_bad(g, file, "%lld levels belong to no column", (long long)(total - all));
    TRY(gram_model_need_vector(g, file, "encoder.statistics", GRAM_F64, numbers, &statistics,
                               NULL));
    e->width = all = numbers = 0;
    for (int64_t i = 0; i < e->columns; i++) {
        struct gram_encoded_column *c = &e->column[i];

        if (count[1 + i] > 0) {
            c->statistics = count[0];
            TRY(take_levels(g, file, *level + all, count[1 + i],
                            (const double *)statistics + numbers, c));
            all += c->levels;
            numbers += (c->levels + 1) * c->statistics;
        }
        c->first = e->width;
        c->width = gram_encoded_width(c);
        e->width += c->width;
    }
    return GRAM_OK;
}

gram_status gram_model_need_encoder(gram_context *g, const struct gram_model_file *file,
                                    struct gram_encoder **out)
{
    struct stored s = {0};
    struct gram_encoder *e = calloc(1, sizeof *e);
    char **level = NULL;
    gram_status status;

    *out = NULL;
    if (!e)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate an encoder");
    status = find_stored(g, file, &s);
    if (status == GRAM_OK)
        status = take_all(g, file, &s, e);
    if (status == GRAM_OK && gram_model_find(file, "encoder.levels"))
        status = need_levels(g, file, e, &level);
    free(level);
    free(s.names);
    free(s.category);
    if (status == GRAM_OK)
        *out = e;
    else
        gram_encoder_destroy(e);
    return status;
}
