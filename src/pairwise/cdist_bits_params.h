/*
 * cdist_bits_params.h - what the host tells cdist_bits.cu
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CDIST_BITS_PARAMS_H
#define GRAM_CDIST_BITS_PARAMS_H
#include "device_params.h"

#define BITS_TILE    64 /* rows of x, and of y, that a block compares */
#define BITS_THREADS 256

struct cdist_bits_params {
    struct device_view x, y, out; /* of bytes; of f32, where condensed with one row */
    long long words[2];           /* 1: rows of x, and of y, can be read in words of four bytes */
    long long rows, cols;         /* of the matrix of distances */
    long long depth, bits;        /* bytes of a row, and the bits that count */
    unsigned long long last;      /* the bits that count in the last word */
    long long symmetric, condensed;
    long long tile_cols, item_tiles, tiles; /* of all items */
    long long batch_ndim, batch_shape[DEVICE_DIMS];
};
#endif
