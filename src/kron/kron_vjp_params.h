/*
 * kron_vjp_params.h - what the host tells kron_vjp*.cu
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
    long long ndim, shape[DEVICE_DIMS];
    struct device_view side;
    long long item_rows, cols; /* of a matrix of the tensor */
    long long groups, row_count, first, count;
    long long by_columns; /* of the buffer */
    char *buffer;
    struct device_number alpha; /* kron_vjp_add: of what goes to the tensor */
};

#define KRON_VJP_AT_ONCE 8 /* pieces that a thread of kron_vjp_sum reads together */

/*
 * sums[group][0] = the sum of sums[group][slot]; or, where there is one group and direct is set,
 * alpha times it is stored as a matrix with `cols` columns.
 */
struct kron_vjp_sum_params {
    char *sums;
    long long groups, slots, elements;
    long long lanes; /* threads that share a sum: a power of 2 up to KRON_VJP_THREADS */
    long long direct, cols;
    struct device_view out;
    struct device_number alpha;
};

/* The same for all factors of groups, whose gradients are alpha times their sums: n by n each, a
 * multiple of KRON_VJP_BESIDE elements. */
#define KRON_VJP_BESIDE 8
struct kron_vjp_sums_params {
    long long count; /* of factors */
    char *sums[KRON_MOST];
    long long slots[KRON_MOST], n[KRON_MOST];
    struct device_view out[KRON_MOST];
    struct device_number alpha;
};

/* Shared memory of kron_vjp_gradient.cu: the columns of a chunk by the rows of both sides, and the
 * elements left out after a row of p or q. */
#define KRON_VJP_STAGES 3
#define KRON_VJP_CHUNK(rows, doubles) \
  ((doubles) ? ((rows) <= 64    ? 64  \
                : (rows) <= 128 ? 32  \
                                : 16) \
             : ((rows) <= 32    ? 128 \
                : (rows) <= 128 ? 64  \
                                : 32))
#define KRON_VJP_PAD(width, doubles) (!(doubles) && (width) < 32 ? 4 : 0)

/* out[group][slot][p][q] = the sums over a slice of columns (unit, a), a < after, of
 * left[unit][p][a] right[unit][q][a]. */
struct kron_vjp_gradient_params {
    const char *left, *right;
    char *out;
    long long left_stride, right_stride; /* from group to group */
    long long groups, columns, after, p, q;
    long long slice, slots; /* columns of a place; places of a group */
    long long accumulate;   /* out is added to */
};

/*
 * A gradient of a factor among joined ones, from that of their product: sums over the items that
 * share it and over the digits of the others.  count 0: zeros.
 */
struct kron_vjp_store_params {
    long long ndim, shape[DEVICE_DIMS];
    struct device_view out;
    long long rows, cols;
    const char *sums;
    long long group_stride; /* elements of sums from item to item */
    struct device_number alpha;
    long long count, which; /* joined factors; the one whose gradient it is */
    struct device_view factor[KRON_MOST];
    long long p[KRON_MOST], q[KRON_MOST];
    long long lanes; /* threads that share a sum: a power of 2 up to 32 */
};

/*
 * kron_vjp_group.cu: left and right are [unit][group][a], a < after, and so is out; sums of every
 * factor are [block][p][q].  Strides in its shared memory: the next that is 8 or 24 of 32 elements,
 * 4 or 12 of 16 in f64.
 */
#define KRON_VJP_GROUP_MOST 3 /* factors of a group */
#define KRON_VJP_GROUP_STRIDE(n, doubles) \
  ((doubles) ? ((n) + 3) / 8 * 8 + 4 : ((n) + 7) / 16 * 16 + 8)
struct kron_vjp_group_params {
    const char *left, *right;
    char *out, *sums[KRON_VJP_GROUP_MOST];
    struct device_view factor[KRON_VJP_GROUP_MOST];
    double alpha; /* of out */
    long long units, after;
    long long accumulate; /* sums are added to */
};
#endif
