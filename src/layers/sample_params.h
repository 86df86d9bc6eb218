/*
 * sample_params.h - what the host tells sample_*.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SAMPLE_PARAMS_H
#define GRAM_SAMPLE_PARAMS_H

#define SAMPLE_DIMS       8
#define SAMPLE_THREADS    256
#define SAMPLE_MMA_PLACES 64 /* of a kernel: bits of a mask */
#define SAMPLE_TILE       64 /* rows and columns of a product's tile */
#define SAMPLE_STEP       16 /* terms of a tile's sums at a time */

/* How the elements of a side are stored; the rows of a table are the last two. */
#define SAMPLE_REAL 0
#define SAMPLE_F16  1
#define SAMPLE_BF16 2
#define SAMPLE_I32  3
#define SAMPLE_I64  4

/* Dimensions that are counted through as one, the last fastest. */
struct sample_axes {
    long long stride[SAMPLE_DIMS];
    int shape[SAMPLE_DIMS];
    int ndim, unused;
};

struct sample_side {
    const char *data;
    long long type, sample_stride;
    struct sample_axes feature, position;
};

struct sample_output {
    char *data; /* NULL: not wanted */
    long long sample_stride;
    struct sample_axes row, col;
};

struct sample_params {
    long long blocks; /* of the launch: beyond its grid, blocks loop */
    int samples, positions, groups, in, out;
    int channels, patches; /* of a group of a convolution; it has patches */
    int kernel[3], stride[3], padding[3], dilation[3], place[3];
    int size[3]; /* of a; without patches 1 */
    int affine;  /* 0: biases alone; 1: a layer norm; 2: a group norm */
    int planes;  /* positions of the gradients lie closer together than features */
    int a_planes;
    int a_wide, g_wide; /* 16 bytes of neighbours are there together, and aligned */
    int biased;         /* the bias is in the norm */
    int rows;           /* of the table that sums of an embedding are */
    long long size_stride[3], padding_row;
    double scale, clip, epsilon;
    struct sample_side a, g;
    struct sample_output weight, bias; /* of the samples or of their sums */
    struct sample_output norms, coefficients;
    int accumulate, has_coefficients, add;
    /* Sums over positions of samples one after the other, `length` of them a part. */
    int parts;
    long long length;
    double *squares;      /* square_count of them a sample */
    int square_count;     /* of a sample */
    int square_first;     /* where this launch's are */
    int clips, ghost_one; /* clips: norms make the factors */
    double *factors;      /* of the samples */
    double *moments;      /* mean and 1 / deviation of each row or group */
    double *partial[2];   /* of the weight and the bias, part after part */
    int *head, *next;     /* of positions with one row: the row or SAMPLE_NONE; the next one */
    int span;             /* positions that are linked */
    int first;            /* of the linked ones of this launch */
};

#define SAMPLE_NONE (-1) /* another position is the first with this row, or it has no gradient */
#define SAMPLE_BAD  (-2) /* a row that is not in the table */
#endif
