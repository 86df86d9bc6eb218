/*
 * median_params.h - what the host tells the kernels of gram_median_distance
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

/* The middle two of the distances, by their bits from the highest on. */
struct median_state {
    unsigned long long count;   /* distances that are numbers */
    unsigned long long rank[2]; /* among those that begin with the prefix */
    unsigned long long prefix[2];
    unsigned long long bins[2][MEDIAN_BINS]; /* how many go on with each digit */
};

/* median_rows.cu: rows of x, of elements of so many bytes, one after the other */
struct median_rows_params {
    const char *x;
    char *to;
    long long row_stride, col_stride, cols, element;
    long long count;
    long long row[MEDIAN_ROWS];
};

/* median_count.cu, median_pick.cu */
struct median_params {
    const char *distances; /* rows by rows */
    char *out;
    struct median_state *state;
    long long rows;
    long long shift; /* of the digit; median_pick.cu: the width of a number before the first pass */
};
#endif
