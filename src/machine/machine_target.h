/*
 * machine_target.h - what a machine predicts: numbers on a scale, or classes
 *
 * A regression is fitted on (t(value) - shift) / scale, t the identity, a logarithm or a square
 * root.  A classification is fitted on one 0/1 column a class; two classes need one column.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_TARGET_H
#define GRAM_MACHINE_TARGET_H
#include "core/context.h"

struct machine_target {
    char *name;
    gram_task task;
    gram_transform transform; /* regression; never AUTO */
    double shift, scale;      /* regression */
    int64_t classes;          /* 0: regression */
    char **class_name;        /* sorted; numbers by value, labels bytewise */
    double *class_value;      /* of numbers, else NULL */
};

extern const double gram_machine_least_probability;

/* Finds the task and the classes from the values of the given rows. */
gram_status gram_machine_target_fit(gram_context *g, const gram_column *column, gram_task task,
                                    const int64_t *rows, int64_t count, struct machine_target *out);
void gram_machine_target_destroy(struct machine_target *target);

/* Sets the transform, shift and scale of a regression from the values of rows; refuses a transform
 * that a value does not allow. */
gram_status gram_machine_target_scale(gram_context *g, const gram_column *column,
                                      gram_transform transform, const int64_t *rows, int64_t count,
                                      struct machine_target *target);

/* Columns of y: 1, or the number of classes if there are more than two. */
int64_t gram_machine_target_outputs(const struct machine_target *target);

/* y[j * count + i] of rows[i], column-major. */
void gram_machine_target_encode(const struct machine_target *target, const gram_column *column,
                                const int64_t *rows, int64_t count, gram_dtype dtype, void *y);

/* The class of a row: its index, -1 if it was never seen, -2 if it is missing. */
int64_t gram_machine_target_class(const struct machine_target *target, const gram_column *column,
                                  int64_t row);
bool gram_machine_target_missing(const gram_column *column, int64_t row);

/* One row's outputs f[j * stride] to a number or class index, and to probabilities. */
double gram_machine_target_decode(const struct machine_target *target, const double *f,
                                  int64_t stride);
void gram_machine_target_probabilities(const struct machine_target *target, const double *f,
                                       int64_t stride, double *out, int64_t out_stride);
#endif
