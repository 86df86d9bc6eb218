/*
 * reduce_params.h - what the host tells cdist_reduce.cu: where pieces of sums lie and where out is
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_REDUCE_PARAMS_H
#define GRAM_REDUCE_PARAMS_H
#include "pair_params.h"

struct reduce_params {
    const void *sums; /* pieces of elements, item after item, row after row */
    char *out;
    long long pieces, elements; /* elements of a piece: of all items */
    long long rows, cols, row_stride, col_stride;
    long long diagonal; /* r is added where i - j is this */
    long long batch_ndim, batch_shape[PAIR_DIMS], batch_stride[PAIR_DIMS];
    struct pair_map map;
};
#endif
