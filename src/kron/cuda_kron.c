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
#include "cuda/cuda_move.h"
#include <stdlib.h>
#include <string.h>

static const struct cuda_kernel expand = {"kron_expand.cu", "kron_expand"},
                                trace = {"kron_trace.cu", "kron_trace"};

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

/* Puts what belongs to the planes before the dimensions of the batch. */
static void put_first(long long *dims, int ndim, int64_t plane)
{
    memmove(dims + 1, dims, (size_t)ndim * sizeof *dims);
    dims[0] = plane;
}

/* A view whose batch begins with its planes. */
static struct move_side planes_side(const struct gram_view *v, int ndim)
{
    struct move_side side = {.view = cuda_device_view(v)};

    put_first(side.view.batch_stride, ndim, v->plane_stride);
    return side;
}

gram_status cuda_kron_move(gram_context *g, const struct gram_kron_move_op *op)
{
    const struct gram_view *v = &op->view;
    const int ndim = op->batch.ndim;
    const struct move_side planes = planes_side(v, ndim);
    /* The buffer is [plane][item][row][column] without gaps. */
    const struct move_side dense = {
        {.data = op->dense, .row_stride = v->cols, .col_stride = 1},
        v->rows * v->cols
    };
    struct move_params params = {.count = v->planes * op->batch.count,
                                 .rows = v->rows,
                                 .cols = v->cols,
                                 .to = op->gather ? dense : planes,
                                 .from = op->gather ? planes : dense,
                                 .alpha.value = 1,
                                 .beta = cuda_device_number(&op->beta)};
    gram_status status;
    bool entered;

    cuda_set_batch(&op->batch, &params.ndim, params.shape);
    put_first(params.shape, ndim, v->planes);
    put_first(params.beta.batch_stride, ndim, 0);
    params.ndim++;
    if (op->z.data)
        params.c = planes_side(&op->z, ndim);
    entered = gram_cuda_enter(g->device);
    status = cuda_move(g, v->dtype, NULL, &params);
    gram_cuda_leave(g->device, entered);
    return status;
}
