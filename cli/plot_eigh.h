/*
 * plot_eigh.h - `gram bench eigh --plot`: time and workspace of every driver over n
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_PLOT_EIGH_H
#define GRAM_CLI_PLOT_EIGH_H
#include "command.h"

struct plot_eigh {
    const char *path; /* of the picture, *.svg; the numbers go to *.csv beside it */
    gram_dtype dtype;
    int64_t items, most; /* all pairs of so many matrices of the orders 4 to most */
    double seconds;      /* that a point is measured for at least */
};

/* FILE.csv beside FILE.svg; free(*path) when done. */
enum exit_status plot_eigh_csv(const char *svg, char **path, struct failure *why);
enum exit_status plot_eigh(gram_context *g, const struct plot_eigh *p, struct failure *why);
#endif
