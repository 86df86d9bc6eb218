/*
 * kron_vjp_params.h - what the host tells kron_vjp.cu and kron_vjp_step.cuh
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none of
 * CUDA's, and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_VJP_PARAMS_H
#define GRAM_KRON_VJP_PARAMS_H
#include "kron_params.h"

#define KRON_VJP_THREADS 256
#define KRON_VJP_TILE    32 /* rows and columns that a block moves at a time */

/*
 * Rows of a tensor and those of a buffer without gaps.  The rows of all items lie one after the
 * other and are cut into groups of row_count; the buffer has count of each, from first on:
 * [group][row][column], or [group][column][row].
 */
struct kron_vjp_move_params {
    long long ndim, shape[KRON_DIMS];
    struct kron_side side;
    long long item_rows, cols; /* of a matrix of the tensor */
    long long groups, row_count, first, count;
    long long by_columns; /* of the buffer */
    char *buffer;
    struct kron_number alpha; /* kron_vjp_add: of what goes to the tensor */
};

/* sums[group][0] = the sum of sums[group][slot]. */
struct kron_vjp_sum_params {
    char *sums;
    long long groups, slots, elements;
    long long lanes; /* threads that share a sum: 1 or 32 */
};

#define KRON_VJP_SMALL 16 /* most rows and columns of a factor of kron_vjp_step.cuh */
#define KRON_VJP_ROWS  64 /* of S that a block takes at a time */
#define KRON_VJP_EACH  8  /* columns of a thread */

/* A step of the chains with a small factor F, p by q: left is S by p, right is q by S. */
struct kron_vjp_step_params {
    const char *left, *right, *factor;
    char *out;
    long long left_stride, right_stride, factor_stride, out_stride; /* from group to group */
    long long factor_row, factor_col;
    long long groups, s, p, q;
    long long slice, slots, accumulate; /* kron_vjp_gradient: S of a piece, places of a group */
    double alpha;
};

/*
 * A gradient of a factor among joined ones, from that of their product: sums over the items that
 * share it and over the digits of the others.  count 0: zeros.
 */
struct kron_vjp_store_params {
    long long ndim, shape[KRON_DIMS];
    struct kron_side out;
    long long rows, cols;
    const char *sums;
    long long group_stride; /* elements of sums from item to item */
    struct kron_number alpha;
    long long count, which; /* joined factors; the one whose gradient it is */
    struct kron_side factor[KRON_MOST];
    long long p[KRON_MOST], q[KRON_MOST];
    long long lanes; /* threads that share a sum: a power of 2 up to 32 */
};
#endif
