/*
 * targets.h - the columns that a command predicts: one, or several of a regression
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TARGETS_H
#define GRAM_CLI_TARGETS_H
#include "judge.h"

/* Columns of a table, in the order in which they were named. */
struct targets {
    int64_t count, *column;
};

/* Whether the value of --target, which may be NULL, names a column: it is the name, or in the list.
 */
int target_named(const char *list, const char *name);

/* The columns of a list that is separated by commas; a column whose name is the whole list is the
 * only one.  Call targets_free in any case. */
enum exit_status targets_find(const struct table *t, const char *path, const char *list,
                              struct targets *out, struct failure *why);
/* The columns of a model's targets in a table that has all of them. */
enum exit_status targets_of(const gram_machine *machine, const struct table *t, struct targets *out,
                            struct failure *why);
void targets_free(struct targets *t);

enum {
    TARGET_COLUMN_BYTES = 600
};

/* The name of a column of an output that has `what` of one of several targets, in `name`. */
const char *target_column(const char *what, const char *target, char name[TARGET_COLUMN_BYTES]);

/* The columns in the library's form, from row `first` on; call free(*out) when done. */
enum exit_status targets_view(const struct table *t, const struct targets *targets, int64_t first,
                              gram_column **out, struct failure *why);

/* Several targets are regressions: refuses texts and classes. */
enum exit_status targets_check(const struct table *t, const char *path,
                               const struct targets *targets, int task, struct failure *why);

/* What a machine of several targets makes of some rows: a judgement of each. */
struct judgements {
    int64_t count;
    struct judgement *of; /* from malloc; or NULL */
    gram_machine_score mean;
};

/* Predicts the table once, as judge does, and compares the predictions of every target. */
enum exit_status judge_targets(gram_context *g, const gram_machine *machine,
                               const gram_table *table, const gram_column *truth,
                               struct judgements *out, struct failure *why);
void judgements_free(struct judgements *j);

/* The member "scores" of an open object, by the names of the targets. */
void judgements_json(struct json *j, const gram_machine *machine, const struct judgements *judged);
void judgements_text(struct output *out, const gram_machine *machine,
                     const struct judgements *judged);

/* A picture as SVG, as judgement_chart, of one target below the other. */
enum exit_status judgements_chart(const char *path, const gram_machine *machine,
                                  const gram_column *truth, int64_t rows,
                                  const struct judgements *judged, struct failure *why);

/* The names of a machine's targets, separated by commas; and as the member "targets", if they are
 * several. */
void targets_text(struct output *out, const gram_machine *machine);
void targets_json(struct json *j, const gram_machine *machine);
#endif
