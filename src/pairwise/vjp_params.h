/*
 * vjp_params.h - what the host tells the small kernels of gram_kernel_vjp, kernel_vjp_<part>.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_VJP_PARAMS_H
#define GRAM_VJP_PARAMS_H

#define VJP_DIMS    8
#define VJP_THREADS 256 /* of a block of all of them */

struct vjp_matrix {
    char *data; /* of item 0 */
    long long row_stride, col_stride, batch_stride[VJP_DIMS];
};

/* The rows of all items, one item after the other; lanes neighbouring threads, a power of two, have
 * a row: see vjp_rows.cuh. */
struct vjp_rows {
    long long items, ndim, shape[VJP_DIMS]; /* the batch */
    long long rows, cols;                   /* of an item */
    long long lanes;
};

/* kernel_vjp_sums.cu: sums[i] = or += the sum over j of u[i][j] v[i][j]; u.data NULL: of v */
struct vjp_sums_params {
    struct vjp_rows of;
    struct vjp_matrix u, v;
    double *sums;
    long long step; /* sums from one item to the next */
    long long add;
};

/* kernel_vjp_number.cu: the sum of an item's sums, in one row, as a REAL */
struct vjp_number_params {
    struct vjp_rows of;
    const double *sums;
    struct vjp_matrix out;
    long long step;
};

/* kernel_vjp_weigh.cu: w *= grad, or for the cosine w = grad / (|x| |y|) and 0 where that is 0; and
 * writes the numbers 1, -1, 0 */
struct vjp_weigh_params {
    struct vjp_rows of;
    struct vjp_matrix w, grad;
    const double *x_squares, *y_squares; /* |x|^2 of the rows, |y|^2 of the columns; or NULL */
    long long step;                      /* squares from one item to the next */
    char *constants;
};

/* kernel_vjp_correct.cu: to[i] -= sums[i] / squares[i] x[i], where squares[i] is not 0 */
struct vjp_correct_params {
    struct vjp_rows of;
    struct vjp_matrix to, x;
    const double *sums, *squares;
    long long step;
};
#endif
