/*
 * layer_params.h - what the host tells sample_*.cu and kfac_factors.cu: a layer, and what is wanted
 *
 * Read by the host's compiler and by NVRTC, which has no header of C: long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_LAYER_PARAMS_H
#define GRAM_LAYER_PARAMS_H
#include "device_params.h"

/* ---- A layer --------------------------------------------------------------------------------- */

/* Dimensions that are counted through as one, the last fastest. */
struct layer_axes {
    long long stride[DEVICE_DIMS];
    int shape[DEVICE_DIMS];
    int ndim, unused;
};

/* What goes in, or gradients.  A side is no device_view: its features and its positions are tuples
 * of dimensions, and one compiled kernel serves sides of several types.  dtype is DEVICE_REAL,
 * DEVICE_F16 or DEVICE_BF16; of the rows of a table DEVICE_I32 or DEVICE_I64. */
struct layer_side {
    const char *data;
    long long dtype, sample_stride;
    struct layer_axes feature, position;
};

struct layer_output {
    char *data; /* NULL: not wanted */
    long long sample_stride;
    struct layer_axes row, col;
};

/* What struct gram_layer_op tells: see cuda_layer_params. */
struct layer_params {
    int samples, positions, groups, in, out;
    int channels, patches; /* of a group of a convolution; it has patches */
    int kernel[3], stride[3], padding[3], dilation[3], place[3];
    int size[3]; /* of a; without patches 1 */
    int planes;  /* positions of the gradients lie closer together than features */
    int a_planes;
    long long size_stride[3];
    long long padding_row; /* the row of a table that has no gradient, or -1 */
    struct layer_side a, g;
};

/* ---- Gradients of samples -------------------------------------------------------------------- */

#define SAMPLE_THREADS    256
#define SAMPLE_MMA_PLACES 64 /* of a kernel: bits of a mask */
#define SAMPLE_TILE       64 /* rows and columns of a product's tile */
#define SAMPLE_STEP       16 /* terms of a tile's sums at a time */

struct sample_params {
    long long blocks;   /* of the launch: beyond its grid, blocks loop */
    int affine;         /* 0: biases alone; 1: a layer norm; 2: a group norm */
    int a_wide, g_wide; /* 16 bytes of neighbours are there together, and aligned */
    int biased;         /* the bias is in the norm */
    double scale, clip, epsilon;
    struct layer_params l;
    struct layer_output weight, bias; /* of the samples or of their sums */
    struct layer_output norms, coefficients;
    int accumulate, has_coefficients, add;
    /* Sums over positions of samples one after the other, `length` of them a part. */
    int parts;
    long long length;
    double *squares;    /* square_count of them a sample */
    int square_count;   /* of a sample */
    int square_first;   /* where this launch's are */
    int clips;          /* norms make the factors */
    double *factors;    /* of the samples */
    double *moments;    /* mean and 1 / deviation of each row or group */
    double *partial[2]; /* of the weight and the bias, part after part */
    int *head, *next;   /* of positions with one row: the row or SAMPLE_NONE; the next one */
    int span;           /* positions that are linked */
    int first;          /* of the linked ones of this launch */
};

#define SAMPLE_NONE (-1) /* another position is the first with this row, or it has no gradient */
#define SAMPLE_BAD  (-2) /* a row that is not in the table */

/* ---- Kronecker factors ----------------------------------------------------------------------- */

#define FACTOR_THREADS 256
#define FACTOR_SIDE    64 /* of a tile of a factor */
#define FACTOR_DEPTH   16 /* positions that a tile takes at a time */
#define FACTOR_BATCH   64 /* positions whose places are found at a time: FACTOR_DEPTHs */

struct factor_params {
    /* l.a is the side that the factor is of, gradients too; l.g has the rows of an embedding, and
     * l.in is how many its table has. */
    struct layer_params l;
    int masked;                     /* positions whose row is l.padding_row do not count */
    int planes;                     /* neighbours in memory are positions */
    long long count;                /* positions of all samples */
    long long features, ones;       /* ones: a feature more, which is 1 */
    long long sides, pairs, splits; /* tiles of a factor along a side, of a triangle */
    long long each;                 /* positions of a split, a multiple of FACTOR_BATCH */
    char *partial;           /* tiles: a split, a group and a pair of tiles after the other */
    const char *product;     /* or products, features by features; NULL: none */
    double *sums;            /* with product: of columns, for the ones, a split after the other */
    char *reduced;           /* of factor_reduce: group, sample, feature */
    double mean;             /* what it multiplies sums by */
    struct layer_output out; /* a group each */
    double scale, keep;      /* out = keep out + scale sum; keep 0: out is not read */
    /* An embedding's A: one count per row, and that of the positions whose row is not there. */
    unsigned long long *counts;
    long long reduces;
};
#endif
