/*
 * cpu_solve_extra.h - solves with condition estimates, a ladder of jitters, or refinement
 *
 * One item of a on one worker.  Matrices in scratch are column-major, n apart: the matrix as LAPACK
 * factors it, that is transposed where that is how the caller's factor lies (`flip`).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SOLVE_EXTRA_H
#define GRAM_CPU_SOLVE_EXTRA_H
#include "cpu_solve.h"

enum {
    REFINE_RESTART = 30 /* vectors of GMRES: more means that f32 is no help */
};

struct extra_work {
    const struct solve_plan *plan;
    int64_t n, own; /* order; item of own */
    bool flip;
    double jitter; /* that was added */
    int exponent;  /* refine: the f32 factor is of A 2^-exponent */
    double norm;   /* of A, in the infinity norm (refine) */
    void *a;       /* A; both triangles if refine */
    void *f;       /* its factor, in the dtype of a, or in f32 while `low` */
    bool low;
    int32_t *pivots, *iwork;
    void *work;    /* 4 n elements */
    void *b, *x;   /* a block of right-hand sides, n apart; x only if refine */
    double *r;     /* refine: residuals */
    float *d;      /* and corrections */
    double *basis; /* refine: 2 REFINE_RESTART + 1 vectors for GMRES */
};

/* An element of a matrix in the dtype of a. */
static inline double cpu_solve_extra_get(const struct extra_work *w, const void *a, int64_t at)
{
    return w->plan->op->a.dtype == GRAM_F32 ? (double)((const float *)a)[at]
                                            : ((const double *)a)[at];
}

static inline void cpu_solve_extra_put(const struct extra_work *w, void *a, int64_t at,
                                       double value)
{
    if (w->plan->op->a.dtype == GRAM_F32)
        ((float *)a)[at] = (float)value;
    else
        ((double *)a)[at] = value;
}

/* Brings A to w->a: both triangles for Cholesky, since norms and residuals are of the whole. */
void cpu_solve_extra_load(const struct extra_work *w);
/* The largest sum of magnitudes of a column of w->a, or of a row: equal where it is symmetric. */
double cpu_solve_extra_norm(const struct extra_work *w, bool rows);

/* Solves with f for a block of columns, in place: in the dtype of f. */
void cpu_solve_extra_apply(const struct extra_work *w, gram_dtype dtype, int64_t columns, void *x);

/* x for the columns in b, from the f32 factor; *backward gets the largest backward error, *steps
 * is raised by the steps taken.  False: f64 is needed. */
bool cpu_solve_refine(const struct extra_work *w, int64_t columns, double *backward, int *steps);

/* The largest backward error of the columns in x for those in b; r gets the residuals. */
double cpu_solve_backward(const struct extra_work *w, int64_t columns);
#endif
