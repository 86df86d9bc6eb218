/*
 * agop_params.h - what the host tells agop.cu, agop_diagonal.cu and agop_sum.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_AGOP_PARAMS_H
#define GRAM_AGOP_PARAMS_H

#define AGOP_DIMS   8
#define AGOP_TILE   64 /* rows and columns of a part of out */
#define AGOP_SHARES 8  /* of the columns of a chunk, for the diagonal */

struct agop_params {
    long long items, ndim, shape[AGOP_DIMS]; /* the batch */
    const char *gradients; /* [item][column][ld]: a column is an output of a point, its numbers are
                              one a feature */
    char *parts; /* [item][chunk][pair of tiles][row][column], or [item][chunk][feature] */
    char *out;   /* of item 0 */
    long long batch_stride[AGOP_DIMS];
    long long features, ld, columns;
    long long side;                  /* of the pairs in parts: AGOP_TILE, or fewer features */
    long long chunks, chunk_columns; /* columns that one part sums */
    long long pairs;                 /* of tiles, on and below the diagonal */
    long long first;                 /* the parts hold nothing yet */
    long long row_stride, col_stride, add, diagonal;
    double scale;
};
#endif
