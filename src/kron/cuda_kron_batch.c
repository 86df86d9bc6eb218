/*
 * cuda_kron_batch.c - batches of factors, each of which may differ in other items
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"

void cuda_kron_put_batch(const struct gram_batch *batch, long long *ndim, long long *shape)
{
    *ndim = batch->ndim;
    for (int d = 0; d < batch->ndim; d++)
        shape[d] = batch->shape[d];
}

bool cuda_kron_is_shared(const struct gram_batch *batch, const struct gram_view *v)
{
    for (int d = 0; d < batch->ndim; d++)
        if (batch->shape[d] > 1 && v->batch_stride[d] != 0)
            return false;
    return true;
}

struct gram_batch cuda_kron_own(const struct gram_batch *batch, const struct gram_view *v)
{
    struct gram_batch own = *batch;

    own.count = 1;
    for (int d = 0; d < own.ndim; d++) {
        own.shape[d] = v->batch_stride[d] ? own.shape[d] : 1;
        own.count *= own.shape[d];
    }
    return own;
}

struct gram_view cuda_kron_dense(void *data, gram_dtype dtype, const struct gram_batch *own,
                                 int64_t rows, int64_t cols)
{
    struct gram_view v = gram_view_dense(data, dtype, rows, cols);
    int64_t step = rows * cols;

    for (int d = own->ndim - 1; d >= 0; d--) {
        v.batch_stride[d] = own->shape[d] > 1 ? step : 0;
        step *= own->shape[d];
    }
    return v;
}

bool cuda_kron_is_dense(const struct gram_batch *batch, const struct gram_view *v)
{
    int64_t step = v->rows * v->cols;

    if ((v->cols > 1 && v->col_stride != 1) || (v->rows > 1 && v->row_stride != v->cols))
        return false;
    for (int d = batch->ndim - 1; d >= 0; d--) {
        if (batch->shape[d] > 1 && v->batch_stride[d] != step)
            return false;
        step *= batch->shape[d];
    }
    return true;
}
