/*
 * cuda_cdist.c - gram_cdist and gram_kernel on the device: launches, nothing waited for
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    THREADS = 256,    /* of cdist.cu */
    LISTED_BLOCKS = 2 /* a processor, for tiles whose number only the device knows */
};

static const int64_t most_blocks = INT32_MAX;

/* Compiles, if need be, with the caller's expression written as device code. */
static gram_status make_kernel(gram_context *g, const struct cuda_cdist_plan *plan,
                               const struct cuda_cdist_identity *identity, size_t bytes,
                               CUfunction *function)
{
    struct cuda_device *device = g->device;
    char defines[CUDA_CDIST_DEFINES], *text = NULL;
    struct jit_request request = cuda_cdist_request(plan, defines);
    gram_status status;

    request.identity = identity;
    request.identity_bytes = bytes;
    request.shared_bytes = cuda_cdist_shared(&plan->variant, device->arch);
    if (plan->expression) {
        text = gram_cuda_expression_text(plan->expression);
        if (!text)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the code of an expression");
        request.own = (struct cuda_source){.name = "pair_expression.cuh", .text = text};
    }
    status = gram_jit_kernel(g, device, &request, function);
    free(text);
    return status;
}

static gram_status find_kernel(gram_context *g, const struct cuda_cdist_plan *plan,
                               CUfunction *function)
{
    struct cuda_cdist_identity identity;
    const size_t bytes = cuda_cdist_identify(plan, &identity);

    *function = gram_jit_recall_own(g->device, plan->number, &identity, bytes);
    return *function ? GRAM_OK : make_kernel(g, plan, &identity, bytes, function);
}

gram_status cuda_cdist_launch(gram_context *g, struct cuda_cdist_plan *plan,
                              const struct square_list *list)
{
    struct cuda_device *device = g->device;
    int64_t most = list ? LISTED_BLOCKS * (int64_t)device->processors : most_blocks;
    const unsigned grid[] = {(unsigned)gram_least(plan->tiles, most), 1, 1};
    void *arguments[] = {&plan->params, &list};
    size_t shared = cuda_cdist_shared(&plan->variant, device->arch);
    CUfunction function;

    TRY(find_kernel(g, plan, &function));
    return gram_cuda_queue(g, function, grid, (const unsigned[]){THREADS, 1, 1}, shared, arguments);
}

/* Memory that the device cannot use would be a fault in the middle of the work. */
static gram_status check_pointers(gram_context *g, const struct gram_cdist_op *op)
{
    static const char *const names[GRAM_HYPERS] = {
        "p",
        "options.outer_power",
        "options.bandwidth",
        "options.exponent",
        "options.alpha",
        "options.gamma",
        "options.coef0",
        "options.degree",
        "options.regularization",
    };

    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    if (op->y.data != op->x.data)
        TRY(gram_cuda_check_pointer(g, "y", &op->y));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    for (int i = 0; i < GRAM_HYPERS; i++)
        TRY(gram_cuda_check_pointer(g, names[i], &op->hyper[i].tensor));
    for (int i = 0; i < op->parameters; i++) {
        char name[40];
        if (op->parameter[i].tensor.data) {
            snprintf(name, sizeof name, "options.parameters[%d].value", i);
            TRY(gram_cuda_check_pointer(g, name, &op->parameter[i].tensor));
        }
    }
    return GRAM_OK;
}

gram_status cuda_cdist_check_expression(gram_context *g, const struct gram_cdist_op *op)
{
    if (op->expression &&
        gram_cuda_expression_constants(op->expression, NULL, NULL) > PAIR_CONSTANTS)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.expression needs more than %d values that depend on parameters "
                         "alone, which the CUDA backend does not have",
                         PAIR_CONSTANTS);
    return GRAM_OK;
}

gram_status cuda_cdist_check(gram_context *g, const struct gram_cdist_op *op)
{
    TRY(cuda_cdist_check_expression(g, op));
    return check_pointers(g, op);
}

gram_status cuda_cdist_queue(gram_context *g, const struct gram_cdist_op *op)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {0};

    cuda_cdist_plan(op, device->processors, &plan);
    return plan.tiles > 0 ? cuda_cdist_launch(g, &plan, NULL) : GRAM_OK;
}

gram_status cuda_cdist_tiled(gram_context *g, const struct gram_cdist_op *op, int tm)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {.tile = tm};
    gram_status status;
    bool entered, squares, packs;

    TRY(cuda_cdist_check_expression(g, op));
    cuda_cdist_plan(op, device->processors, &plan);
    if (plan.tiles == 0)
        return GRAM_OK;
    squares = !tm && cuda_cdist_squares(g, device, &plan);
    packs = !tm && !squares && cuda_cdist_packs(g, device, &plan);
    if (!tm && !squares && !packs && (plan.tile = cuda_tuned_tile(g, op, &plan.variant)) != 0)
        cuda_cdist_plan(op, device->processors, &plan);
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(device);
    if (squares)
        status = cuda_cdist_square(g, &plan);
    else if (packs)
        status = cuda_cdist_packed(g, &plan);
    else if (cuda_cdist_split_bytes(op, device->processors) > 0)
        status = cuda_cdist_split(g, op, &plan);
    else
        status = cuda_cdist_launch(g, &plan, NULL);
    gram_cuda_leave(device, entered);
    return status;
}

gram_status cuda_cdist(gram_context *g, const struct gram_cdist_op *op)
{
    return cuda_cdist_tiled(g, op, 0);
}

size_t cuda_cdist_workspace(const gram_context *g, const struct gram_cdist_op *op)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {0};

    cuda_cdist_plan(op, device->processors, &plan);
    return cuda_cdist_squares(g, device, &plan) ? cuda_cdist_square_bytes(device, &plan)
           : cuda_cdist_packs(g, device, &plan) ? cuda_cdist_packed_bytes(&plan)
                                                : cuda_cdist_split_bytes(op, device->processors);
}
