/*
 * factor_params.h - what the host tells kfac_factors.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_FACTOR_PARAMS_H
#define GRAM_FACTOR_PARAMS_H

#define FACTOR_DIMS    8
#define FACTOR_THREADS 256
#define FACTOR_SIDE    64 /* of a tile of a factor */
#define FACTOR_DEPTH   16 /* positions that a tile takes at a time */
#define FACTOR_BATCH   64 /* positions whose places are found at a time: FACTOR_DEPTHs */

/* Types of numbers. */
#define FACTOR_F32  1
#define FACTOR_F64  2
#define FACTOR_F16  3
#define FACTOR_BF16 4
#define FACTOR_I32  5
#define FACTOR_I64  6

/* Dimensions counted through as one, the last fastest. */
struct factor_axes {
    long long ndim, shape[FACTOR_DIMS], stride[FACTOR_DIMS];
};

/* Positions of samples by features: of what goes into a layer, of its patches, or of gradients. */
struct factor_side {
    const char *data;
    long long type, sample_stride, group_stride, feature_stride;
    struct factor_axes position;
    long long planes; /* neighbours in memory are positions */
    /* patches: features are (channel, kernel), positions are places */
    long long patches;
    long long size[3], size_stride[3], place[3], kernel[3], stride[3], padding[3], dilation[3];
};

/* Rows of an embedding's table, one a position. */
struct factor_rows {
    const char *data; /* NULL: none */
    long long type, sample_stride;
    struct factor_axes position;
    long long rows, padding; /* of the table; padding: the row that does not count, or -1 */
};

struct factor_output {
    char *data;
    long long group_stride;
    struct factor_axes row, col;
};

struct factor_params {
    struct factor_side x;
    struct factor_rows mask; /* of gradients that do not all count */
    long long groups, samples, positions;
    long long count;                /* samples * positions */
    long long features, ones;       /* ones: a feature more, which is 1 */
    long long sides, pairs, splits; /* tiles of a factor along a side, of a triangle */
    long long each;                 /* positions of a split, a multiple of FACTOR_BATCH */
    char *partial;       /* tiles: a split, a group and a pair of tiles after the other */
    const char *product; /* or products, features by features; NULL: none */
    double *sums;        /* with product: of columns, for the ones, a split after the other */
    char *reduced;       /* of factor_reduce: group, sample, feature */
    double mean;         /* what it multiplies sums by */
    struct factor_output out;
    double scale, keep; /* out = keep out + scale sum; keep 0: out is not read */
    /* An embedding's A. */
    unsigned long long *counts; /* one a row, and how many positions have a row beside the table */
    long long reduces;
};
#endif
