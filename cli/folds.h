/*
 * folds.h - which rows of a table are held out together
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FOLDS_H
#define GRAM_CLI_FOLDS_H
#include "targets.h"

enum {
    FOLD_NEVER = -1,  /* the row has no target: it is not used at all */
    FOLD_ALWAYS = -2, /* the row is before the first fold in time: it is only learned from */
};

/* How rows are dealt to folds.  Columns are -1 if there are none; at most one of classes, groups
 * and time is set. */
struct fold_plan {
    const struct table *table;
    const char *path; /* for messages */
    const struct targets *targets;
    int64_t classes, groups, time;
    int64_t folds;
    uint64_t seed;
};

/*
 * Sets fold[row] from 0 to folds - 1.  A row that lacks a target is FOLD_NEVER.
 *   classes   every fold has the same share of the rows of each class, up to one row (stratified)
 *   groups    the rows of a group are in one fold: groups go, from the largest to the smallest, to
 *             the fold with the fewest rows
 *   time      rows are in order of the column (numbers, or texts bytewise, as ISO dates need) and
 *             are cut into folds + 1 parts, the first of which is FOLD_ALWAYS; rows of one time
 *             are in one part
 *   none      at random
 * Fails: there are fewer rows, groups or times than folds need, or a group or time is missing.
 */
enum exit_status folds_deal(const struct fold_plan *plan, int64_t *fold, struct failure *why);
#endif
