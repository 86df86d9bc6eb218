/*
 * table.h - tables of named columns, and the encoding that turns their rows into features
 *
 * A number becomes one feature: shifted, scaled and, if the encoder says so, drawn in at the ends;
 * a missing one takes the fill value, and a second feature, the indicator, is 1 where it was
 * missing if any was missing in training.  A category becomes one feature a value seen in training,
 * 1 where it matches and 0 elsewhere, so that equal categories differ by exact zeros; a missing one
 * is a value of its own, the last, if any was missing in training.  Where a column had more
 * categories than the encoding allows, the most frequent keep theirs and all others, those never
 * seen included, share one feature.  A category column with less than two values in training has no
 * features; a number that was constant is always 0.  Behind the features of a category stand the
 * statistics of its levels, if there are any (table_levels.c).
 *
 * An encoder is fitted once on the training rows, saved with the machine, and applied to any table
 * that has its columns by name.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TABLE_H
#define GRAM_TABLE_H
#include "core/context.h"
#include "core/model_file.h"

/*
 * A column of labels that are all dates becomes the number of days, scaled as a number, and for
 * each cycle that it covers the sine and cosine, times sqrt(2), of the place in it.
 */
enum {
    GRAM_DATES = 1,
    GRAM_DATES_YEAR = 2,        /* the column spans a year of 365.2425 days */
    GRAM_DATES_WEEK = 4,        /* a week, and not one day of it alone */
    GRAM_DATES_DAY = 8,         /* a day, and not one time of it alone */
    GRAM_DATES_ORDER_SHIFT = 4, /* an enum gram_date_order stands above */
};

enum {
    GRAM_MOST_STATISTICS = 16 /* of a level */
};

struct gram_encoded_column {
    char *name;
    int64_t first, width; /* its features: [first, first + width) */
    int64_t categories;
    char **category;           /* sorted bytewise; NULL: a number, or dates */
    int dates;                 /* labels that are dates: GRAM_DATES_* and the order; 0: none */
    bool other;                /* a feature behind them for every other category */
    bool missing;              /* indicator feature (number), or the category "missing", last */
    double shift, scale, fill; /* number: feature = squash((value or fill - shift) * scale), within
                                  1e15 of 0; scale 0: constant in training */
    double least, most; /* numbers and days in training; least > most: there was none; infinite:
                           an old file does not say */
    /* Target statistics of the levels of a category, its last features: those of new rows, one row
     * of `statistic` a level and one more for every other label, and of the rows of training. */
    int64_t levels; /* 0: there are none */
    char **level;   /* sorted bytewise */
    int64_t statistics;
    double *statistic; /* levels + 1 by statistics */
    double *trained;   /* rows that it was fitted on by statistics; NULL once they are forgotten */
};

/* The number of features that a column takes, from everything else that is known of it. */
int64_t gram_encoded_width(const struct gram_encoded_column *c);

struct gram_encoder {
    int64_t columns, width;
    bool squash; /* features t become t / sqrt(1 + (t / 3)^2) */
    struct gram_encoded_column *column;
};

enum gram_scaling {
    GRAM_STANDARDISE, /* (value - mean) / standard deviation (population) */
    GRAM_ROBUST, /* (value - median) / ((q75 - q25) / 1.349), then squash; the standard deviation
                    where the quartiles are equal */
};

struct gram_encoding {
    enum gram_scaling scaling;
    int64_t max_categories; /* features of a column without the one of missing values; at least 2 */
    int64_t categorical; /* names of columns of labels that are categories even if they are dates */
    const char *const *categorical_name;
    const gram_column *target; /* columns that are left out, by their names */
    int64_t targets;
    /* What the statistics of levels are means of: of the rows that are fitted on, rows by
     * statistics and column-major; 0: there are none.  With the weights of these rows, or NULL. */
    int64_t statistics;
    const double *statistic, *weight;
    uint64_t seed;
};

/* Refuses NULLs, negative sizes, repeated or empty names, columns that are neither numbers nor
 * labels or both, and infinite numbers: the message names the column and the row. */
gram_status gram_table_check(gram_context *g, const gram_table *table);

/* Fits on the given rows (indices into the checked table), on all columns but the targets, which
 * the context's threads share; refuses a table without any.  *out is NULL on an error; its memory
 * comes from malloc, since it outlives the context. */
gram_status gram_encoder_fit(gram_context *g, const gram_table *table, const int64_t *rows,
                             int64_t count, const struct gram_encoding *how,
                             struct gram_encoder **out);

/* features[i * width + j] of rows[i] (NULL: of row i), f32 or f64.  The table was checked; a column
 * that it lacks, or that is of the other kind, is refused by name. */
gram_status gram_encoder_apply(gram_context *g, const struct gram_encoder *encoder,
                               const gram_table *table, const int64_t *rows, int64_t count,
                               gram_dtype dtype, void *features);

/* The same of rows that the encoder was fitted on, from the first-th of them on, whose statistics
 * of levels are not those of new rows; and what ends the memory of them. */
gram_status gram_encoder_apply_training(gram_context *g, const struct gram_encoder *encoder,
                                        const gram_table *table, const int64_t *rows,
                                        const int64_t first_count[2], gram_dtype dtype,
                                        void *features);
void gram_encoder_forget_training(struct gram_encoder *encoder);

/* Whether no row had a value in training, so that the column may hold numbers or labels. */
bool gram_encoded_is_empty(const struct gram_encoded_column *c);

/* What rows of a table have in one column of the encoder that training rows did not have: counts,
 * and the first row of each (-1: none). */
struct gram_unseen_values {
    int64_t unknown, first_unknown; /* labels that are no category, or no date */
    int64_t missing, first_missing;
    int64_t far, first_far; /* farther outside of the range than the range is wide */
};
gram_status gram_encoder_unseen(gram_context *g, const struct gram_encoder *encoder,
                                const gram_table *table, int64_t column,
                                struct gram_unseen_values *out);

void gram_encoder_destroy(struct gram_encoder *encoder);

/* table_sort.c: numbers in rising order, by a copy of them in scratch.  -0 may stand before 0, and
 * NaNs at either end. */
void gram_sort_numbers(double *value, int64_t count, double *scratch);

/* ---- Target statistics of levels ------------------------------------------------------------- */

/* A label and how often it was seen. */
struct gram_seen {
    const char *label;
    int64_t times;
};

/* Rows of a column of labels, and the labels that these have, sorted. */
struct gram_level_rows {
    const gram_column *from;
    const int64_t *rows;
    int64_t count;
    const struct gram_seen *seen;
    int64_t distinct;
};

/* Adds the statistics of a column of labels, if it has enough levels, and any of the statistics
 * differs between them by more than chance; false: there is no memory. */
bool gram_encoded_fit_levels(const struct gram_level_rows *of, const struct gram_encoding *how,
                             struct gram_encoded_column *c);
/* The statistics of a label, which may be NULL, of new rows. */
const double *gram_encoded_level(const struct gram_encoded_column *c, const char *label);
void gram_encoded_forget_levels(struct gram_encoded_column *c);

/* ---- Encoders in model files ---------------------------------------------------------------- */

/* Whether any column is of dates: older versions cannot read such a file. */
bool gram_encoder_has_dates(const struct gram_encoder *encoder);
/* The same of statistics of levels. */
bool gram_encoder_has_levels(const struct gram_encoder *encoder);
/* Adds an encoder as arrays "encoder.*". */
void gram_model_put_encoder(struct gram_model_writer *w, const struct gram_encoder *encoder);
/* What gram_model_need_encoder would refuse of it, and the column; NULL: nothing. */
const char *gram_model_encoder_wrong(const struct gram_encoder *encoder, const char **column);
/* The encoder, checked as strictly as the file itself. */
gram_status gram_model_need_encoder(gram_context *g, const struct gram_model_file *file,
                                    struct gram_encoder **out);
#endif
