/*
 * kfac_params.h - what the host tells kfac.cu and natural_gradient.cu
 *
 * Read by the host's compiler and by NVRTC, which has no header of C: long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KFAC_PARAMS_H
#define GRAM_KFAC_PARAMS_H
#include "device_params.h"

#define KFAC_THREADS 256
#define KFAC_BLOCKS  256 /* of a sum */
#define KFAC_COLUMNS 32  /* numbers that the threads of a block of kfac_squares add up */

/* What kfac_store makes of new numbers: enum kfac_store. */
#define KFAC_SAME        0
#define KFAC_SYMMETRIC   1 /* the mean of a matrix and its transpose */
#define KFAC_NOT_BELOW_0 2
#define KFAC_INVERSE     3 /* 1 / (number, if not below 0, + shift of A) */
#define KFAC_PRODUCTS    4 /* x of the column times y of the row */

/* What kfac_scale does: enum kfac_scale. */
#define KFAC_COLUMNS_TIMES 0
#define KFAC_FACTORS       1
#define KFAC_VALUES        2

/* What the device found; struct kfac_report of kfac.h. */
struct kfac_found {
    long long skipped, failed, bad;
    double nu, sum, shift[2];
    double part[KFAC_BLOCKS];
};

struct kfac_params {
    struct kfac_found *found;
    long long *counts; /* of a layer: updates of A and B, corrections, ready */
    const char *from;
    long long dtype; /* of from and data: DEVICE_F32 or DEVICE_F64 */
    void *to;        /* numbers of REAL, and so are x and y */
    const void *x, *y;
    long long count, groups, rows, cols;
    /* What only some passes have: see the members of struct gram_kfac_pass of these names. */
    union {
        long long updates, side;
    };
    union {
        long long only_ready, moved, diagonal, store, scale, adds, clips;
    };
    union {
        double decay, lambda, factor, most;
    };
    union {
        double least, rate;
    };
    const int *info[2]; /* of the factors, one per group; NULL: none */
    /* of kfac_gather and kfac_scatter: see struct kfac_move of kfac.h */
    char *data;
    long long ndim, shape[DEVICE_DIMS], stride[DEVICE_DIMS];
    long long inner, outer_step, inner_step;
};

/* ---- Natural gradients ----------------------------------------------------------------------- */

#define NATURAL_THREADS 256

struct natural_params {
    long long ndim, shape[DEVICE_DIMS], count; /* of the batch, its items */
    long long blocks;                          /* of an item */
    long long n;                               /* order of a Gram matrix; elements of v */
    char *gram;                                /* dense, an item after the other */
    const char *turned;                        /* J^T s, dense, or NULL: 0 */
    double rows;                               /* of J */
    struct device_view v, out;                 /* vectors along col_stride */
    struct device_number info;                 /* data NULL: not to be set to 0 */
    struct device_number damping;
};
#endif
