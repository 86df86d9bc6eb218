/*
 * median_params.h - what the host tells median.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MEDIAN_PARAMS_H
#define GRAM_MEDIAN_PARAMS_H

#define MEDIAN_DIGIT 8   /* bits that a pass finds */
#define MEDIAN_BINS  256 /* 2^MEDIAN_DIGIT */
#define MEDIAN_ROWS  384 /* rows that one launch copies: they fit its parameters */

/* Items of a batch. */
struct median_batch {
    long long items, ndim, shape[DEVICE_DIMS];
};

/* The middle two of the distances, by their bits from the highest on. */
struct median_state {
    unsigned long long count;   /* distances that are numbers */
    unsigned long long rank[2]; /* among those that begin with the prefix */
    unsigned long long prefix[2];
    unsigned long long bins[2][MEDIAN_BINS]; /* how many go on with each digit */
};

/* median_rows: the same rows of each item's x, one after the other; their elements have any size
 * in bytes. */
struct median_rows_params {
    struct median_batch batch;
    const char *x; /* of item 0; so is to */
    char *to;
    long long batch_stride[DEVICE_DIMS];
    long long row_stride, col_stride, cols, element;
    long long item_bytes; /* of to */
    long long count;
    long long row[MEDIAN_ROWS];
};

/* median_count, median_pick, median_small */
struct median_params {
    struct median_batch batch;
    const char *distances; /* rows by rows, item after item */
    char *out;             /* of item 0 */
    long long batch_stride[DEVICE_DIMS];
    struct median_state *state; /* one for each item; median_small: none */
    long long rows;
    long long blocks; /* of an item, that count */
    long long shift;  /* of the digit; median_pick: the width of a number before the first pass */
};
#endif
