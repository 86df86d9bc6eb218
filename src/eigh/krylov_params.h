/*
 * krylov_params.h - what the host tells krylov_symmetric.cu, krylov_basis.cu and krylov_project.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none, and
 * long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRYLOV_PARAMS_H
#define GRAM_KRYLOV_PARAMS_H

#define KRYLOV_COLUMNS 8    /* of a block of vectors, at most */
#define KRYLOV_ROWS    64   /* of a product that a block of krylov_product has */
#define KRYLOV_DEPTH   32   /* columns of the matrix that it takes at a time */
#define KRYLOV_PRODUCT 128  /* its threads */
#define KRYLOV_BLOCKS  6    /* of them on a processor at least */
#define KRYLOV_THREADS 256  /* of the others, but: */
#define KRYLOV_WARP    32   /* krylov_whiten */
#define KRYLOV_SUM     1024 /* krylov_residual: one block sums a column */
#define KRYLOV_LONG    512  /* krylov_project, likewise */

/* Vectors are columns of n numbers, one after the other, unless strides are given. */

struct krylov_product_params {
    long long n, columns;
    const void *a; /* its lower triangle is read */
    long long row_stride, col_stride;
    const void *x;
    void *y;
    void *sums;      /* parts by KRYLOV_COLUMNS by n: of shares of the columns of a */
    long long parts; /* chunk columns of a each, a multiple of KRYLOV_DEPTH */
    long long chunk;
    double scale; /* y = scale^2 a x */
};

struct krylov_project_params {
    long long n, dim, columns; /* of V, of W: KRYLOV_COLUMNS at most */
    const void *v;
    void *w; /* krylov_subtract: W -= V h */
    void *h; /* dim by columns, by columns; krylov_project: V^T W */
};

/* What krylov_whiten found. */
struct krylov_found {
    double least; /* the smallest pivot of the Gram matrix of W's columns at length 1, or a length^2
                     if that is less; far below 1 if W has lost what it had before */
    int missing;  /* directions; -1: not a number */
    int lacks[KRYLOV_COLUMNS]; /* the columns */
};

struct krylov_whiten_params {
    long long columns;
    const void *gram; /* columns by columns */
    void *mix;        /* the same: W mix has orthonormal columns, or 0 */
    struct krylov_found *found;
    double limit; /* pivots below are no directions */
};

struct krylov_combine_params {
    long long n, columns;
    void *w;                          /* w = w mix; random numbers in columns that lack something */
    void *other;                      /* the same; or NULL */
    const void *mix;                  /* NULL: all are random */
    const struct krylov_found *found; /* or NULL */
    unsigned long long key;           /* of the random numbers */
};

struct krylov_residual_params {
    long long n, columns;
    const void *v, *w; /* columns; their products */
    double *values, *residuals;
};

struct krylov_blend_params {
    long long count;
    void *out; /* may be one of in */
    const void *in[3];
    double by[3]; /* 0: without it */
};
#endif
