/*
 * lengths_params.h - what the host tells lengths.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_LENGTHS_PARAMS_H
#define GRAM_LENGTHS_PARAMS_H

#define LENGTHS_COLUMNS 32 /* of a block that sums columns: a warp reads neighbours */
#define LENGTHS_ROWS    8  /* rows that such a block reads at a time */

/* The items of a batch, and the columns of their matrices. */
struct lengths_batch {
    long long items, ndim, shape[DEVICE_DIMS], cols;
};

struct lengths_divide_params {
    struct lengths_batch batch;
    struct device_view in, out, lengths, centre; /* centre: data NULL: none */
    long long rows, stored;                      /* stored: the code of what in and centre hold */
};

/* lengths_sum, lengths_grad */
struct lengths_grad_params {
    struct lengths_batch batch;
    struct device_view x, to_x, y, to_y, lengths, out;
    double *parts; /* [item][chunk][column] */
    long long x_rows, y_rows;
    long long chunks, chunk; /* of an item; rows of one, of x and y after each other */
};
#endif
