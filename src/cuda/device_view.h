/*
 * device_view.h - views, numbers and batches as kernels get them
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_DEVICE_VIEW_H
#define GRAM_CUDA_DEVICE_VIEW_H
#include "core/backend.h"
#include "device_params.h"

struct device_view cuda_device_view(const struct gram_view *v);
/* The same from an element on; data NULL stays so. */
struct device_view cuda_device_view_at(const struct gram_view *v, int64_t i, int64_t j);
/* The same of the whole view, with data NULL unless the caller has given the tensor. */
struct device_view cuda_given_view(const struct gram_view *v, bool given);
struct device_number cuda_device_number(const struct gram_hyper *h);

/* How a kernel that computes in cuda_type(dtype) finds elements of this dtype: DEVICE_REAL, or the
 * code of halves, which it converts. */
int cuda_stored_as(gram_dtype dtype);

/* Writes the shape of a batch. */
void cuda_set_batch(const struct gram_batch *batch, long long *ndim, long long *shape);
/* True if a matrix is the same in all items of the batch. */
bool cuda_is_shared(const struct gram_batch *batch, const struct gram_view *v);
/* True if the rows of all items lie one after the other without gaps. */
bool cuda_is_dense(const struct gram_batch *batch, const struct gram_view *v);
/* A view of matrices that lie one after the other, row by row, one for each item of batch. */
struct gram_view cuda_dense_view(void *data, gram_dtype dtype, const struct gram_batch *batch,
                                 int64_t rows, int64_t cols);
#endif
