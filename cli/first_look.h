/*
 * first_look.h - what is worth knowing about a table before a machine is trained on it
 *
 * The codes of its remarks, and when each is made:
 *
 *   bad-cell          at most a tenth of a column of texts are no numbers, and the others are
 *   decimal-comma     a column of texts, of which nine tenths are numbers once their comma is a
 *                     point; decimal-point is the opposite, with --decimal comma
 *   thousands         the same for groups of three digits: 1,234,567
 *   unit              the same for the signs of currencies and percent: $1,234.56
 *   date              nine tenths are dates, but no days are made of them: others are among them,
 *                     day and month cannot be told apart, or the column is the target
 *   whole-target      the target is 3 to 20 different whole numbers: numbers, or classes?
 *   two-values        the target is two different numbers that are no usual pair of classes
 *   different         every value differs from all others: texts, or whole numbers that count
 *   precision         whole numbers have more digits than a double
 *   constant, empty   one value, or none
 *   duplicate         the same as an earlier column in every row
 *   leak              the column alone explains 99 % of the target
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FIRST_LOOK_H
#define GRAM_CLI_FIRST_LOOK_H
#include "remarks.h"

struct first_look {
    const struct table *table; /* its rows in the order of the file */
    int64_t target, weights;   /* columns; weights -1: none */
    int task;                  /* a gram_task, as the user gave it */
    int comma;                 /* the user has said that numbers have a decimal comma */
    const int64_t *targets;    /* if there are several: all of them, and how many */
    int64_t several;
};

/* Adds what it finds, column by column.  Columns whose kind the user chose are not guessed at. */
enum exit_status first_look(const struct first_look *look, struct remarks *out,
                            struct failure *why);
/* The same of one more target alone, and of what explains it. */
enum exit_status first_look_target(const struct first_look *look, struct remarks *out,
                                   struct failure *why);
#endif
