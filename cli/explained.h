/*
 * explained.h - how much of a target one column explains on its own
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_EXPLAINED_H
#define GRAM_CLI_EXPLAINED_H
#include "csv.h"

/* Rows of a target that is there, and its values there: numbers, or classes as numbers. */
struct explained {
    int64_t count;
    int64_t *row;
    double *value;
    int classes;  /* the values only tell classes apart */
    double plain; /* errors without any column; below 0: they are not known yet */
    double *x;    /* this and what follows: memory for explained_by */
    struct pair *pair;
    const char **text;
};

/* Takes at most 20,000 rows, spread evenly over the table. */
enum exit_status explained_begin(const struct table *t, int64_t target, int classes,
                                 struct explained *out, struct failure *why);

/*
 * The share of the target that the column predicts for rows that were left out: of the variance,
 * or of the chance to miss the class.  A row is predicted by the others of the same value; a
 * number that occurs once by its neighbours.  NaN if there are fewer than 20 such rows, or less
 * than half.
 */
double explained_by(struct explained *e, const struct column *column);

void explained_end(struct explained *e);
#endif
