/*
 * cuda_kron.c - gram_kron, gram_kron_trace and the backend's kron_move on the device, one launch
 * each without scratch
 *
 * A move gathers parts of a product with Kronecker factors, and puts them back.  The planes of its
 * view become one more dimension of the batch, the first one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include "cuda/arena.h"
#include <stdlib.h>
#include <string.h>

static const struct cuda_kernel expand = {"kron_expand.cu", "kron_expand"},
                                trace = {"kron_trace.cu", "kron_trace"},
                                move = {"kron_move.cu", "kron_move"};

bool cuda_kron_is_whole(gram_dtype dtype)
{
    return dtype == GRAM_I32 || dtype == GRAM_I64;
}

/* ---- The product and its trace -------------------------------------------------------------- */

/* Describes the factors and out to the kernels of the product and of the trace. */
static void fill(const struct gram_batch *batch, const struct gram_view *factors, int count,
                 const struct gram_view *out, struct kron_expand_params *params)
{
    *params = (struct kron_expand_params){.items = batch->count,
                                          .out = cuda_device_view(out),
                                          .count = count,
                                          .rows = out->rows,
                                          .cols = out->cols};
    cuda_set_batch(batch, &params->ndim, params->shape);
    for (int f = 0; f < count; f++) {
        params->factor[f] = cuda_device_view(&factors[f]);
        params->factor_rows[f] = factors[f].rows;
        params->factor_cols[f] = factors[f].cols;
    }
}

static gram_status check_pointers(gram_context *g, const struct gram_view *factors, int count,
                                  const struct gram_view *out)
{
    for (int f = 0; f < count; f++)
        if (factors[f].rows > 0 && factors[f].cols > 0)
            TRY(gram_cuda_check_pointer(g, "factors", &factors[f]));
    return gram_cuda_check_pointer(g, "out", out);
}

/* Launches one of them.  Its blocks go on from tile to tile where there are more tiles than blocks
 * can be. */
static gram_status launch(gram_context *g, const struct cuda_variant *v, double blocks,
                          struct kron_expand_params *params)
{
    const struct cuda_grid grid = {.blocks = blocks < INT32_MAX ? (int64_t)blocks : INT32_MAX,
                                   .threads = KRON_EXPAND_THREADS};
    bool entered = gram_cuda_enter(g->device);
    gram_status status = cuda_launch(g, v, &grid, (void *[]){params});

    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_kron(gram_context *g, const struct gram_kron_op *op)
{
    struct gram_kron_op work = *op;
    struct kron_expand_params params;
    const gram_dtype dtype = op->out.dtype;
    const int kind = cuda_stored_as(dtype);
    struct cuda_variant v;

    if (work.batch.count == 0 || work.out.rows == 0 || work.out.cols == 0)
        return GRAM_OK;
    TRY(check_pointers(g, work.factor, work.count, &work.out));
    if (llabs(work.out.row_stride) <
        llabs(work.out.col_stride)) { /* neighbouring threads write neighbours */
        gram_view_transpose(&work.out);
        for (int f = 0; f < work.count; f++)
            gram_view_transpose(&work.factor[f]);
    }
    fill(&op->batch, work.factor, work.count, &work.out, &params);
    cuda_variant(&v, &expand,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"WHOLE", cuda_kron_is_whole(dtype)},
                              {"X_KIND", kind}, {"Y_KIND", kind}, {"F_KIND", kind},
                              {"FACTORS", work.count}));
    return launch(g, &v,
                  (double)gram_ceil_div(work.out.rows, KRON_EXPAND_ROWS) *
                      (double)gram_ceil_div(work.out.cols, KRON_EXPAND_THREADS) *
                      (double)work.batch.count,
                  &params);
}

gram_status cuda_kron_trace(gram_context *g, const struct gram_kron_number_op *op)
{
    struct kron_expand_params params;
    const gram_dtype dtype = op->out.dtype;
    struct cuda_variant v;

    if (op->batch.count == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op->factor, op->count, &op->out));
    fill(&op->batch, op->factor, op->count, &op->out, &params);
    cuda_variant(&v, &trace,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype)},
                              {"SUM", cuda_type(cuda_kron_is_whole(dtype) ? GRAM_I64 : GRAM_F64)}));
    return launch(g, &v, (double)op->batch.count, &params);
}

/* ---- Parts of a product --------------------------------------------------------------------- */

/* Adds the stride of planes in front of those of the batch. */
static void add_planes(long long *stride, int ndim, int64_t plane)
{
    memmove(stride + 1, stride, (size_t)ndim * sizeof *stride);
    stride[0] = plane;
}

/* A view whose batch begins with its planes. */
static struct device_view planes_side(const struct gram_view *v, int ndim)
{
    struct device_view side = cuda_device_view(v);

    add_planes(side.batch_stride, ndim, v->plane_stride);
    return side;
}

/* The side of a dense buffer: [plane][item][row][column] without gaps. */
static struct device_view dense_side(const struct gram_kron_move_op *op)
{
    const struct gram_view *v = &op->view;
    struct device_view side = {.data = op->dense, .row_stride = v->cols, .col_stride = 1};
    int64_t step = v->rows * v->cols;

    for (int d = op->batch.ndim - 1; d >= 0; d--) {
        side.batch_stride[d + 1] = step;
        step *= op->batch.shape[d];
    }
    side.batch_stride[0] = step;
    return side;
}

gram_status cuda_kron_move(gram_context *g, const struct gram_kron_move_op *op)
{
    const struct gram_view *v = &op->view;
    const int ndim = op->batch.ndim;
    const struct device_view dense = dense_side(op);
    struct kron_params params = {.ndim = ndim + 1,
                                 .items = v->planes * op->batch.count,
                                 .alpha = {.value = 1},
                                 .beta = cuda_device_number(&op->beta),
                                 .rows = v->rows,
                                 .outs = v->cols,
                                 .last = 1};
    struct cuda_grid grid = {.threads = KRON_MOVE_THREADS};
    struct cuda_variant kernel;
    gram_status status;
    bool entered;

    if (params.items == 0 || v->rows == 0 || v->cols == 0)
        return GRAM_OK;
    params.shape[0] = v->planes;
    for (int d = 0; d < ndim; d++)
        params.shape[d + 1] = op->batch.shape[d];
    params.x = op->gather ? planes_side(v, ndim) : dense;
    params.y = op->gather ? dense : planes_side(v, ndim);
    if (op->z.data)
        params.z = planes_side(&op->z, ndim);
    add_planes(params.beta.batch_stride, ndim, 0);
    grid.blocks =
        gram_ceil_div(v->rows * v->cols, KRON_MOVE_THREADS * KRON_MOVE_EACH) * params.items;
    cuda_variant(&kernel, &move,
                 CUDA_OPTIONS({"REAL", cuda_type(v->dtype)},
                              {"WHOLE", cuda_kron_is_whole(v->dtype)}, {"X_KIND", DEVICE_REAL},
                              {"Y_KIND", DEVICE_REAL}, {"F_KIND", DEVICE_REAL}));
    entered = gram_cuda_enter(g->device);
    status = cuda_launch(g, &kernel, &grid, (void *[]){&params});
    gram_cuda_leave(g->device, entered);
    return status;
}
