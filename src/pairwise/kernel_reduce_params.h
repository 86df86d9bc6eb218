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

/* A panel of values: rows [i, i + rows) and columns [j, j + cols) of each item of a round, one item
 * after the other.  Soft sums leave their weights in it. */
struct kernel_reduce_params {
    char *panel;
    long long what;
    double scale;
    long long items, first; /* of the round, whose first item is this one of the batch */
    long long i, rows, j, cols;
    long long begin, end; /* no panel of these rows comes before, or after */
    struct kernel_reduce_state
        *state; /* of the rows of the round; and `columns` weighted sums of each */
    double *sums;
    long long columns; /* of v */
    /* Along the whole batch; data NULL: not given. */
    long long ndim, shape[DEVICE_DIMS];
    struct device_view v, out, indices;
};
#endif
