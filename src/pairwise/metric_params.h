/*
 * metric_params.h - what the host tells metric_rows.cu
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_METRIC_PARAMS_H
#define GRAM_METRIC_PARAMS_H
#include "device_params.h"

/* -DCHANGE: what becomes of a row. */
#define ROWS_COPY       0
#define ROWS_SCALE      1 /* columns times w^(1/p) */
#define ROWS_VARIANCES  2 /* columns divided by sqrt(w) */
#define ROWS_ROOTS      3 /* sqrt(w x) */
#define ROWS_NORMALISE  4 /* length 1, with weights */
#define ROWS_CENTRE     5 /* less the mean, then length 1 */
#define ROWS_DISTRIBUTE 6 /* sum 1 */
#define ROWS_ONES       7 /* 1 where a number is not 0 */
#define ROWS_COSINES    8 /* a third column: the cosine of the first */

struct metric_rows_params {
    struct device_view side[2]; /* x and y */
    char *to[2];
    long long rows[2];        /* of an item; none of y where y is x */
    long long depth, columns; /* that there are; that are written */
    long long items, batch_ndim, batch_shape[DEVICE_DIMS];
    struct device_view weights; /* data NULL: all are 1 */
    long long weights_dtype;    /* DEVICE_F32 or DEVICE_F64 */
    char *weights_to;           /* columns + 1 numbers for each item; NULL: not wanted */
    struct device_number p;
};
#endif
