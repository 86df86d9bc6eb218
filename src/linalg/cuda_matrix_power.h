/*
 * cuda_matrix_power.h - what is known of an iteration before it begins on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_MATRIX_POWER_H
#define GRAM_CUDA_MATRIX_POWER_H
#include "matrix_power.h"

/* How many steps an iteration takes, at most; and how many of them, the first, TF32 would spoil. */
struct power_steps {
    int all, exact;
};

enum {
    POWER_PLANNED = 16
};

/* Steps of MINIMAX that are known beforehand, none: they are not.  What their polynomials multiply
 * I, M and M^2 by (and an e). */
struct power_plan {
    int steps;
    double factor[POWER_PLANNED][4];
};

/* A bound of the condition number: what the caller gave, or what the ridge makes of a factor's;
 * infinite where neither is known.  work is the dtype that is computed in. */
double cuda_power_condition(const struct gram_matrix_power_op *op, gram_dtype work);

/* The steps of a method by products. */
struct power_steps cuda_power_steps(const struct gram_matrix_power_op *op, gram_dtype work);

/* The polynomials of MINIMAX, if they are known beforehand. */
void cuda_power_polynomials(const struct gram_matrix_power_op *op, gram_dtype work,
                            struct power_plan *plan);
#endif
