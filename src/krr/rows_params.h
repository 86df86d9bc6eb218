/*
 * rows_params.h - what the host tells rows.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none, and
 * long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_ROWS_PARAMS_H
#define GRAM_ROWS_PARAMS_H

#define ROWS_THREADS 256 /* of a block of every kernel */
#define ROWS_TILE    4   /* rows, and outputs, that a block of rows_combine sums at a time */

/* The kernels of rows.cu, as -DKERNEL. */
#define ROWS_MAP      0
#define ROWS_GATHER   1
#define ROWS_COMBINE  2
#define ROWS_DIAGONAL 3

struct rows_params {
    long long rows, width; /* of x and out; of kernel; width: terms in rows_combine */
    const void *x;         /* kernel in rows_combine */
    void *out;
    const double *w; /* rows_map, and what rows_diagonal adds */
    long long full;
    const long long *index; /* rows_gather */
    const void *alpha;      /* rows_combine: outputs by width */
    long long outputs, ld;
};
#endif
