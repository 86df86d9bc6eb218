/*
 * device_params.h - a matrix and a number of every item of a batch, as the host tells kernels
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none, and
 * long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_DEVICE_PARAMS_H
#define GRAM_DEVICE_PARAMS_H

#define DEVICE_DIMS 8 /* of a batch */

/* A matrix of every item.  Strides are in elements. */
struct device_view {
    char *data; /* of item 0 */
    long long row_stride, col_stride, batch_stride[DEVICE_DIMS];
};

/* A number that is the same for all items, or one of each item, which lies on the device. */
struct device_number {
    double value;
    const void *data; /* NULL: value is meant */
    long long is_double, batch_stride[DEVICE_DIMS];
};
#endif
