/*
 * cuda_cdist_grad.c - gram_cdist_grad on the device: one to three launches, nothing waited for
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cdist_grad.h"
#include "arena.h"

enum {
    SUM_THREADS = 256,  /* of cdist_grad_sum.cu */
    SUM_BLOCKS = 2048,  /* that keep every processor busy */
    MEAN_THREADS = 256, /* of cdist_grad_mean.cu */
};

static gram_status queue_means(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_params *params = &plan->params;
    char defines[CUDA_GRAD_DEFINES];
    const struct jit_request request = cuda_cdist_grad_mean_request(plan, defines);
    int64_t blocks = params->items * gram_ceil_div(params->features, GRAD_MEAN_ROWS) *
                     gram_ceil_div(params->centres, GRAD_MEAN_CENTRES);

    return gram_cuda_launch(g, &request, blocks, MEAN_THREADS, params);
}

static gram_status queue_sum(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_sum_params *params = &plan->sum;
    int64_t all = params->items * params->outputs * params->features * params->points;
    int64_t blocks = gram_ceil_div(all, SUM_THREADS);

    return gram_cuda_launch_plain(g, CUDA_VARIANT_GRAD_SUM,
                                  plan->variant.is_double ? GRAM_F64 : GRAM_F32,
                                  blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS, SUM_THREADS, params);
}

gram_status cuda_cdist_grad_queue(gram_context *g, struct cuda_grad_plan *plan, void *scratch)
{
    bool square = plan->variant.step == GRAD_SQUARE, parts = plan->params.splits > 1;
    char defines[CUDA_GRAD_DEFINES];
    struct jit_request request;

    if (plan->tiles == 0)
        return GRAM_OK;
    plan->params.means = scratch;
    if (square)
        TRY(queue_means(g, plan));
    if (parts) {
        plan->params.out.data = (char *)scratch + plan->parts_at;
        plan->sum.parts = plan->params.out.data;
    }
    request = cuda_cdist_grad_request(plan, defines);
    TRY(gram_cuda_launch(g, &request, plan->tiles, square ? 256 : 128, &plan->params));
    return parts ? queue_sum(g, plan) : GRAM_OK;
}

gram_status cuda_cdist_grad_check(gram_context *g, const struct gram_cdist_grad_op *op)
{
    TRY(gram_cuda_check_pointer(g, "a", &op->a));
    TRY(gram_cuda_check_pointer(g, "b", &op->b));
    TRY(gram_cuda_check_pointer(g, "c", &op->c));
    TRY(gram_cuda_check_pointer(g, "d", &op->d));
    TRY(gram_cuda_check_pointer(g, "p", &op->p.tensor));
    return gram_cuda_check_pointer(g, "out", &op->out);
}

gram_status cuda_cdist_grad(gram_context *g, const struct gram_cdist_grad_op *op)
{
    const struct cuda_device *device = g->device;
    struct cuda_grad_plan plan = {0};
    gram_status status;
    void *scratch;
    bool entered;

    cuda_cdist_grad_plan(op, false, device->processors, &plan);
    if (plan.tiles == 0)
        return GRAM_OK;
    TRY(cuda_cdist_grad_check(g, op));
    entered = gram_cuda_enter(device);
    status = gram_cuda_scratch(g, plan.bytes, &scratch);
    if (status == GRAM_OK)
        status = cuda_cdist_grad_queue(g, &plan, scratch);
    gram_cuda_leave(device, entered);
    return status;
}

size_t cuda_cdist_grad_workspace(const gram_context *g, const struct gram_cdist_grad_op *op)
{
    const struct cuda_device *device = g->device;
    struct cuda_grad_plan plan = {0};

    cuda_cdist_grad_plan(op, false, device->processors, &plan);
    return plan.bytes;
}
