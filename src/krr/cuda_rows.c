/*
 * cuda_rows.c - what a kernel machine does to its rows, one launch each
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "rows_params.h"
#include <stdio.h>

enum {
    MOST_BLOCKS = 1 << 16 /* beyond these, blocks loop */
};

static uint64_t number_of(int kernel, gram_dtype dtype)
{
    return CUDA_ROWS_VARIANTS + (uint64_t)(kernel * 2 + (dtype == GRAM_F64));
}

struct jit_request cuda_rows_request(int kernel, gram_dtype dtype, char defines[CUDA_ROWS_DEFINES])
{
    static const char *const names[] = {"rows_map", "rows_gather", "rows_combine", "rows_diagonal"};

    snprintf(defines, CUDA_ROWS_DEFINES, "-DREAL=%s -DKERNEL=%d",
             dtype == GRAM_F64 ? "double" : "float", kernel);
    return (struct jit_request){.file = "rows.cu",
                                .kernel = names[kernel],
                                .defines = defines,
                                .variant = number_of(kernel, dtype)};
}

/* Queues a kernel for `elements` elements; a block takes `each` of them. */
static gram_status launch(gram_context *g, int kernel, gram_dtype dtype, int64_t elements,
                          int64_t each, struct rows_params *params)
{
    struct cuda_device *device = g->device;
    int64_t blocks = gram_ceil_div(elements, each);
    const unsigned grid[] = {(unsigned)gram_least(blocks, MOST_BLOCKS), 1, 1};
    void *arguments[] = {params};
    CUfunction function = gram_jit_recall(device, number_of(kernel, dtype));
    gram_status status = GRAM_OK;
    bool entered;

    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(device);
    if (!function) {
        char defines[CUDA_ROWS_DEFINES];
        const struct jit_request request = cuda_rows_request(kernel, dtype, defines);
        status = gram_jit_kernel(g, device, &request, &function);
    }
    if (status == GRAM_OK)
        status = gram_cuda_queue(g, function, grid, (const unsigned[]){ROWS_THREADS, 1, 1}, 0,
                                 arguments);
    gram_cuda_leave(device, entered);
    return status;
}

gram_status cuda_rows_map(gram_context *g, const struct gram_rows_map_op *op)
{
    struct rows_params params = {.rows = op->rows,
                                 .width = op->width,
                                 .x = op->x,
                                 .out = op->z,
                                 .w = op->w,
                                 .full = op->full};

    return launch(g, ROWS_MAP, op->dtype, op->rows * op->width, ROWS_THREADS, &params);
}

gram_status cuda_rows_gather(gram_context *g, const struct gram_rows_gather_op *op)
{
    struct rows_params params = {.rows = op->count,
                                 .width = op->width,
                                 .x = op->x,
                                 .out = op->out,
                                 .index = (const long long *)op->index};

    return launch(g, ROWS_GATHER, op->dtype, op->count * op->width, ROWS_THREADS, &params);
}

gram_status cuda_rows_combine(gram_context *g, const struct gram_rows_combine_op *op)
{
    struct rows_params params = {.rows = op->rows,
                                 .width = op->terms,
                                 .x = op->kernel,
                                 .out = op->out,
                                 .alpha = op->alpha,
                                 .outputs = op->outputs,
                                 .ld = op->ld};

    return launch(g, ROWS_COMBINE, op->dtype, op->rows, ROWS_TILE, &params);
}

gram_status cuda_diagonal_add(gram_context *g, const struct gram_diagonal_op *op)
{
    struct rows_params params = {.rows = op->rows, .out = op->matrix, .w = op->add};

    return launch(g, ROWS_DIAGONAL, op->dtype, op->rows, ROWS_THREADS, &params);
}
