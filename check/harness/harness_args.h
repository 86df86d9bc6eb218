/*
 * harness_args.h - problems as text: "cdist 4000 4000 256 p=1", on a command line or in a file
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_HARNESS_ARGS_H
#define GRAM_HARNESS_ARGS_H
#include "harness.h"

/* Exit statuses of the entry points, the same as the command line's own. */
enum {
    HARNESS_RIGHT = 0,
    HARNESS_WRONG = 1,
    HARNESS_USAGE = 2,
    HARNESS_NO_INPUT = 66,
    HARNESS_NO_MEMORY = 71,
    HARNESS_NO_OUTPUT = 73,
    HARNESS_IO = 74,
};

enum {
    HARNESS_MAX_SIZES = 18, /* kron: M and 16 factors, and one too many */
    HARNESS_MAX_PARAMS = 24,
};

/* One problem that somebody asked for; the texts are borrowed. */
struct request {
    const struct case_op *op;
    int64_t sizes[HARNESS_MAX_SIZES], widths[HARNESS_MAX_SIZES];
    int size_count;
    const char *params[HARNESS_MAX_PARAMS + 1];
    struct case_args args; /* of the above */
};

/* Reads words after the operation's name; HARNESS_USAGE with a message on stderr if they are not
 * its sizes and parameters. */
int request_parse(struct request *r, const struct case_op *op, int count, char *const *words);

/* Finds the operation called name; NULL with a message on stderr that lists what there is. */
const struct case_op *request_op(const char *name);

/*
 * Calls body for the problem in argv (OP SIZE... NAME=VALUE...), or for every line of a file given
 * as "OP @FILE": sizes and parameters, '#' begins a comment.  Returns the largest status.
 */
int request_each(int argc, char *const *argv, int (*body)(const struct request *r, void *arg),
                 void *arg);

/* "M=4000 N=4000 K=256 p=1" */
void request_print(const struct request *r, FILE *out);
/* Times a problem's run after one call that warmed up: the median of 5 calls or more, and of so
 * many seconds at least.  Returns an exit status. */
int harness_time(struct harness *h, const struct case_problem *problem, double least,
                 double *median_seconds);
#endif
