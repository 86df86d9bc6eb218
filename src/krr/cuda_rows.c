/*
 * cuda_rows.c - what a kernel machine does to its rows, one launch each
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "rows_params.h"

enum {
    MOST_BLOCKS = 1 << 16 /* beyond these, blocks loop */
};

void cuda_rows_variant(int kernel, gram_dtype dtype, struct cuda_variant *v)
{
    static const struct cuda_kernel kernels[] = {
        {"rows.cu",      "rows_map"},
        {"rows.cu",   "rows_gather"},
        {"rows.cu",  "rows_combine"},
        {"rows.cu", "rows_diagonal"}
    };

    cuda_variant(v, &kernels[kernel], CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"KERNEL", kernel}));
}

/* Queues a kernel for `elements` elements; a block takes `each` of them. */
static gram_status launch(gram_context *g, int kernel, gram_dtype dtype, int64_t elements,
                          int64_t each, struct rows_params *params)
{
    const struct cuda_grid grid = {.blocks = gram_least(gram_ceil_div(elements, each), MOST_BLOCKS),
                                   .threads = ROWS_THREADS};
    struct cuda_variant v;
    gram_status status;
    bool entered;

    if (grid.blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    cuda_rows_variant(kernel, dtype, &v);
    status = cuda_launch(g, &v, &grid, (void *[]){params});
    gram_cuda_leave(g->device, entered);
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
