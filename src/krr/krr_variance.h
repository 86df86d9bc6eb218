/*
 * krr_variance.h - what the files of gram_krr_variance share: bounds of r^T (K + D)^-1 r
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_VARIANCE_H
#define GRAM_KRR_VARIANCE_H
#include "krr_solve.h"

/* Some rows S of x, and what solves for the best function in their span: krr_variance_bound.c. */
struct krr_span {
    int64_t rank; /* 0: there are none */
    bool factored;
    struct krr_array points; /* S: rank by d */
    struct krr_array matrix; /* K_SS + K_Sn D^-1 K_nS, then its Cholesky factor */
    struct krr_array side;   /* two arrays of rank by columns */
    struct krr_array vector; /* n by columns */
    double *host;            /* the numbers of side */
};

/* Of the pivots, for blocks of at most p->columns right sides. */
gram_status gram_krr_span_create(gram_context *g, const struct krr_problem *p,
                                 const struct krr_pivots *pivots, struct krr_span *out);
void gram_krr_span_destroy(gram_context *g, struct krr_span *s);
/* bound[j] >= r^T (K + D)^-1 r for the residual of each column of p; INFINITY where there is none.
 * p->best is overwritten. */
gram_status gram_krr_span_bounds(gram_context *g, struct krr_problem *p, struct krr_span *s,
                                 double *bound);
#endif
