/*
 * device_view.c - views, numbers and batches as kernels get them
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_view.h"

// NOLINTBEGIN(misc-redundant-expression): pairs of constants of the same number
_Static_assert((int)DEVICE_DIMS == (int)GRAM_MAX_DIMS && DEVICE_F32 == (int)GRAM_F32 &&
                   DEVICE_F64 == (int)GRAM_F64 && DEVICE_F16 == (int)GRAM_F16 &&
                   DEVICE_BF16 == (int)GRAM_BF16 && DEVICE_I32 == (int)GRAM_I32 &&
                   DEVICE_I64 == (int)GRAM_I64,
               "device_params.h repeats numbers of gram.h");
// NOLINTEND(misc-redundant-expression)

/* All strides are copied, also those beyond the dimensions of the batch, which no kernel reads. */
struct device_view cuda_device_view(const struct gram_view *v)
{
    struct device_view side = {
        .data = v->data, .row_stride = v->row_stride, .col_stride = v->col_stride};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        side.batch_stride[d] = v->batch_stride[d];
    return side;
}

struct device_view cuda_device_view_at(const struct gram_view *v, int64_t i, int64_t j)
{
    struct device_view side = cuda_device_view(v);

    if (side.data)
        side.data += (i * v->row_stride + j * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
    return side;
}

/* Kernels know by the address whether an output is wanted. */
struct device_view cuda_given_view(const struct gram_view *v, bool given)
{
    struct device_view side = cuda_device_view(v);

    if (!given)
        side.data = NULL;
    return side;
}

/* A number that is a tensor is read on the device: the host would have to wait for it. */
struct device_number cuda_device_number(const struct gram_hyper *h)
{
    struct device_number number = {
        .value = h->value, .data = h->tensor.data, .is_double = h->tensor.dtype == GRAM_F64};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        number.batch_stride[d] = h->tensor.batch_stride[d];
    return number;
}

int cuda_stored_as(gram_dtype dtype)
{
    return dtype == GRAM_F16 || dtype == GRAM_BF16 ? (int)dtype : DEVICE_REAL;
}

void cuda_set_batch(const struct gram_batch *batch, long long *ndim, long long *shape)
{
    *ndim = batch->ndim;
    for (int d = 0; d < batch->ndim; d++)
        shape[d] = batch->shape[d];
}

bool cuda_is_shared(const struct gram_batch *batch, const struct gram_view *v)
{
    for (int d = 0; d < batch->ndim; d++)
        if (batch->shape[d] > 1 && v->batch_stride[d] != 0)
            return false;
    return true;
}

struct gram_view cuda_dense_view(void *data, gram_dtype dtype, const struct gram_batch *batch,
                                 int64_t rows, int64_t cols)
{
    struct gram_view v = gram_view_dense(data, dtype, rows, cols);
    int64_t step = rows * cols;

    for (int d = batch->ndim - 1; d >= 0; d--) {
        v.batch_stride[d] = batch->shape[d] > 1 ? step : 0;
        step *= batch->shape[d];
    }
    return v;
}

bool cuda_is_dense(const struct gram_batch *batch, const struct gram_view *v)
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
