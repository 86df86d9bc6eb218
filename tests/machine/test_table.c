/*
 * test_table.c - the encoding of columns: every rule of gram_machine_fit's comment, one by one
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/random.h"
#include "core/threads.h"
#include "machine/date.h"
#include "machine/table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct gram_encoder *fit(struct harness *h, const gram_table *t, const char *target,
                                const int64_t *rows, int64_t count, enum gram_scaling scaling)
{
    const gram_column left_out = {.name = target};
    const struct gram_encoding how = {
        .scaling = scaling, .max_categories = 3, .target = &left_out, .targets = target != NULL};
    struct gram_encoder *e = NULL;
    gram_status status = gram_table_check(h->g, t);

    if (status == GRAM_OK)
        status = gram_encoder_fit(h->g, t, rows, count, &how, &e);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    if (!e)
        exit(EXIT_FAILURE);
    return e;
}

static void expect_features(struct harness *h, const struct gram_encoder *e, const gram_table *t,
                            const double *expected, int64_t count)
{
    double *wide = calloc((size_t)(t->rows * e->width + 1), sizeof *wide);
    float *narrow = calloc((size_t)(t->rows * e->width + 1), sizeof *narrow);

    if (!wide || !narrow || t->rows * e->width != count) {
        CHECK(h, false, "%lld features, expected %lld", (long long)(t->rows * e->width),
              (long long)count);
        exit(EXIT_FAILURE);
    }
    CHECK(h, gram_encoder_apply(h->g, e, t, NULL, t->rows, GRAM_F64, wide) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, gram_encoder_apply(h->g, e, t, NULL, t->rows, GRAM_F32, narrow) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < count; i++) {
        CHECK(h, fabs(wide[i] - expected[i]) <= 1e-14 * (1 + fabs(expected[i])),
              "feature %lld is %.17g, expected %.17g", (long long)i, wide[i], expected[i]);
        CHECK(h, narrow[i] == (float)wide[i], "f32 feature %lld is %g, f64 %g", (long long)i,
              (double)narrow[i], wide[i]);
    }
    free(wide);
    free(narrow);
}

/* Days in their order, and the cycles that a column covers. */
static void check_dates(struct harness *h)
{
    const char *const d[] = {"1970-01-01", "1970-01-04", NULL, "1970-01-09", "soon"};
    const char *const unclear[] = {"1/2/2024", "3/4/2024", "1/2/2024", "3/4/2024", "5/6/2024"};
    const char *const m[] = {"1/31/1970", "2/1/1970", "2/2/1970", "2/3/1970", "2/4/1970"};
    const gram_column columns[] = {
        {      "d", NULL,       d},
        {"unclear", NULL, unclear},
        {      "m", NULL,       m}
    };
    const gram_table t = {5, 3, columns};
    const double turn = 6.283185307179586477, root = sqrt(2.0);
    struct gram_encoder *e = fit(h, &t, NULL, (int64_t[]){0, 1, 2, 3}, 4, GRAM_STANDARDISE);
    const double deviation = sqrt(98.0 / 9); /* of 0, 3, 8 */
    const double days[] = {0, 3, 3, 8, 3};   /* the median for what is none */
    double expected[5 * 7];

    h->where = "dates";
    for (ptrdiff_t i = 0; i < 5; i++) {
        const double week = turn * fmod(days[i], 7) / 7;
        double *at = expected + 7 * i;
        at[0] = (days[i] - 11.0 / 3) / deviation;
        at[1] = root * sin(week);
        at[2] = root * cos(week);
        at[3] = i == 2 || i == 4;
        at[4] = i == 0 || i == 2; /* categories 1/2/2024 and 3/4/2024 */
        at[5] = i == 1 || i == 3;
        at[6] = ((double)i - 1.5) / sqrt(1.25);
    }
    CHECK(h, e->column[0].dates && !e->column[1].dates && e->column[2].dates, "which are dates");
    CHECK(h, e->column[1].categories == 2, "%lld categories", (long long)e->column[1].categories);
    expect_features(h, e, &t, expected, 35);
    gram_encoder_destroy(e);
}

/* Texts as dates in each order: days since 1970-01-01, or none. */
static void check_texts(struct harness *h)
{
    static const struct {
        const char *text;
        enum gram_date_order order;
        double days; /* NaN: it is no date in this order */
    } cases[] = {
        {                "1970-01-01", GRAM_DATE_YMD,                       0},
        {              " 1969/12/31 ", GRAM_DATE_YMD,                      -1},
        {                "2000-02-29", GRAM_DATE_YMD,                   11016},
        {                "0001-01-01", GRAM_DATE_YMD,                 -719162},
        {                "0000-01-01", GRAM_DATE_YMD,                 -719528},
        {                "9999-12-31", GRAM_DATE_YMD,                 2932896},
        {          "2024-03-01T12:00", GRAM_DATE_YMD,                 19783.5},
        {    "2024-03-01 06:00:00.5Z", GRAM_DATE_YMD, 19783 + 21600.5 / 86400},
        {  "2024-03-01T00:00:00+0600", GRAM_DATE_YMD,                19782.75},
        {"2024-03-01T00:00:00 -06:00", GRAM_DATE_YMD,                19783.25},
        {                  "1.3.2024", GRAM_DATE_DMY,                   19783},
        {                    "1.3.24", GRAM_DATE_DMY,                   19783},
        {                  "31-12-69", GRAM_DATE_DMY,                      -1},
        {                  "3/1/2024", GRAM_DATE_MDY,                   19783},
        {                  "3.1.2024", GRAM_DATE_MDY,                     NAN},
        {                "1900-02-29", GRAM_DATE_YMD,                     NAN},
        {                "2024-13-01", GRAM_DATE_YMD,                     NAN},
        {                "2024-00-01", GRAM_DATE_YMD,                     NAN},
        {               "2024-03-01T", GRAM_DATE_YMD,                     NAN},
        {          "2024-03-01T25:00", GRAM_DATE_YMD,                     NAN},
        {        "2024-03-01T12:00+1", GRAM_DATE_YMD,                     NAN},
        {               "2024-03-01x", GRAM_DATE_YMD,                     NAN},
        {                "2024-03/01", GRAM_DATE_YMD,                     NAN},
        {                  "24-03-01", GRAM_DATE_YMD,                     NAN},
        {               "12345-03-01", GRAM_DATE_YMD,                     NAN},
        {                   "1.3.202", GRAM_DATE_DMY,                     NAN},
        {                      "1.3.", GRAM_DATE_DMY,                     NAN},
        {                          "", GRAM_DATE_DMY,                     NAN},
    };

    h->where = "texts of dates";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double days = NAN;
        const bool is = gram_date_parse(cases[i].text, cases[i].order, &days);
        CHECK(h, is == !isnan(cases[i].days), "\"%s\" is%s a date", cases[i].text,
              is ? "" : " not");
        CHECK(h, !is || fabs(days - cases[i].days) < 1e-9, "\"%s\" is day %.9f", cases[i].text,
              days);
    }
}

static void check_numbers(struct harness *h)
{
    const double x[] = {1, 2, 3, 6, NAN, 100}, constant[] = {0.1, 0.1, 0.1, 0.1, 0.1, 7};
    const gram_column columns[] = {
        {       "x",        x, NULL},
        {"constant", constant, NULL},
        {       "y",        x, NULL}
    };
    const gram_table t = {6, 3, columns};
    const int64_t rows[] = {0, 1, 2, 3, 4};
    struct gram_encoder *e = fit(h, &t, "y", rows, 5, GRAM_STANDARDISE);
    const double sd = sqrt((4.0 + 1 + 0 + 9) / 4), fill = (2.5 - 3) / sd;
    const double expected[] = {-2 / sd, 0, 0, -1 / sd, 0, 0, 0,       0, 0,
                               3 / sd,  0, 0, fill,    1, 0, 97 / sd, 0, 0};

    h->where = "numbers: mean 3, median 2.5, one missing, a constant column, the target left out";
    CHECK(h, e->columns == 2 && e->width == 3, "%lld columns, width %lld", (long long)e->columns,
          (long long)e->width);
    expect_features(h, e, &t, expected, LENGTH(expected));
    gram_encoder_destroy(e);
}

static double squash(double t)
{
    return t / sqrt(1 + t * t / 9);
}

static void check_robust(struct harness *h)
{
    const double x[] = {0, 1, 2, 3, 4}, ties[] = {5, 5, 5, 5, 9};
    const gram_column columns[] = {
        {   "x",    x, NULL},
        {"ties", ties, NULL}
    };
    const gram_table t = {5, 2, columns};
    struct gram_encoder *e = fit(h, &t, NULL, (int64_t[]){0, 1, 2, 3, 4}, 5, GRAM_ROBUST);
    double expected[10], far[] = {1e308, -1e308}, far_expected[] = {3, 3, -3, -3};
    const gram_column far_columns[] = {
        {"ties", far, NULL},
        {   "x", far, NULL}
    };
    const gram_table far_table = {2, 2, far_columns};

    h->where = "robust: median 2, quartiles 1 and 3; ties fall back to the deviation 1.6";
    for (int i = 0; i < 5; i++) {
        expected[2 * i] = squash((x[i] - 2) * 1.349 / 2);
        expected[2 * i + 1] = squash((ties[i] - 5) / 1.6);
    }
    expect_features(h, e, &t, expected, LENGTH(expected));
    h->where = "robust: far away is 3";
    expect_features(h, e, &far_table, far_expected, LENGTH(far_expected));
    gram_encoder_destroy(e);
}

static void check_extremes(struct harness *h)
{
    const double x[] = {-1.7e308, 1.7e308}, tiny[] = {5e-324, 0}, all_missing[] = {NAN, NAN};
    const gram_column columns[] = {
        {   "x",           x, NULL},
        {"tiny",        tiny, NULL},
        {   "m", all_missing, NULL}
    };
    const gram_table t = {2, 3, columns};
    struct gram_encoder *e = fit(h, &t, NULL, (int64_t[]){0, 1}, 2, GRAM_STANDARDISE);
    const double expected[] = {-1, 0, 0, 1, 0, 0};
    const double other[] = {1, 2};
    const gram_column small[] = {
        {   "m", other, NULL},
        {"tiny", other, NULL},
        {   "x",     x, NULL}
    };
    const gram_table t2 = {2, 3, small};

    h->where = "values whose squares overflow, whose deviation has no inverse, and none at all";
    expect_features(h, e, &t, expected, LENGTH(expected));
    expect_features(h, e, &t2, expected, LENGTH(expected));
    gram_encoder_destroy(e);
    {
        const double narrow[] = {0, 1e-30}, wild[] = {1e300, -1e300};
        const gram_column train[] =
            {
                {"x", narrow, NULL}
        },
                          later[] = {{"x", wild, NULL}};
        const gram_table a = {2, 1, train}, b = {2, 1, later};

        h->where = "a feature out of all proportion is kept finite in f32";
        e = fit(h, &a, NULL, (int64_t[]){0, 1}, 2, GRAM_STANDARDISE);
        expect_features(h, e, &b, (double[]){1e15, -1e15}, 2);
        gram_encoder_destroy(e);
    }
}

static void check_labels(struct harness *h)
{
    const char *const c[] = {"b", "a", NULL, "\xff", "unseen", "a"};
    const char *const whole[] = {"q", "p", "q", "p", NULL, "r"};
    const char *const one[] = {"z", "z", "z", "z", "other", NULL};
    const gram_column columns[] = {
        {    "c", NULL,     c},
        {"whole", NULL, whole},
        {  "one", NULL,   one}
    };
    const gram_table t = {6, 3, columns};
    struct gram_encoder *e = fit(h, &t, NULL, (int64_t[]){0, 1, 2, 3}, 4, GRAM_STANDARDISE);
    /* a b \xff missing | p q */
    const double expected[] = {0, 1, 0, 0, 0, 1, /**/ 1, 0, 0, 0, 1, 0, /**/ 0, 0, 0, 1, 0, 1,
                               0, 0, 1, 0, 1, 0, /**/ 0, 0, 0, 0, 0, 0, /**/ 1, 0, 0, 0, 0, 0};

    h->where = "labels: sorted bytewise, missing last, unseen all zeros, one value alone nothing";
    CHECK(h, e->width == 6, "width %lld", (long long)e->width);
    expect_features(h, e, &t, expected, LENGTH(expected));
    gram_encoder_destroy(e);
}

/* fit() allows three features a column. */
static void check_many_categories(struct harness *h)
{
    const char *const c[] = {"c", "d", "b", "a", "d", "c", "b", "d", NULL, "never", "b", "a"};
    const char *const e3[] = {"x", "y", "z", "x", "y", "z", "x", "y", "x", "never", "z", NULL};
    const gram_column columns[] = {
        {   "c", NULL,  c},
        {"just", NULL, e3}
    };
    const gram_table t = {12, 2, columns};
    struct gram_encoder *e =
        fit(h, &t, NULL, (int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8}, 9, GRAM_STANDARDISE);
    /* b d other missing | x y z */
    const double expected[] = {
        0, 0, 1, 0, 1, 0, 0, /**/ 0, 1, 0, 0, 0, 1, 0, /**/ 1, 0, 0, 0, 0, 0, 1,
        0, 0, 1, 0, 1, 0, 0, /**/ 0, 1, 0, 0, 0, 1, 0, /**/ 0, 0, 1, 0, 0, 0, 1,
        1, 0, 0, 0, 1, 0, 0, /**/ 0, 1, 0, 0, 0, 1, 0, /**/ 0, 0, 0, 1, 1, 0, 0,
        0, 0, 1, 0, 0, 0, 0, /**/ 1, 0, 0, 0, 0, 0, 1, /**/ 0, 0, 1, 0, 0, 0, 0};

    h->where = "more categories than allowed: the most frequent, of equals the first, and one more";
    CHECK(h, e->width == 7 && e->column[0].categories == 2 && e->column[0].other, "width %lld",
          (long long)e->width);
    CHECK(h, e->column[1].categories == 3 && !e->column[1].other, "just as many as allowed");
    expect_features(h, e, &t, expected, LENGTH(expected));
    gram_encoder_destroy(e);
}

/* What gram_table_check, fit and apply refuse. */
static void check_refusals(struct harness *h)
{
    const double x[] = {1, 2, INFINITY};
    const char *const c[] = {"a", "b", "c"};
    const gram_column good[] = {
        {"x",    x, NULL},
        {"c", NULL,    c}
    };
    const struct gram_encoding how = {
        .scaling = GRAM_ROBUST, .max_categories = 2, .target = &good[0], .targets = 1};
    const struct {
        gram_table table;
        const char *says;
    } bad[] = {
        {                                          {-1, 0, NULL},"-1 rows"                                                                 },
        {                                           {1, 2, NULL},                "column is NULL"},
        {{2, 2, (gram_column[]){{"x", x, NULL}, {"x", NULL, c}}},
         "two columns have the name \"x\""                                                       },
        {                 {2, 1, (gram_column[]){{"", x, NULL}}},                   "has no name"},
        {                   {2, 1, (gram_column[]){{"x", x, c}}},                "\"x\" has both"},
        {             {2, 1, (gram_column[]){{"x", NULL, NULL}}},             "\"x\" has neither"},
        {                {3, 1, (gram_column[]){{"x", x, NULL}}}, "\"x\" holds infinity in row 2"},
    };
    struct gram_encoder *e;
    gram_table t = {2, 2, good};
    double features[16];

    for (int i = 0; i < LENGTH(bad); i++) {
        gram_status status = gram_table_check(h->g, &bad[i].table);
        h->where = bad[i].says;
        CHECK(h, status == GRAM_INVALID_ARGUMENT, "status %s", gram_status_name(status));
        CHECK(h, strstr(gram_message(h->g), bad[i].says) != NULL, "%s", gram_message(h->g));
    }
    h->where = "refusals of fit and apply";
    t.columns = 1;
    CHECK(h, gram_encoder_fit(h->g, &t, NULL, 0, &how, &e) == GRAM_INVALID_ARGUMENT,
          "fitted on the target alone");
    CHECK(h, e == NULL, "out was set");
    t.columns = 2;
    e = fit(h, &t, NULL, (int64_t[]){0, 1}, 2, GRAM_ROBUST);
    t.columns = 1;
    CHECK(h, gram_encoder_apply(h->g, e, &t, NULL, 2, GRAM_F64, features) == GRAM_INVALID_ARGUMENT,
          "applied without a column");
    CHECK(h, strstr(gram_message(h->g), "no column \"c\"") != NULL, "%s", gram_message(h->g));
    t.column =
        (gram_column[]){
            {"x", NULL, c},
            {"c", NULL, c}
    },
    t.columns = 2;
    CHECK(h, gram_encoder_apply(h->g, e, &t, NULL, 2, GRAM_F64, features) == GRAM_INVALID_ARGUMENT,
          "applied to labels");
    CHECK(h, strstr(gram_message(h->g), "\"x\" holds labels, expected numbers") != NULL, "%s",
          gram_message(h->g));
    gram_encoder_destroy(e);
}

/* More rows than one piece of the parallel loop, and rows chosen by index. */
static void check_many_rows(struct harness *h)
{
    enum {
        COUNT = 5000
    };
    double *x = calloc(COUNT, sizeof *x), *features = calloc(COUNT, sizeof *features);
    int64_t *rows = calloc(COUNT, sizeof *rows);
    gram_column column = {"x", x, NULL};
    gram_table t = {COUNT, 1, &column};
    struct gram_encoder *e;
    int64_t wrong = 0;

    if (!x || !features || !rows)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = (double)i, rows[i] = COUNT - 1 - i;
    e = fit(h, &t, NULL, rows, COUNT, GRAM_STANDARDISE);
    h->where = "many rows";
    CHECK(h, gram_encoder_apply(h->g, e, &t, rows, COUNT, GRAM_F64, features) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < COUNT; i++)
        wrong += fabs(features[i] - ((double)rows[i] - (COUNT - 1) / 2.0) /
                                        sqrt((COUNT * (double)COUNT - 1) / 12)) > 1e-12;
    CHECK(h, wrong == 0, "%lld features are wrong", (long long)wrong);
    gram_encoder_destroy(e);
    free(x);
    free(features);
    free(rows);
}

/* A number of many magnitudes, or one that others have too. */
static double some_number(uint64_t *state)
{
    const double unit = gram_random_unit(state) - 0.5;

    switch (gram_random_below(state, 5)) {
    case 0:
        return ldexp(unit, (int)gram_random_below(state, 2000) - 1000);
    case 1:
        return (double)(float)unit;
    case 2:
        return floor(9 * unit);
    case 3:
        return unit * 0x1p-1060; /* subnormal */
    default:
        return unit;
    }
}

/* Against qsort, around the number from which bytes are sorted, and with bytes that all share. */
static void numbers_are_sorted(struct harness *h)
{
    static const int64_t counts[] = {0, 1, 2, 2047, 2048, 2049, 20000};
    enum {
        MOST = 20000
    };
    double *x = calloc(MOST, sizeof *x), *expected = calloc(MOST, sizeof *expected);
    double *scratch = calloc(MOST, sizeof *scratch);
    uint64_t state = 5;

    if (!x || !expected || !scratch)
        exit(EXIT_FAILURE);
    for (int i = 0; i < 3 * LENGTH(counts); i++) {
        const int64_t count = counts[i / 3];
        int64_t wrong = 0;

        h->where = "sorting";
        for (int64_t k = 0; k < count; k++)
            x[k] = expected[k] = i % 3 == 0   ? some_number(&state)
                                 : i % 3 == 1 ? (double)(float)gram_random_unit(&state)
                                              : 7.25;
        gram_sort_numbers(x, count, scratch);
        qsort(expected, (size_t)count, sizeof *expected, by_value);
        for (int64_t k = 0; k < count; k++)
            wrong += x[k] != expected[k];
        CHECK(h, wrong == 0, "%lld of %lld numbers are out of place", (long long)wrong,
              (long long)count);
    }
    free(x);
    free(expected);
    free(scratch);
}

/* Columns of all kinds, more of them than are fitted at a time. */
enum {
    FITTED = 21,
    FITTED_ROWS = 4000
};

static struct gram_encoder *fit_with_threads(struct harness *h, const gram_table *t,
                                             const int64_t *rows, int threads)
{
    const int before = h->g->threads;
    struct gram_encoder *e;

    gram_pool_destroy(h->g);
    h->g->threads = threads;
    e = fit(h, t, "c3", rows, FITTED_ROWS, GRAM_ROBUST);
    gram_pool_destroy(h->g);
    h->g->threads = before;
    return e;
}

static void expect_same_column(struct harness *h, const struct gram_encoded_column *a,
                               const struct gram_encoded_column *b)
{
    CHECK(h,
          strcmp(a->name, b->name) == 0 && a->first == b->first && a->width == b->width &&
              a->categories == b->categories && a->missing == b->missing && a->dates == b->dates,
          "columns \"%s\" and \"%s\" differ", a->name, b->name);
    CHECK(h,
          a->shift == b->shift && a->scale == b->scale && a->fill == b->fill &&
              a->least == b->least && a->most == b->most,
          "column \"%s\": %.17g %.17g and %.17g %.17g", a->name, a->shift, a->scale, b->shift,
          b->scale);
}

static void any_number_of_threads_fits_one_encoder(struct harness *h)
{
    static const char *const words[] = {"2024-03-01", "2024-05-17", "2025-01-31"};
    double *x = calloc((size_t)FITTED * FITTED_ROWS, sizeof *x);
    const char **label = calloc((size_t)2 * FITTED_ROWS, sizeof *label);
    int64_t *rows = calloc(FITTED_ROWS, sizeof *rows);
    gram_column column[FITTED];
    char name[FITTED][8];
    const gram_table t = {FITTED_ROWS, FITTED, column};
    struct gram_encoder *one, *other;
    uint64_t state = 1;

    if (!x || !label || !rows)
        exit(EXIT_FAILURE);
    h->where = "threads";
    for (int64_t i = 0; i < FITTED_ROWS; i++) {
        rows[i] = i;
        label[i] = words[gram_random_below(&state, 3)];
        label[FITTED_ROWS + i] = gram_random_below(&state, 3) ? "no date" : NULL;
    }
    for (int c = 0; c < FITTED; c++) {
        snprintf(name[c], sizeof name[c], "c%d", c);
        column[c] = (gram_column){.name = name[c]};
        if (c % 7 < 5)
            column[c].numbers = x + (size_t)c * FITTED_ROWS;
        else
            column[c].labels = label + (c % 7 == 5 ? 0 : FITTED_ROWS);
        for (int64_t i = 0; i < FITTED_ROWS; i++)
            x[(size_t)c * FITTED_ROWS + (size_t)i] =
                c % 7 == 1 && i % 9 == 0 ? (double)NAN : some_number(&state);
    }
    one = fit_with_threads(h, &t, rows, 1);
    other = fit_with_threads(h, &t, rows, 3);
    CHECK(h, one->columns == FITTED - 1 && other->columns == one->columns, "%lld and %lld columns",
          (long long)one->columns, (long long)other->columns);
    for (int64_t c = 0; c < one->columns; c++)
        expect_same_column(h, &one->column[c], &other->column[c]);
    gram_encoder_destroy(one);
    gram_encoder_destroy(other);
    free(x);
    free(label);
    free(rows);
}

int main(void)
{
    struct harness_options options = {.threads = 2};
    struct harness h;

    if (!harness_open(&h, &options, NULL))
        return EXIT_FAILURE;
    h.g->call = "gram_machine_fit"; /* whose messages these are */
    check_texts(&h);
    check_dates(&h);
    check_numbers(&h);
    check_robust(&h);
    check_extremes(&h);
    check_labels(&h);
    check_many_categories(&h);
    check_refusals(&h);
    check_many_rows(&h);
    numbers_are_sorted(&h);
    any_number_of_threads_fits_one_encoder(&h);
    printf("table: %d checks, %d failed\n", h.checks, h.failures);
    harness_close(&h);
    return h.failures || !h.checks ? EXIT_FAILURE : EXIT_SUCCESS;
}
