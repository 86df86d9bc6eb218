/*
 * grad_params.h - what the host tells the kernels of gradients: cdist_grad*.cu, agop.cu and
 * kernel_vjp.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes only ours,
 * and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_GRAD_PARAMS_H
#define GRAM_GRAD_PARAMS_H
#include "pair_params.h"

/* ---- cdist_grad*.cu ------------------------------------------------------------------------- */

/* -DSTEP: the term; t is the difference of two coordinates.  All are 0 where t is. */
#define GRAD_SIGN   0 /* p = 1: sgn t */
#define GRAD_ROOT   1 /* p = 3/2: sgn t |t|^(1/2) */
#define GRAD_SQUARE 2 /* p = 2: t, by products */
#define GRAD_WHOLE  3 /* t |t|^WHOLE */
#define GRAD_POWER  4 /* f32: sgn t |t|^WHOLE |t|^fraction, p > 1 */
#define GRAD_FLAT   5 /* f32: sgn t |t|^fraction, p < 1 */
#define GRAD_ANY    6 /* sgn t |t|^(p-1), any p, known only on the device where P_TENSOR is 1 */
#define GRAD_MOST   7 /* p = infinity: cdist_grad_largest */

#define GRAD_MOST_WHOLE    14  /* of GRAD_WHOLE and GRAD_POWER */
#define GRAD_RANGE_ROWS    32  /* rows of a block of cdist_grad_range */
#define GRAD_RANGE_CENTRES 512 /* and centres: one part of the sum */

#define GRAD_SIGN_CENTRES 32 /* of a panel, with p = 1 and several outputs in f32 */

/* Threads and dynamic shared memory of a block of cdist_grad_mma.cu, 128 by 128 of an output. */
#define GRAD_MMA_TILE    128
#define GRAD_MMA_THREADS 256
#define GRAD_MMA_BYTES   (32768 + 65536 + 4 * 512)

/* Of some centres of a row. */
struct grad_range {
    double sum;
    float least, most;
};

struct grad_params {
    struct device_view a, b, c, d; /* K by M, N by K, O by K, N by M */
    struct device_view out;        /* rows n, columns m of output 0 */
    long long plane_stride;        /* from one output to the next */
    long long split_stride;        /* from what one part of the centres sums to to the next */
    struct grad_range *ranges;     /* GRAD_SQUARE: [part][item][points, features, outputs] */
    char *largest;                 /* GRAD_MOST: [item][k][m] */
    long long outputs, features, points, centres;
    long long items, batch_ndim, batch_shape[DEVICE_DIMS];
    long long output_tiles, feature_tiles, point_tiles, splits;
    long long split_centres; /* of one part */
    long long add;           /* to what out holds */
    double exponent;         /* p - 1 */
    double fraction;         /* GRAD_POWER: of p - 1; GRAD_FLAT: p - 1 */
    struct pair_power power; /* GRAD_POWER */
    struct pair_hyper p;     /* GRAD_ANY */
};

/* cdist_grad_sum: out = or += the sum of the parts. */
struct grad_sum_params {
    const char *parts; /* [split][item][o][n][m] */
    struct device_view out;
    long long plane_stride, outputs, features, points, splits;
    long long items, batch_ndim, batch_shape[DEVICE_DIMS];
    long long add;
};

/* ---- agop.cu -------------------------------------------------------------------------------- */

#define AGOP_TILE   64 /* rows and columns of a part of out */
#define AGOP_SHARES 8  /* of the columns of a chunk, for the diagonal */

struct agop_params {
    long long items, ndim, shape[DEVICE_DIMS]; /* the batch */
    const char *gradients; /* [item][column][ld]: a column is an output of a point, its numbers are
                              one per feature */
    char *parts; /* [item][chunk][pair of tiles][row][column], or [item][chunk][feature] */
    char *out;   /* of item 0 */
    long long batch_stride[DEVICE_DIMS];
    long long features, ld, columns;
    long long side;                  /* of the pairs in parts: AGOP_TILE, or fewer features */
    long long chunks, chunk_columns; /* columns that one part sums */
    long long pairs;                 /* of tiles, on and below the diagonal */
    long long first;                 /* the parts hold nothing yet */
    long long row_stride, col_stride, add, diagonal;
    double scale;
};

/* ---- kernel_vjp.cu -------------------------------------------------------------------------- */

#define VJP_THREADS 256 /* of a block of every kernel there */

/* The rows of all items, one item after the other; lanes neighbouring threads, a power of two, have
 * a row. */
struct vjp_rows {
    long long items, ndim, shape[DEVICE_DIMS]; /* the batch */
    long long rows, cols;                      /* of an item */
    long long lanes;
};

/* kernel_vjp_sums: sums[i] = or += the sum over j of u[i][j] v[i][j]; u.data NULL: of v */
struct vjp_sums_params {
    struct vjp_rows of;
    struct device_view u, v;
    double *sums;
    long long step; /* sums from one item to the next */
    long long add;
};

/* kernel_vjp_number: the sum of an item's sums, in one row, as a REAL */
struct vjp_number_params {
    struct vjp_rows of;
    const double *sums;
    struct device_view out;
    long long step;
};

/* kernel_vjp_weigh: w *= grad, or for the cosine w = grad / (|x| |y|) and 0 where that is 0; and
 * writes the numbers 1, -1, 0 */
struct vjp_weigh_params {
    struct vjp_rows of;
    struct device_view w, grad;
    const double *x_squares, *y_squares; /* |x|^2 of the rows, |y|^2 of the columns; or NULL */
    long long step;                      /* squares from one item to the next */
    char *constants;
};

/* kernel_vjp_correct: to[i] -= sums[i] / squares[i] x[i], where squares[i] is not 0 */
struct vjp_correct_params {
    struct vjp_rows of;
    struct device_view to, x;
    const double *sums, *squares;
    long long step;
};

/* kernel_vjp_project: to[i] = (to[i] - u u.to[i]) / |x[i]|, u = x[i] / |x[i]|, or 0 where x[i] is;
 * a lane has a row of depth numbers */
struct vjp_project_params {
    struct vjp_rows of;
    struct device_view to, x;
    long long depth;
};

/* ---- kernel_reduce_vjp.cu ------------------------------------------------------------------- */

/* kernel_vjp_soften: see there.  w and d are a block, of which log_weights, grad and
 * averages have the columns and the rows; constants get 1, -1 and 0. */
struct vjp_soften_params {
    struct vjp_rows of;
    struct device_view w, d, grad, averages, log_weights; /* data NULL: none */
    const double *logarithms;
    long long step; /* logarithms from one item to the next */
    long long is_logarithm, columns;
    double scale, factor;
    char *constants;
};

/* kernel_vjp_scale */
struct vjp_scale_params {
    struct vjp_rows of;
    struct device_view d;
    double scale;
};
#endif
