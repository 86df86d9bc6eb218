/*
 * permuted.h - permutation importances of a model on a table, for `gram importance`
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_PERMUTED_H
#define GRAM_CLI_PERMUTED_H
#include "model.h"

struct permuted_settings {
    int64_t repeats, seed;
    const char *target; /* of a model of several; NULL: the only one */
    int show_progress;
};

/* How much the error grows when a column is shuffled. */
struct permuted_feature {
    const char *name;       /* the model's */
    double mean, deviation; /* of the repeats (with n - 1); deviation NaN for one of them */
    double share;           /* what gram_machine_feature calls importance */
};

struct permuted {
    struct permuted_feature *feature; /* the largest mean first */
    int64_t count, rows, repeats;
    const char *metric; /* "rmse" or "log_loss" */
    double error;       /* with nothing shuffled */
};

/* Reads the table of a model with its target, and shuffles.  Call permuted_free in any case. */
enum exit_status permuted_find(const struct model *m, const char *path,
                               const struct input_settings *input,
                               const struct permuted_settings *settings, struct permuted *out,
                               struct failure *why);

void permuted_free(struct permuted *p);

/* The member "permutation" of an open object; and as text with a bar each (at most `most`). */
void permuted_json(struct json *j, const struct permuted *p);
void permuted_text(struct output *out, const struct permuted *p, int64_t most);
#endif
