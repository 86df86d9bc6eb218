/*
 * cuda_cg.c - what conjugate gradients do to their columns, one launch a step
 *
 * SPDX-License-Identifier: MIT
 */
#include "cg_params.h"
#include "cuda/cuda_ops.h"

static const struct cuda_kernel cg_step = {"cg_step.cu", "cg_step"},
                                cg_precondition = {"cg_precondition.cu", "cg_precondition"},
                                rows_add = {"rows_add.cu", "rows_add"};

enum {
    MOST_BLOCKS = 1 << 16 /* beyond these, blocks loop */
};

_Static_assert(CG_START == GRAM_CG_START && CG_RESIDUAL == GRAM_CG_RESIDUAL &&
                   CG_RESTART == GRAM_CG_RESTART && CG_DESCEND == GRAM_CG_DESCEND &&
                   CG_TURN == GRAM_CG_TURN,
               "the steps of cg_params.h are those of backend.h");

static gram_status launch(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                          int64_t blocks, unsigned threads, void *params)
{
    bool entered;
    gram_status status;

    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = cuda_launch_plain(g, kernel, dtype, gram_least(blocks, MOST_BLOCKS), threads, params);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_cg_step(gram_context *g, const struct gram_cg_op *op)
{
    struct cg_params params = {.step = op->step,
                               .n = op->n,
                               .columns = op->columns,
                               .b = op->b,
                               .x = op->x,
                               .r = op->r,
                               .z = op->z,
                               .d = op->d,
                               .product = op->product,
                               .ridge = op->ridge,
                               .norm_b = op->norm_b,
                               .norm_r = op->norm_r,
                               .rz = op->rz};

    return launch(g, &cg_step, op->dtype, op->columns, CG_STEP_THREADS, &params);
}

gram_status cuda_cg_precondition(gram_context *g, const struct gram_cg_precondition_op *op)
{
    struct cg_precondition_params params = {.n = op->n,
                                            .columns = op->columns,
                                            .rank = op->rank,
                                            .rows = op->rows,
                                            .r = op->r,
                                            .z = op->z,
                                            .weight = op->weight,
                                            .keep = op->keep,
                                            .lambda = op->lambda};

    return launch(g, &cg_precondition, op->dtype, gram_ceil_div(op->n, CG_THREADS), CG_THREADS,
                  &params);
}

gram_status cuda_rows_add(gram_context *g, const struct gram_rows_add_op *op)
{
    struct rows_add_params params = {
        .count = op->count, .out = op->out, .from = op->from, .keep = op->keep, .scale = op->scale};

    return launch(g, &rows_add, op->dtype, gram_ceil_div(op->count, CG_THREADS), CG_THREADS,
                  &params);
}
