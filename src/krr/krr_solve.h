/*
 * krr_solve.h - what the files of gram_krr_solve share: a problem, and its numbers in f64
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_SOLVE_H
#define GRAM_KRR_SOLVE_H
#include "krr_passes.h"

/* (K + diag(ridge)) alpha = y.  Vectors are n by columns, column-major, on the host. */
struct krr_problem {
    gram_krr_options options;                 /* with defaults filled in */
    gram_kernel_options kernel, wide_kernel;  /* of x, and of wide_x */
    gram_tensor lengths;                      /* of wide_kernel, where there are any */
    struct krr_array x, wide_x, wide_lengths; /* row-major, where the context computes */
    gram_dtype dtype;
    int64_t n, width, columns;
    bool narrow_alpha;        /* alpha is f32: it is rounded before a residual is computed */
    double *ridge, *diagonal; /* n; of K */
    double *y, *alpha, *residual, *best; /* best: the alpha of the least residual so far */
    double *norm_y, *norm_r;             /* one per column; with the allowance for rounding */
    double *target;                      /* norm_r that is good enough */
    void *memory;
    size_t bytes;
    double least_ridge, most_diagonal, room; /* room: sqrt(most / least weight) */
    /* CENTRES: alpha has so many rows, else n; ridge has the weights of rows alone. */
    int64_t unknowns;
    struct krr_array centres, wide_centres;
    double least_weight, floor;
    int64_t products;
    double start;                    /* seconds */
    const char *call;                /* for messages, which other public calls on the way change */
    struct krr_preconditioner *kept; /* CG: made at the first rounds, and then used; or NULL */
};

/* krr_solve.c: a problem of p->columns right sides that are the caller's to set, as are all its
 * numbers of columns; options as of gram_krr_solve.  It is to be closed whatever the status. */
gram_status gram_krr_open(gram_context *g, const gram_tensor *x, const gram_kernel_options *kernel,
                          const gram_krr_options *options, struct krr_problem *p);
void gram_krr_close(gram_context *g, struct krr_problem *p);
/* An array of rows_columns[0] by rows_columns[1] finite numbers where the context computes, in
 * f64. */
gram_status gram_krr_widen(gram_context *g, const char *name, const int64_t rows_columns[2],
                           gram_dtype dtype, const struct krr_array *from, struct krr_array *out);
/* k(x_i, x_i) of p->wide_x, which messages call `name`. */
gram_status gram_krr_load_diagonal(gram_context *g, const char *name, struct krr_problem *p);
/* Elements of f64 on the host to those of a view. */
gram_status gram_krr_put(gram_context *g, const struct gram_view *v, const double *from);

/* krr_certificate.c */

/* residual and norm_r of alpha, by a product in f64. */
gram_status gram_krr_residual(gram_context *g, struct krr_problem *p);
/* The largest norm_r / target, at most 1 where every column is good enough. */
double gram_krr_excess(const struct krr_problem *p);
/* target of the options. */
void gram_krr_targets(struct krr_problem *p);
/* Where the least ridge is below what rounding makes of the diagonal: the ridge that is not; else
 * 0.  The matrix may be singular to working precision then. */
double gram_krr_singular_ridge(const struct krr_problem *p);
/* What the report says of residual and norm_r: residuals and bounds. */
void gram_krr_bounds(const struct krr_problem *p, gram_krr_report *report);

/* krr_solve_cg.c: from alpha, with its residual, to the best alpha and its residual.  last is the
 * report of the iteration that ended it. */
gram_status gram_krr_rounds(gram_context *g, struct krr_problem *p, struct krr_cg_report *last,
                            int64_t *rank);

/* krr_centres.c: alpha and what the report says of it.  minor is not 0 where the kernel matrix of
 * the centres is not positive definite, and then there is no alpha. */
gram_status gram_krr_centres(gram_context *g, struct krr_problem *p, gram_krr_report *report,
                             struct krr_cg_report *last, int32_t *minor);
#endif
