/*
 * backend_kron.h - the part of backend.h that describes Kronecker products
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BACKEND_KRON_H
#define GRAM_BACKEND_KRON_H
#include "view.h"

struct gram_kron_op {
    struct gram_batch batch;
    struct gram_view factor[GRAM_MAX_FACTORS], out;
    int count; /* of factors */
};

/* y = alpha x (factor[0] (x) factor[1] (x) ...) + beta z; factors on the left are seen as their
 * transposes on the right of the transposes of x, y and z. */
struct gram_kron_matmul_op {
    struct gram_batch batch;
    struct gram_view x, y;
    struct gram_view z; /* data NULL only where beta is the number 0, or z is empty */
    struct gram_view factor[GRAM_MAX_FACTORS];
    int count;     /* of factors */
    bool in_place; /* y is x */
    struct gram_hyper alpha, beta;
    int64_t after; /* indices behind those of the factors in a row of x and y; CUDA, 0: none */
};

/*
 * A tensor of any strides and [plane][item][row][column] without gaps: how the parts of a product
 * that several processes share are gathered for an exchange and put where they belong after it.
 */
struct gram_kron_move_op {
    struct gram_batch batch;
    struct gram_view view;  /* f32, f64, i32 or i64; planes, rows and columns of an item */
    void *dense;            /* element 0 of the other */
    bool gather;            /* dense = view; else view = dense + beta z */
    struct gram_view z;     /* as view; data NULL: none */
    struct gram_hyper beta; /* of z */
};

/* y = alpha x (factor 1 (x) ... (x) factor N), whatever the side: see kron_matmul_vjp.c */
struct gram_kron_matmul_vjp_op {
    struct gram_batch batch;
    struct gram_view x, factor[GRAM_MAX_FACTORS], grad;
    int count; /* of factors */
    struct gram_hyper alpha;
    /* Gradients, where wanted: stride 0 along the batch where they are summed over it. */
    struct gram_view to_x, to_factor[GRAM_MAX_FACTORS];
    bool want_x, want_factor[GRAM_MAX_FACTORS];
};

/* The trace, or the logarithm of the determinant, of a product of square factors. */
struct gram_kron_number_op {
    struct gram_batch batch;
    struct gram_view factor[GRAM_MAX_FACTORS], sign, out;
    int count;     /* of factors */
    int64_t order; /* of the product */
    bool has_sign;
};

/* x (factor 1 (x) ... (x) factor N) + shift x = b, whatever the side: see kron_solve.c */
struct gram_kron_solve_op {
    struct gram_batch batch;
    struct gram_view factor[GRAM_MAX_FACTORS], b, x, info;
    int count; /* of factors */
    gram_kron_method method;
    gram_uplo uplo;
    struct gram_hyper shift;
    bool has_info;
};
#endif
