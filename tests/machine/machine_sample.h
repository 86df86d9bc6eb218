/*
 * machine_sample.h - made-up tables for the tests of kernel machines
 *
 * y = 10 + sin(2 a) + [color is red] + a little noise, with a column of noise that does not matter;
 * three kinds by the place of a.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_SAMPLE_H
#define GRAM_MACHINE_SAMPLE_H
#include "check/harness/harness.h"

enum {
    ROWS = 600,
    NEW_ROWS = 200
};

/* A table of three columns, with a target of numbers and one of labels. */
struct sample {
    int64_t rows;
    double *a, *noise, *y;
    const char **color, **kind;
    gram_column column[3];
    gram_table table;
    gram_column number, label;
};

/* Zeroed memory, or the end of the program. */
void *must_allocate(size_t bytes);

struct sample sample_make(struct harness *h, int64_t rows);
void sample_destroy(struct sample *s);

/* The table points into the sample itself, which therefore must have come to rest. */
const gram_table *table_of(struct sample *s);

/* Fixed defaults, so that two fits differ in what a test varies; test_machine_choice.c has the
 * rest. */
#define SAMPLE_OPTIONS                                 \
  {                                                    \
    .size = sizeof(gram_machine_options), .search = -1 \
  }

/* A machine, or the end of the program; its score.  options NULL: SAMPLE_OPTIONS. */
gram_machine *sample_fit(struct harness *h, struct sample *s, const gram_column *target,
                         const gram_machine_options *options);
double sample_score(struct harness *h, const gram_machine *m, struct sample *s,
                    const gram_column *target);

/* Checks that the predictions of two machines on one table are at most bound apart. */
void expect_alike(struct harness *h, const gram_machine *m1, const gram_machine *m2,
                  struct sample *s, double bound);
#endif
