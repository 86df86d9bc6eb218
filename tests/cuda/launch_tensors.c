/*
 * launch_tensors.c - the tensors of launch_calls.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "launch_calls.h"

/* One matrix an item of the batch; items 0: one for all. */
gram_tensor *launch_tensor(struct launch_call *c, int64_t items, gram_dtype dtype, int64_t rows,
                           int64_t cols)
{
    gram_tensor *t = &c->t[c->used++];
    const int64_t size = rows * cols;

    *t = gram_matrices(c->pool + c->used_bytes, items, rows, cols, dtype);
    t->device.type = GRAM_CUDA;
    if (items == 0) {
        t->ndim = 2;
        t->shape[0] = rows, t->shape[1] = cols;
        t->stride[0] = cols, t->stride[1] = 1;
    }
    c->used_bytes += (size_t)((items ? items : 1) * size) * gram_dtype_size(dtype) + 63;
    c->used_bytes -= c->used_bytes % 64;
    return t;
}

gram_tensor *launch_matrix(struct launch_call *c, int64_t rows, int64_t cols)
{
    return launch_tensor(c, c->items, GRAM_F32, rows, cols);
}

/* A matrix that is every item's, in a batch. */
gram_tensor *launch_repeated(struct launch_call *c, int64_t rows, int64_t cols)
{
    gram_tensor *t = launch_tensor(c, 0, GRAM_F32, rows, cols);

    *t = gram_matrices(t->data, c->items, rows, cols, GRAM_F32);
    t->device.type = GRAM_CUDA;
    t->stride[0] = 0;
    return t;
}

/* A vector an item, and a number. */
gram_tensor *launch_vector(struct launch_call *c, int64_t n)
{
    gram_tensor *t = launch_tensor(c, c->items, GRAM_F32, 1, n);

    t->ndim = 2;
    t->shape[1] = n, t->stride[1] = 1;
    return t;
}

gram_tensor *launch_number(struct launch_call *c, gram_dtype dtype)
{
    gram_tensor *t = launch_tensor(c, c->items, dtype, 1, 1);

    t->ndim = 1;
    return t;
}
