/*
 * matrix_power_problem.h - rows of gram_matrix_power and how they are checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATRIX_POWER_PROBLEM_H
#define GRAM_MATRIX_POWER_PROBLEM_H
#include "check/harness/harness.h"

enum power_spectrum {
    GEOMETRIC,  /* from 1 down to 1 / condition */
    CLUSTERED,  /* half of them near 1, half near 1 / condition */
    RANK,       /* n / 3 times 1, else 0 */
    INDEFINITE, /* GEOMETRIC, but for one -1/2 */
    ZERO,
    IDENTITY,
    DIAGONAL, /* GEOMETRIC, without rotations */
};

struct power_row {
    int64_t n, batch; /* batch 0: none */
    gram_dtype dtype;
    enum layout layout;
    gram_uplo uplo;
    enum power_spectrum spectrum;
    double condition;
    double scale; /* of the matrix; 0: 1 */
    int numerator, denominator;
    gram_power_method method;
    gram_power_precision precision;
    double ridge;
    bool relative;
    bool ridges;  /* a tensor of them: the i'th of the batch (or of 3) is ridge / (i + 1) */
    double bound; /* options.condition */
    double tolerance;
    int iterations;
    double power, floor;        /* options.power, options.floor */
    bool keep, in_place, nan;   /* nan: in the middle item */
    gram_power_outcome outcome; /* of the middle item with nan, else of all */
    const char *why;
};

/* A matrix of that spectrum, symmetric, n by n. */
void power_fill(struct harness *h, int64_t n, enum power_spectrum spectrum, double condition,
                double *a);

void power_row_label(const struct power_row *row, char *text, size_t size);
void power_row_check(struct harness *h, const struct power_row *row);
bool power_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif
