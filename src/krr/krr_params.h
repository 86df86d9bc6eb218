/*
 * krr_params.h - what the host tells krr_rows.cu, krr_combine.cu and krr_cg.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none, and
 * long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_PARAMS_H
#define GRAM_KRR_PARAMS_H

#define ROWS_THREADS    256  /* of a block of a kernel of krr_rows.cu and krr_combine.cu */
#define ROWS_TILE       4    /* rows, and outputs, that a block of rows_combine sums at a time */
#define CG_STEP_THREADS 1024 /* of cg_step: one block sums a column */
#define CG_THREADS      256  /* of the other kernels of krr_cg.cu */
#define CG_TILE         4    /* columns that a thread of cg_precondition has at a time */

/* enum krr_step of krr_passes.h */
#define CG_START    0
#define CG_RESIDUAL 1
#define CG_RESTART  2
#define CG_DESCEND  3
#define CG_TURN     4

struct rows_params {
    long long rows, width; /* of x and out; of the matrix, width being the terms, in rows_combine */
    const void *x;         /* the matrix in rows_combine */
    void *out;
    const double *w; /* rows_map, and what rows_diagonal adds */
    long long full;
    const long long *index; /* rows_gather */
    const void *alpha;      /* rows_combine: outputs by width */
    long long outputs, ld;
};

struct cg_params {
    long long step, n, columns;
    const long long *which; /* the column of b, x and of the numbers, of each of r, z, d, product */
    const void *b;
    void *x, *r, *z, *d; /* columns of n elements */
    const double *product, *ridge;
    double *norm_b, *norm_r, *rz, *curvature; /* one per column of b */
};

struct cg_precondition_params {
    long long n, columns, rank;
    const void *rows, *r;
    void *z;
    const double *weight; /* rank by columns, column-major */
    double keep, lambda;
};

struct cg_whiten_params {
    long long n, count;
    void *columns;       /* n by count, column-major */
    const double *lower; /* count by count, column-major */
    double *diagonal;    /* n */
};
#endif
