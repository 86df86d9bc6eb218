/*
 * cuda_cdist_grad.c - gram_cdist_grad on the device: one to three launches, nothing waited for
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cdist_grad.h"
#include "cuda/arena.h"

enum {
    SUM_THREADS = 256,   /* of cdist_grad_sum.cu */
    SUM_BLOCKS = 2048,   /* that keep every processor busy */
    RANGE_THREADS = 256, /* of cdist_grad_range.cu */
    MOST_THREADS = 256,  /* of cdist_grad_largest.cu */
    MOST_BLOCKS = 1 << 16,
};

static gram_status queue_ranges(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_params *params = &plan->params;
    const struct jit_request request = cuda_cdist_grad_range_request(plan);
    int64_t groups = gram_ceil_div(params->points, GRAD_RANGE_ROWS) +
                     gram_ceil_div(params->features, GRAD_RANGE_ROWS) +
                     gram_ceil_div(params->outputs, GRAD_RANGE_ROWS);
    int64_t parts = gram_ceil_div(params->centres, GRAD_RANGE_CENTRES);

    return gram_cuda_launch(g, &request, params->items * groups * parts, RANGE_THREADS, params);
}

static struct jit_request sum_request(const struct cuda_grad_plan *plan)
{
    return gram_cuda_plain_request(CUDA_VARIANT_GRAD_SUM,
                                   plan->variant.is_double ? GRAM_F64 : GRAM_F32);
}

static gram_status queue_sum(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_sum_params *params = &plan->sum;
    const struct jit_request request = sum_request(plan);
    int64_t all = params->items * params->outputs * params->features * params->points;
    int64_t blocks = gram_ceil_div(all, SUM_THREADS);

    return gram_cuda_launch(g, &request, blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS, SUM_THREADS,
                            params);
}

/* The plan's kernels side by side, if its first one is not there yet. */
static void compile_ahead(const gram_context *g, const struct cuda_grad_plan *plan)
{
    char defines[CUDA_GRAD_DEFINES];
    struct jit_request requests[3] = {cuda_cdist_grad_request(plan, defines)};
    int count = 1;

    if (plan->variant.step == GRAD_SQUARE)
        requests[count++] = cuda_cdist_grad_range_request(plan);
    if (plan->params.splits > 1)
        requests[count++] = sum_request(plan);
    gram_jit_ahead(g, g->device, requests, count);
}

static gram_status queue_tiles(gram_context *g, struct cuda_grad_plan *plan)
{
    char defines[CUDA_GRAD_DEFINES];
    struct jit_request request = {.variant = plan->number, .shared_bytes = plan->shared_bytes};

    if (!gram_jit_recall(g->device, plan->number))
        request = cuda_cdist_grad_request(plan, defines);
    return gram_cuda_launch(g, &request, plan->tiles, plan->threads, &plan->params);
}

/* p = infinity. */
static gram_status queue_largest(gram_context *g, struct cuda_grad_plan *plan, void *scratch)
{
    struct grad_params *params = &plan->params;
    const gram_dtype dtype = plan->variant.is_double ? GRAM_F64 : GRAM_F32;
    int64_t pairs = gram_ceil_div(params->items * params->centres * params->points, MOST_THREADS);
    int64_t sums = gram_ceil_div(
        params->items * params->outputs * params->features * params->points, MOST_THREADS);

    params->largest = scratch;
    if (pairs > 0)
        TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_GRAD_LARGEST, dtype,
                                   gram_least(pairs, MOST_BLOCKS), MOST_THREADS, params));
    return gram_cuda_launch_plain(g, CUDA_VARIANT_GRAD_WHERE, dtype, gram_least(sums, MOST_BLOCKS),
                                  MOST_THREADS, params);
}

gram_status cuda_cdist_grad_queue(gram_context *g, struct cuda_grad_plan *plan, void *scratch)
{
    bool square = plan->variant.step == GRAD_SQUARE, parts = plan->params.splits > 1;

    if (plan->tiles == 0)
        return GRAM_OK;
    if (plan->variant.step == GRAD_MOST)
        return queue_largest(g, plan, scratch);
    if (!gram_jit_recall(g->device, plan->number))
        compile_ahead(g, plan);
    plan->params.ranges = scratch;
    if (square)
        TRY(queue_ranges(g, plan));
    if (parts) {
        plan->params.out.data = (char *)scratch + plan->parts_at;
        plan->sum.parts = plan->params.out.data;
    }
    TRY(queue_tiles(g, plan));
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
