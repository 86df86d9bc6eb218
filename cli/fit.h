/*
 * fit.h - the settings of `gram fit` and what it found
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FIT_H
#define GRAM_CLI_FIT_H
#include "class_weights.h"
#include "model.h"
#include "remarks.h"
#include "targets.h"

struct fit_settings {
    struct common_settings common;
    struct input_settings input;
    const char *target, *weights, *categorical, *ignore; /* names of columns */
    const char *output, *chart, *trials, *class_weight;
    int task, automatic, fixed, kernel, metric, transform, solver, dtype, json, strict;
    int category_statistics, loss, mpi;
    double holdout, p, q, metric_power, bandwidth, regularization, tolerance, validation, memory,
        time_limit, temperature;
    int64_t seed, iterations, ensemble, centres, leaf_rows, metric_rows, max_categories, top, trees;
};

extern const struct option_group fit_groups[];

/* What the settings ask the library for, weights and progress apart. */
enum exit_status fit_options(const struct fit_settings *s, gram_machine_options *options,
                             struct failure *why);

/* Groups of these options, for other commands that fit. */
extern const struct option_row fit_column_options[], fit_hyper_options[], fit_limit_options[];

/*
 * Reads a table as `gram fit` does, and finds the targets and the weights (-1: none) in it; of
 * several targets, all but the first are no features.  Call table_free and targets_free in any
 * case.
 */
enum exit_status fit_read(const struct fit_settings *s, const char *path, struct table *table,
                          struct targets *targets, int64_t *weights, struct failure *why);

/* The task that the library would choose from all rows: a part of them may lack a class. */
gram_task fit_task(const struct fit_settings *s, const struct table *table, int64_t target);

/* The weights of the classes; refuses them for a regression.  Call class_weights_free in any case.
 */
enum exit_status fit_class_weights(const struct fit_settings *s, const struct table *table,
                                   int64_t target, struct class_weights *out, struct failure *why);

/* The columns of --categorical, which are categories even if they are dates.  Call
 * free(options->categorical_column) in any case. */
enum exit_status fit_categorical(const struct fit_settings *s, const struct table *table,
                                 gram_machine_options *options, struct failure *why);

/* Seconds of the stages of the command. */
struct fit_seconds {
    double read, fit, score, save, total;
};

/* Everything that is said about a fit. */
struct fit_result {
    const gram_machine *machine;
    const gram_machine_feature *features; /* the most important first */
    int64_t feature_count, rows;          /* rows that were given to the fit */
    const gram_machine_score *score; /* NULL: nothing was held out; of several targets the mean */
    const struct judgements *judged; /* of several targets, each, where something was */
    struct remarks remarks;          /* on the table */
    struct fit_seconds seconds;
};

/* Writes the trials of the search of a machine that was just fitted to a file. */
enum exit_status fit_trials(const char *path, const gram_machine *machine, struct failure *why);

void fit_json(struct json *j, const struct fit_settings *s, const struct fit_result *result);
void fit_text(struct output *out, const struct fit_settings *s, const struct fit_result *result);
#endif
