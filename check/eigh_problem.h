/*
 * eigh_problem.h - rows of gram_eigh and how they are checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_PROBLEM_H
#define GRAM_EIGH_PROBLEM_H
#include "eigh_zoo.h"

enum eigh_damage {
    EIGH_SOUND,
    EIGH_HAS_NAN,
    EIGH_HAS_INFINITY,
};

struct eigh_row {
    int64_t n;
    int64_t batch[2]; /* 0: that dimension is absent */
    gram_dtype dtype;
    enum layout a_layout, layout; /* of a; of values and vectors */
    gram_uplo uplo;
    gram_eigh_select select;
    int64_t first, count; /* count: for GRAM_EIGH_VALUE the room that values has */
    double lower, upper;  /* before scaling */
    gram_eigh_driver driver;
    bool in_place, values_only;
    enum zoo_kind kind;
    int exponent;            /* the matrix is multiplied by 2^exponent */
    enum eigh_damage damage; /* of the second item, or of the only one */
    const char *why;
};

/* Solves the row's problem and checks every item against the reference. */
void eigh_row_check(struct harness *h, const struct eigh_row *row);

/* The eigenvalues of the row-major matrix a by the reference, ascending. */
void eigh_exact_values(int64_t n, const double *a, double *values);

/* One problem of any size, for gram check, bench and profile. */
bool eigh_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif
