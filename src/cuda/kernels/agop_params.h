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

#define AGOP_TILE   64 /* rows and columns of a part of out */
#define AGOP_SHARES 8  /* of the columns of a chunk, for the diagonal */

struct agop_params {
    const char *gradients; /* columns (an output of a point) of ld numbers, one a feature */
    char *parts;           /* [chunk][pair of tiles][row][column], or [chunk][feature] */
    char *out;             /* of the item */
    long long features, ld, columns;
    long long chunks, chunk_columns; /* columns that one part sums */
    long long pairs;                 /* of tiles, on and below the diagonal */
    long long first;                 /* the parts hold nothing yet */
    long long row_stride, col_stride, add, diagonal;
    double scale;
};
#endif
