/*
 * cuda_matmul.c - operands of cuBLAS: batches that lie evenly, and copies of those that do not
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matmul.h"
#include "core/blas.h"

struct cuda_matmul_side cuda_matmul_side_of(const struct gram_view *v)
{
    struct cuda_matmul_side s = {.view = *v, .pack = !gram_blas_direct(v)};

    s.item_bytes = (size_t)v->rows * (size_t)v->cols * gram_dtype_size(v->dtype);
    return s;
}

/* Items of a run lie evenly, so the stride of the last dimension is that from each of them to the
 * next. */
static int64_t last_stride(const struct gram_view *v, const struct gram_batch *batch)
{
    return batch->ndim > 0 ? v->batch_stride[batch->ndim - 1] : 0;
}

struct cuda_gemm_side cuda_matmul_operand(const struct cuda_matmul_side *s,
                                          const struct gram_batch *batch, int64_t first)
{
    const struct gram_view dense =
        gram_view_dense(s->packed, s->view.dtype, s->view.rows, s->view.cols);
    const struct gram_view *v = s->pack ? &dense : &s->view;
    const struct gram_blas_matrix m =
        gram_blas_transpose_of(v, s->pack ? s->packed : gram_view_item(&s->view, batch, first));

    return (struct cuda_gemm_side){
        m.data, m.ld, s->pack ? v->rows * v->cols : last_stride(v, batch), m.transposed};
}

gram_status cuda_matmul_pack(gram_context *g, const struct cuda_matmul_side *s,
                             const struct gram_batch *batch, int64_t first, int64_t count)
{
    const struct gram_view dense =
        gram_view_dense(s->packed, s->view.dtype, s->view.rows, s->view.cols);
    struct move_params params = {
        .begin = first,
        .count = count,
        .rows = dense.rows,
        .cols = dense.cols,
        .to = {  cuda_device_view(&dense), dense.rows * dense.cols},
        .from = {cuda_device_view(&s->view),                       0},
        .alpha.value = 1,
    };

    return s->pack ? cuda_move(g, dense.dtype, batch, &params) : GRAM_OK;
}

/* A dimension of 1 would end a run for no reason. */
void cuda_matmul_squeeze(struct gram_batch *batch, int64_t *const *strides, int count)
{
    int kept = 0;

    for (int d = 0; d < batch->ndim; d++) {
        if (batch->shape[d] == 1)
            continue;
        batch->shape[kept] = batch->shape[d];
        for (int i = 0; i < count; i++)
            strides[i][kept] = strides[i][d];
        kept++;
    }
    batch->ndim = kept;
}

/* The dimensions from d on can be counted as one. */
bool cuda_matmul_even(const struct gram_batch *batch, const int64_t *stride, int d)
{
    for (int i = d; i + 1 < batch->ndim; i++)
        if (stride[i] != stride[i + 1] * batch->shape[i + 1])
            return false;
    return true;
}
