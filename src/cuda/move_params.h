/*
 * move_params.h - what the host tells move.cu; see cuda_move.h
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes only ours,
 * and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MOVE_PARAMS_H
#define GRAM_MOVE_PARAMS_H
#include "device_params.h"

#define MOVE_THREADS 256
#define MOVE_EACH    4 /* elements of a thread at a time */

/* A matrix of every item.  Where dense is 0, items lie in the batch, from params.begin on; else
 * they lie in a buffer one after the other, and dense is the number of elements from one to the
 * next. */
struct move_side {
    struct device_view view;
    long long dense;
};

/* to = alpha from + beta c.  Where alpha is 0 nothing of from is read, where beta is 0 nothing of
 * c, which may be to. */
struct move_params {
    long long ndim, shape[DEVICE_DIMS]; /* of the batch */
    long long begin, count;             /* items */
    long long rows, cols;
    struct move_side to, from, c; /* from.view.data NULL: fill; c.view.data NULL: none */
    struct device_number alpha, beta;
    const int *order; /* column j of `to` is column order[j] of `from`; NULL: they correspond */
    double fill;      /* in the place of alpha from */
    long long widens; /* to is double, whatever from and c are */
};
#endif
