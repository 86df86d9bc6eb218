/*
 * model.h - what fit, predict, score and importance share: tables for the library, models, reports
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_MODEL_H
#define GRAM_CLI_MODEL_H
#include "command.h"
#include "csv.h"
#include "json.h"

/* Rows of a table in the library's form, which are borrowed from the table.  Call free(columns)
 * when done. */
struct table_view {
    gram_table t;
    gram_column *columns;
};

/*
 * Rows first to first + rows of t, without the columns that were ignored and without those in
 * `except` (indices, -1 for none).
 */
enum exit_status table_view_make(const struct table *t, int64_t first, int64_t rows,
                                 const int64_t except[2], struct table_view *out,
                                 struct failure *why);
/* One column, from row `first` on. */
gram_column table_column(const struct table *t, int64_t column, int64_t first);

/* The index of a column that must exist; `what` is its name in the message. */
enum exit_status table_require(const struct table *t, const char *path, const char *name,
                               const char *what, int64_t *index, struct failure *why);

/* A model that was loaded, with the features sorted by name. */
struct model {
    gram_context *g;
    gram_machine *machine;
    gram_machine_feature *features;
    int64_t count;
};

enum exit_status model_load(const char *path, const struct common_settings *common,
                            struct model *out, struct failure *why);
void model_free(struct model *m);

/*
 * Reads the columns that the model needs, with the kinds that it needs.  With `target`, which
 * receives the index of that column (of several, of the first), it also reads the target.  Columns
 * that are in the list `keep` (NULL: none; "all": every one) and that the model does not need are
 * read as text.
 */
enum exit_status model_read_table(const struct model *m, const char *path,
                                  const struct input_settings *input, const char *keep,
                                  int64_t *target, struct table *out, struct failure *why);

/* Lists of names that are separated by commas, and may be NULL: whether a name is in one; and the
 * column of the next name, which the list then begins behind: what says where the name comes from,
 * as in table_require. */
int name_listed(const char *list, const char *name);
enum exit_status name_next(const struct table *t, const char *path, const char **list,
                           const char *what, int64_t *column, struct failure *why);

/* Whether a name is that of a target. */
int model_predicts(const gram_machine *machine, const char *name);

/* The features from the most important to the least; free(*out) when done. */
enum exit_status model_importance(gram_context *g, const gram_machine *machine,
                                  gram_machine_feature **out, int64_t *count, struct failure *why);

/* The importances as the object "importance", and as text with a bar each (at most `most`). */
void importance_json(struct json *j, const gram_machine_feature *features, int64_t count);
void importance_text(struct output *out, const gram_machine_feature *features, int64_t count,
                     int64_t most);
/* The same as a picture; `about` goes below the title. */
enum exit_status importance_chart(const char *path, const char *about,
                                  const gram_machine_feature *features, int64_t count, int64_t most,
                                  struct failure *why);

/* Members metric, score, rows, mae, r2, log_loss of an open object. */
void score_json(struct json *j, const gram_machine_score *score);
void score_text(struct output *out, const gram_machine_score *score);

/* Writes a heading and the members of an object of a description as a line; nothing if the
 * description does not have it. */
void member_text(struct output *out, const char *description, const char *name,
                 const char *heading);

/* The weights of the classes that a machine was trained with, from its description: as a member of
 * an open object, and as a line; nothing if there are none. */
void class_weight_json(struct json *j, const char *description);
void class_weight_text(struct output *out, const char *description);

/* A line on the columns whose levels have means of the target; none if there are none. */
void category_statistics_text(struct output *out, const char *description);

/* A line on the members of an ensemble, from the library's description; none of one machine. */
void ensemble_text(struct output *out, const char *description);

const char *task_name(gram_task task);
#endif
