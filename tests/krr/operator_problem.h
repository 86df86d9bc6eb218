/*
 * operator_problem.h - dense matrices with chosen eigenvalues as operators, on the harness's device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_OPERATOR_PROBLEM_H
#define GRAM_TEST_OPERATOR_PROBLEM_H
#include "check/harness/harness.h"

enum spectrum {
    WELL,       /* from 1 to 10 */
    ILL,        /* from 1e-4 to 1, at equal distances of their logarithms */
    CLUSTERED,  /* three distinct values */
    INDEFINITE, /* one negative value */
    SINGULAR    /* one value is 0 */
};

/* A = H D H with a Householder reflection H, so that eigenvectors are known too. */
struct operator_problem {
    int64_t n;
    gram_dtype dtype;
    double *a, *eigenvalues, *reflector; /* a: as the dtype rounds it */
    double *in, *out;                    /* copies of what a device has, n by 8 */
    void *raw;
    bool by_rows;                          /* every block was row-major and not too wide */
    int calls, fail_at, cancel_at, nan_at; /* 0: never */
    gram_context *cancelled;
    gram_operator apply, jacobi, inverse, negative; /* A, D^-1 of its diagonal, A^-1, -1 */
};

/* NULL: no memory.  To be destroyed. */
struct operator_problem *operator_problem_create(int64_t n, gram_dtype dtype, enum spectrum kind);
void operator_problem_destroy(struct operator_problem *p);
/* Column `which` of H: an eigenvector of A (but for rounding). */
void operator_problem_eigenvector(const struct operator_problem *p, int64_t which, double *out);
/* out = A x in f64. */
void operator_problem_multiply(const struct operator_problem *p, const double *x, double *out);
/* log det A of what is stored, by Cholesky factorisation in f64; NaN if it is not definite. */
double operator_problem_logdet(const struct operator_problem *p);
#endif
