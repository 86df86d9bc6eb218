/*
 * class_weights.h - the value of --class-weight: "balanced", or weights of classes by name
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CLASS_WEIGHTS_H
#define GRAM_CLI_CLASS_WEIGHTS_H
#include "csv.h"
#include <gram/gram.h>

/* Labels and weights as the library takes them.  Call class_weights_free in any case. */
struct class_weights {
    int64_t count; /* -1: balanced */
    const char **label;
    double *weight;
    char *memory; /* what the labels point into */
};

/*
 * Reads `text`, LABEL=WEIGHT,LABEL=WEIGHT (NULL: none), and checks it against the target, a column
 * of the table: every label must be one of its classes, and no label may come twice.
 */
enum exit_status class_weights_read(const char *text, const struct table *t, int64_t target,
                                    struct class_weights *out, struct failure *why);

/*
 * The same for some rows of that target, which may lack a class: its weight is moved behind the
 * others.  The options borrow the memory of w.
 */
void class_weights_give(struct class_weights *w, const gram_column *target, int64_t rows,
                        gram_machine_options *options);

void class_weights_free(struct class_weights *w);
#endif
