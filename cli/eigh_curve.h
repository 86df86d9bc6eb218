/*
 * eigh_curve.h - `gram bench eigh --curve`: time and workspace of every driver over n, as CSV
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_EIGH_CURVE_H
#define GRAM_CLI_EIGH_CURVE_H
#include "command.h"

struct eigh_curve {
    const char *path; /* of the table, *.csv */
    gram_dtype dtype;
    int64_t items, most; /* all pairs of so many matrices of the orders 4 to most */
    double seconds;      /* that a point is measured for at least */
};

enum exit_status eigh_curve(gram_context *g, const struct eigh_curve *c, struct failure *why);
#endif
