/*
 * sample_grad_problem.h - a problem of gram_sample_grad: a row of its table, or of any size
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SAMPLE_GRAD_PROBLEM_H
#define GRAM_SAMPLE_GRAD_PROBLEM_H
#include "layer_problem.h"

/* The outputs, one bit each. */
enum {
    WEIGHT = 1,
    BIAS = 2,
    NORMS = 4,
    SUM_WEIGHT = 8,
    SUM_BIAS = 16,
    OUTPUTS = 5
};

struct sample_row {
    struct layer_row layer;
    int wanted;         /* 0: everything */
    double scale, clip; /* scale 0: 1 */
    bool coefficients, accumulate;
    gram_sample_method method;
    const char *why;
};

void sample_row_check(struct harness *h, const struct sample_row *row);

/* The norms of a linear layer, "N S I O". */
bool sample_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif
