/*
 * cuda_kron.c - gram_kron and gram_kron_trace on the device: one launch each, without scratch
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include "cuda/arena.h"
#include "kron_algebra_params.h"
#include <stdio.h>
#include <stdlib.h>

static void fill(const struct gram_batch *batch, const struct gram_view *factors, int count,
                 const struct gram_view *out, struct kron_expand_params *params)
{
    *params = (struct kron_expand_params){.ndim = batch->ndim,
                                          .items = batch->count,
                                          .out = cuda_kron_side(out),
                                          .count = count,
                                          .rows = out->rows,
                                          .cols = out->cols};
    for (int d = 0; d < batch->ndim; d++)
        params->shape[d] = batch->shape[d];
    for (int f = 0; f < count; f++) {
        params->factor[f] = cuda_kron_side(&factors[f]);
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

static gram_status launch(gram_context *g, const struct jit_request *request, double blocks,
                          struct kron_expand_params *params)
{
    bool entered = gram_cuda_enter(g->device);
    gram_status status = gram_cuda_launch(
        g, request, blocks < INT32_MAX ? (int64_t)blocks : INT32_MAX, KRON_EXPAND_THREADS, params);

    gram_cuda_leave(g->device, entered);
    return status;
}

struct jit_request cuda_kron_expand_request(gram_dtype dtype, int count,
                                            char defines[CUDA_KRON_DEFINES])
{
    int kind = cuda_kron_kind(dtype);

    snprintf(defines, CUDA_KRON_DEFINES,
             "-DREAL=%s -DWHOLE=%d -DX_KIND=%d -DY_KIND=%d -DF_KIND=%d -DFACTORS=%d",
             cuda_kron_real(dtype), dtype == GRAM_I32 || dtype == GRAM_I64, kind, kind, kind,
             count);
    return (struct jit_request){.file = "kron_expand.cu",
                                .kernel = "kron_expand",
                                .defines = defines,
                                .variant = CUDA_KRON_EXPAND_VARIANTS + (uint64_t)dtype * 32 +
                                           (uint64_t)count};
}

gram_status cuda_kron(gram_context *g, const struct gram_kron_op *op)
{
    struct gram_kron_op turned = *op;
    struct kron_expand_params params;
    char defines[CUDA_KRON_DEFINES];
    const struct jit_request request =
        cuda_kron_expand_request(turned.out.dtype, turned.count, defines);

    if (turned.batch.count == 0 || turned.out.rows == 0 || turned.out.cols == 0)
        return GRAM_OK;
    TRY(check_pointers(g, turned.factor, turned.count, &turned.out));
    if (llabs(turned.out.row_stride) <
        llabs(turned.out.col_stride)) { /* neighbouring threads write neighbours */
        gram_view_transpose(&turned.out);
        for (int f = 0; f < turned.count; f++)
            gram_view_transpose(&turned.factor[f]);
    }
    fill(&op->batch, turned.factor, turned.count, &turned.out, &params);
    return launch(g, &request,
                  (double)gram_ceil_div(turned.out.rows, KRON_EXPAND_ROWS) *
                      (double)gram_ceil_div(turned.out.cols, KRON_EXPAND_THREADS) *
                      (double)turned.batch.count,
                  &params);
}

size_t cuda_kron_workspace(const gram_context *g, const struct gram_kron_op *op)
{
    (void)g;
    (void)op;
    return 0;
}

struct jit_request cuda_kron_trace_request(gram_dtype dtype, char defines[CUDA_KRON_DEFINES])
{
    snprintf(defines, CUDA_KRON_DEFINES, "-DREAL=%s -DSUM=%s", cuda_kron_real(dtype),
             dtype == GRAM_I32 || dtype == GRAM_I64 ? "whole64" : "double");
    return (struct jit_request){.file = "kron_trace.cu",
                                .kernel = "kron_trace",
                                .defines = defines,
                                .variant = CUDA_KRON_EXPAND_VARIANTS + (uint64_t)dtype * 32};
}

gram_status cuda_kron_trace(gram_context *g, const struct gram_kron_number_op *op)
{
    struct kron_expand_params params;
    char defines[CUDA_KRON_DEFINES];
    const struct jit_request request = cuda_kron_trace_request(op->out.dtype, defines);

    if (op->batch.count == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op->factor, op->count, &op->out));
    fill(&op->batch, op->factor, op->count, &op->out, &params);
    return launch(g, &request, (double)op->batch.count, &params);
}
