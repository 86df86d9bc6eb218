/*
 * cg_params.h - what the host tells cg_step.cu, cg_precondition.cu and rows_add.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none, and
 * long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CG_PARAMS_H
#define GRAM_CG_PARAMS_H

#define CG_STEP_THREADS 1024 /* of cg_step: one block sums a column */
#define CG_THREADS      256  /* of the others */
#define CG_TILE         4    /* columns that a thread of cg_precondition has at a time */

/* enum gram_cg_step of backend.h */
#define CG_START    0
#define CG_RESIDUAL 1
#define CG_RESTART  2
#define CG_DESCEND  3
#define CG_TURN     4

struct cg_params {
    long long step, n, columns;
    const void *b;
    void *x, *r, *z, *d; /* n by columns, column-major */
    const double *product, *ridge;
    double *norm_b, *norm_r, *rz; /* one a column */
};

struct cg_precondition_params {
    long long n, columns, rank;
    const void *rows, *r;
    void *z;
    const double *weight; /* rank by columns, column-major */
    double keep, lambda;
};

struct rows_add_params {
    long long count;
    double *out;
    const void *from; /* or NULL: zeros */
    double keep, scale;
};
#endif
