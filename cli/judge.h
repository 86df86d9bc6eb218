/*
 * judge.h - the predictions of a model for rows whose answers are known, and how good they are
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_JUDGE_H
#define GRAM_CLI_JUDGE_H
#include "measures.h"
#include "model.h"

#define COVERAGE_LEVEL 0.9

/* What a model makes of some rows; judgement_free when done. */
struct judgement {
    gram_machine_score score;       /* as gram_machine_evaluate gives it */
    struct class_measures classes;  /* of a classification */
    struct number_measures numbers; /* of a regression */
    struct coverage coverage;       /* of the intervals or sets of level COVERAGE_LEVEL */
    int64_t *truth;                 /* of a classification: the class of every row, or NULL */
    double *value;                  /* of a regression: a prediction for every row, or NULL */
    double *proba;                  /* of a classification: rows by classes, or NULL */
};

/*
 * Predicts the table, once, and compares the predictions with the target, which has the same rows.
 * Ctrl-C stops it.
 */
enum exit_status judge(gram_context *g, const gram_machine *machine, const gram_table *table,
                       const gram_column *target, struct judgement *out, struct failure *why);
void judgement_free(struct judgement *j);

/*
 * A picture as SVG: of a classification the confusion matrix and a reliability diagram, of a
 * regression the predictions against the truth and their residuals.  truth has as many rows as were
 * judged, and is used for a regression.
 */
enum exit_status judgement_chart(const char *path, const gram_machine *machine,
                                 const gram_column *truth, int64_t rows,
                                 const struct judgement *judged, struct failure *why);

/* Members of an open object: those of score_json, and all other measures. */
void judgement_json(struct json *j, const gram_machine *machine, const struct judgement *judged);
/* The same for people: the first line is that of score_text. */
void judgement_text(struct output *out, const gram_machine *machine,
                    const struct judgement *judged);
#endif
