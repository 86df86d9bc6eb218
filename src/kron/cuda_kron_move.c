/*
 * cuda_kron_move.c - gathers parts of a product with Kronecker factors, and puts them back
 *
 * The planes of a view become one more dimension of the batch, the first one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <stdio.h>
#include <string.h>

static void shift(long long *stride, int ndim, int64_t plane)
{
    memmove(stride + 1, stride, (size_t)ndim * sizeof *stride);
    stride[0] = plane;
}

static struct kron_side side_of(const struct gram_view *v, int ndim)
{
    struct kron_side side = cuda_kron_side(v);

    shift(side.batch_stride, ndim, v->plane_stride);
    return side;
}

/* The side of a dense buffer: [plane][item][row][column] without gaps. */
static struct kron_side dense_side(const struct gram_kron_move_op *op)
{
    const struct gram_view *v = &op->view;
    struct kron_side side = {.data = op->dense, .row_stride = v->cols, .col_stride = 1};
    int64_t step = v->rows * v->cols;

    for (int d = op->batch.ndim - 1; d >= 0; d--) {
        side.batch_stride[d + 1] = step;
        step *= op->batch.shape[d];
    }
    side.batch_stride[0] = step;
    return side;
}

struct jit_request cuda_kron_move_request(gram_dtype dtype, char defines[CUDA_KRON_DEFINES])
{
    snprintf(defines, CUDA_KRON_DEFINES, "-DREAL=%s -DWHOLE=%d -DX_KIND=0 -DY_KIND=0 -DF_KIND=0",
             cuda_kron_real(dtype), dtype == GRAM_I32 || dtype == GRAM_I64);
    return (struct jit_request){.file = "kron_move.cu",
                                .kernel = "kron_move",
                                .defines = defines,
                                .variant = CUDA_KRON_EXPAND_VARIANTS + (uint64_t)dtype * 32 +
                                           GRAM_MAX_FACTORS + 1};
}

gram_status cuda_kron_move(gram_context *g, const struct gram_kron_move_op *op)
{
    const struct gram_view *v = &op->view;
    const int ndim = op->batch.ndim;
    const struct kron_side dense = dense_side(op);
    char defines[CUDA_KRON_DEFINES];
    const struct jit_request request = cuda_kron_move_request(v->dtype, defines);
    struct kron_params params = {.ndim = ndim + 1,
                                 .items = v->planes * op->batch.count,
                                 .alpha = {.value = 1},
                                 .beta = cuda_kron_number(&op->beta),
                                 .rows = v->rows,
                                 .outs = v->cols,
                                 .last = 1};
    gram_status status;
    bool entered;

    if (params.items == 0 || v->rows == 0 || v->cols == 0)
        return GRAM_OK;
    params.shape[0] = v->planes;
    for (int d = 0; d < ndim; d++)
        params.shape[d + 1] = op->batch.shape[d];
    params.x = op->gather ? side_of(v, ndim) : dense;
    params.y = op->gather ? dense : side_of(v, ndim);
    if (op->z.data)
        params.z = side_of(&op->z, ndim);
    shift(params.beta.batch_stride, ndim, 0);
    entered = gram_cuda_enter(g->device);
    status = gram_cuda_launch(g, &request,
                              gram_ceil_div(v->rows * v->cols, KRON_MOVE_THREADS * KRON_MOVE_EACH) *
                                  params.items,
                              KRON_MOVE_THREADS, &params);
    gram_cuda_leave(g->device, entered);
    return status;
}
