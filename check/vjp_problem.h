/*
 * vjp_problem.h - rows of gram_kernel_vjp, gram_kernel_matmul_vjp and gram_kernel_reduce_vjp, and
 * how they are checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_VJP_PROBLEM_H
#define GRAM_VJP_PROBLEM_H
#include "check/harness/harness.h"

enum vjp_data {
    VJP_APART,    /* coordinates differ by 0.2 at least: differentiable for every p */
    VJP_INTEGERS, /* ties, and points that coincide */
    VJP_ZERO_ROW, /* the first point of x is 0 */
    VJP_NAN,      /* in the second point of x */
};

struct vjp_row {
    int64_t m, n, k;
    int64_t r; /* columns of the product whose gradient is wanted; 0: gram_kernel_vjp */
    int64_t x_batch, y_batch, grad_batch, v_batch; /* 0: none */
    gram_dtype dtype;
    enum layout x_layout, y_layout, grad_layout, out_layout, v_layout;
    enum vjp_data data;
    bool same;         /* y is NULL */
    bool only_scalars; /* the gradients of x and y are not wanted */
    bool per_item;     /* the bandwidth is a tensor */
    gram_inner inner;
    gram_function function;
    double p, outer;
    int64_t row_offset, column_offset;
    /* Of gram_kernel_reduce_vjp; 0: no reduction. */
    gram_reduction what;
    double reduce_scale;
    bool logs; /* log-weights are given; the first one of several is -INFINITY */
    const char *why;
};

void vjp_row_label(const struct vjp_row *row, char *text, size_t size);
/* Against the reference; differences: against central differences of gram_kernel too. */
void vjp_row_check(struct harness *h, const struct vjp_row *row, bool differences);
/* The options of a row but p, the outer power and offsets: fixed, all of them used. */
gram_kernel_options vjp_options(gram_inner inner, gram_function function);
#endif
