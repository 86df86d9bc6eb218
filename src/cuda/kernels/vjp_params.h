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

struct vjp_matrix {
    char *data;
    long long row_stride, col_stride;
};

/* kernel_vjp_sums.cu: sums[i] = or += the sum over j of u[i][j] v[i][j]; u.data NULL: of v */
struct vjp_sums_params {
    struct vjp_matrix u, v;
    double *sums;
    long long rows, cols, add;
};

/* kernel_vjp_number.cu: the sum of the sums as a REAL */
struct vjp_number_params {
    const double *sums;
    char *out;
    long long count;
};

/* kernel_vjp_weigh.cu: w *= grad, or for the cosine w = grad / (|x| |y|) and 0 where that is 0; and
 * writes the numbers 1, -1, 0 */
struct vjp_weigh_params {
    struct vjp_matrix w, grad;
    const double *x_squares, *y_squares; /* |x|^2 of the rows, |y|^2 of the columns; or NULL */
    char *constants;
    long long rows, cols;
};

/* kernel_vjp_correct.cu: to[i] -= sums[i] / squares[i] x[i], where squares[i] is not 0 */
struct vjp_correct_params {
    struct vjp_matrix to, x;
    const double *sums, *squares;
    long long rows, cols;
};
#endif
