/*
 * kernel_vjp.h - gram_kernel_vjp in terms of other operations, for every backend
 *
 * A block of the kernel's weights, multiplied by grad, is the coefficients of a cdist_grad with one
 * output: see cpu_kernel_vjp.c.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KERNEL_VJP_H
#define GRAM_KERNEL_VJP_H
#include "pairwise.h"

/* Rows [i, i + rows) and columns [j, j + cols) of each item's kernel matrix. */
struct vjp_block {
    int64_t i, rows, j, cols;
};

/* Rows [first, first + rows) of a matrix, transposed. */
static inline struct gram_view gram_vjp_transposed(const struct gram_view *v, int64_t first,
                                                   int64_t rows)
{
    struct gram_view part = gram_view_rows(v, first, rows);

    part.planes = 1;
    part.rows = v->cols, part.cols = rows;
    part.row_stride = v->col_stride, part.col_stride = v->row_stride;
    return part;
}

/* The kernel (of the given output) of a block, to elements without gaps, item after item. */
static inline struct gram_cdist_op gram_vjp_kernel(const struct gram_cdist_op *kernel,
                                                   const struct vjp_block *b,
                                                   gram_kernel_output output, void *elements)
{
    struct gram_cdist_op op = *kernel;

    op.symmetric = false;
    op.output = output;
    op.regularization = (struct gram_hyper){.value = 0};
    op.x = gram_view_rows(&kernel->x, b->i, b->rows);
    op.y = gram_view_rows(&kernel->y, b->j, b->cols);
    op.out = gram_view_dense_items(elements, op.x.dtype, b->rows, b->cols, &op.batch);
    return op;
}

/* Where the device reads the numbers 1, -1 and 0. */
enum {
    VJP_ONE,
    VJP_MINUS_ONE,
    VJP_ZERO,
    VJP_NUMBERS
};

/* One of them seen as a matrix. */
static inline struct gram_view gram_vjp_number(const void *numbers, int place, gram_dtype dtype,
                                               int64_t rows, int64_t cols)
{
    const size_t at = (size_t)place * gram_dtype_size(dtype);

    return (struct gram_view){.data = numbers ? (char *)numbers + at : NULL,
                              .dtype = dtype,
                              .planes = 1,
                              .rows = rows,
                              .cols = cols};
}

/* What the weights of a block, which are without gaps, add to the gradient of x, or of y, whose
 * place is `to`.  weights and numbers may be NULL where sizes alone count. */
static inline struct gram_cdist_grad_op gram_vjp_gradient(const struct gram_cdist_op *kernel,
                                                          const struct vjp_block *b, bool of_x,
                                                          const struct gram_view *to, void *weights,
                                                          const void *numbers)
{
    const gram_dtype dtype = kernel->x.dtype;
    const bool dot = kernel->inner == GRAM_DOT;
    const struct gram_view w =
        gram_view_dense_items(weights, dtype, b->rows, b->cols, &kernel->batch);
    const struct gram_view x = gram_vjp_transposed(&kernel->x, b->i, b->rows);
    const struct gram_view y = gram_vjp_transposed(&kernel->y, b->j, b->cols);
    struct gram_cdist_grad_op op = {
        .batch = kernel->batch,
        .a = of_x ? gram_vjp_transposed(&w, 0, b->rows) : w,
        .b = of_x ? y : x,
        .c = gram_vjp_number(numbers, dot ? VJP_MINUS_ONE : VJP_ONE, dtype, 1,
                             of_x ? b->cols : b->rows),
        .d = of_x ? x : y,
        .out =
            of_x ? gram_vjp_transposed(to, b->i, b->rows) : gram_vjp_transposed(to, b->j, b->cols),
        .p = kernel->p,
    };

    if (dot) {
        op.d = gram_vjp_number(numbers, VJP_ZERO, dtype, op.d.rows, op.d.cols);
        op.p = (struct gram_hyper){.value = 2};
    }
    return op;
}

static inline bool gram_vjp_has_bandwidth(gram_function function)
{
    return function >= GRAM_LAPLACE && function <= GRAM_RATIONAL_QUADRATIC;
}

/* Where the regularization was added: (i, j), (i + 1, j + 1), ..., count of them, maybe none. */
struct vjp_diagonal {
    int64_t i, j, count;
};

static inline struct vjp_diagonal gram_vjp_diagonal(const struct gram_cdist_op *kernel)
{
    const int64_t shift = kernel->row_offset - kernel->column_offset;
    const int64_t first = gram_most(0, -shift);
    const int64_t end = gram_least(kernel->x.rows, kernel->y.rows - shift);

    return (struct vjp_diagonal){
        .i = first, .j = first + shift, .count = gram_most(0, end - first)};
}
#endif
