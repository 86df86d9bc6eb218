/*
 * solve_problem.h - rows of gram_solve_cholesky and gram_solve_lu and how they are checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_PROBLEM_H
#define GRAM_SOLVE_PROBLEM_H
#include "check/harness/harness.h"

enum solve_factor {
    NO_FACTOR,
    FACTOR_APART,
    FACTOR_IN_PLACE
};

enum solve_damage {
    SOUND,
    BROKEN,  /* not positive definite, or singular, at a known order */
    HAS_NAN, /* in the triangle that is read */
};

struct solve_row {
    int64_t n, r;
    int64_t a_batch[2], b_batch[2]; /* 0: that dimension is absent */
    gram_dtype dtype;
    enum layout a_layout, b_layout; /* of a and its factor; of b and x */
    gram_uplo uplo;
    enum solve_factor factor;
    bool in_place;            /* x is b */
    double condition;         /* of a, in the 2-norm */
    enum solve_damage damage; /* of the second item of a, or of the only one */
    const char *why;
};

enum {
    SOLVE_ROWS = 32
};
extern const struct solve_row solve_rows[SOLVE_ROWS]; /* both operations are checked on them */

void solve_row_label(int index, char *text, size_t size);
void solve_row_check(struct harness *h, const struct solve_row *row, bool lu);
bool solve_prepare(struct harness *h, const struct case_args *args, struct case_problem *out,
                   bool lu);
/* A matrix (n by n) with singular values from 1 down to 1 / condition, positive definite unless lu;
 * and the same with NaN, or singular, or not definite. */
void solve_make_matrix(struct harness *h, int64_t n, double condition, bool lu, double *a);
void solve_damage_matrix(enum solve_damage damage, int64_t n, bool lu, double *a);

/* kron_solve_bench.c */
bool kron_solve_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif
