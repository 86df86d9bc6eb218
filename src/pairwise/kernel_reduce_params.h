/*
 * kernel_reduce_params.h - what the host tells kernel_reduce.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KERNEL_REDUCE_PARAMS_H
#define GRAM_KERNEL_REDUCE_PARAMS_H
#include "pair_panel_params.h"

#define REDUCE_THREADS 256

/* The values of gram_reduction. */
#define REDUCE_MIN       1
#define REDUCE_MAX       2
#define REDUCE_LOGSUMEXP 3
#define REDUCE_SOFTMAX   4

/* What is known of a row between two panels.  Of soft sums: the largest exponent, and the sum of
 * exp(exponent - largest). */
struct kernel_reduce_state {
    double value, sum;
    long long index; /* of an extreme; -1: there was none */
};

struct kernel_reduce_params {
    struct pair_panel panel; /* soft sums leave their weights in it */
    long long what;
    double scale;
    struct kernel_reduce_state
        *state; /* of the rows of the round; and `columns` weighted sums of each */
    double *sums;
    long long columns;  /* of v */
    double *logarithms; /* of each of so many rows of an item, of the whole batch; or NULL */
    long long item_rows;
    /* Along the whole batch; data NULL: not given. */
    struct device_view v, log_weights, out, indices;
};
#endif
