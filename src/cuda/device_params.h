/*
 * device_params.h - a matrix and a number of every item of a batch, as the host tells kernels
 *
 * These are the structs in which matrices and numbers reach every kernel.  device_view.h fills them
 * in, device_view.cuh reads them.  Two kinds of tensors are not matrices and have structs of their
 * own: the parameters that an optimizer changes (optimizer_params.h) and the sides of a layer
 * (layer_params.h).
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none, and
 * long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_DEVICE_PARAMS_H
#define GRAM_DEVICE_PARAMS_H

#define DEVICE_DIMS 8 /* of a batch */

/* How numbers are stored: the values of gram_dtype, and one that means the type in which a kernel
 * computes.  Kernels that are compiled for the types that they read, and parameters that tell a
 * type at run time, have these codes; see stored.cuh. */
#define DEVICE_REAL 0
#define DEVICE_F32  1
#define DEVICE_F64  2
#define DEVICE_F16  3
#define DEVICE_BF16 4
#define DEVICE_I32  5
#define DEVICE_I64  6

/* A matrix of every item.  Strides are in elements, whose type the kernel knows. */
struct device_view {
    char *data; /* of item 0; NULL: not given */
    long long row_stride, col_stride, batch_stride[DEVICE_DIMS];
};

/* A number that is the same for all items, or one of each item, which lies on the device. */
struct device_number {
    double value;
    const void *data; /* NULL: value is meant */
    /* Of data: f64, else f32.  It is no code, since ptxas gives kron_matmul.cu 5 registers more for
     * comparing one with another number than 0. */
    long long is_double;
    long long batch_stride[DEVICE_DIMS];
};
#endif
