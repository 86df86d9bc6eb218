/*
 * solve_extras.h - what `gram solve` can do and tell beside a solution
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_SOLVE_EXTRAS_H
#define GRAM_CLI_SOLVE_EXTRAS_H
#include "device.h"

struct solve_extras_settings {
    const char *jitter, *report;
    int refine;
};

extern const struct option_row solve_extras_options[];

enum {
    SOLVE_MOST_JITTERS = 64
};

/* A number that the library reports for a matrix or a solution: where the context computes, and
 * copied to the CPU. */
struct solve_answer {
    struct device_matrix there;
    struct matrix here; /* memory NULL: not asked for */
};

/* All of these numbers; call solve_extras_free when done. */
struct solve_extras {
    struct solve_answer rcond, jittered, backward, refinings;
    double jitter[SOLVE_MOST_JITTERS];
};

/* Sets the options of a solve by g of A (a) with the result x; what they point to is in extras. */
enum exit_status solve_extras_take(gram_context *g, const struct solve_extras_settings *s,
                                   const gram_tensor *a, const gram_tensor *x,
                                   struct solve_extras *extras, gram_solve_options *options,
                                   struct failure *why);
/* Waits for the answers, for the report. */
enum exit_status solve_extras_fetch(gram_context *g, struct solve_extras *extras,
                                    struct failure *why);
/* The report: a line of CSV for each item of the batch of x. */
enum exit_status solve_extras_report(const struct solve_extras_settings *s, const gram_tensor *x,
                                     const struct solve_extras *extras, struct failure *why);
void solve_extras_free(gram_context *g, struct solve_extras *extras);
#endif
