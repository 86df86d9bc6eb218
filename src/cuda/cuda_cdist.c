/*
 * cuda_cdist.c - gram_cdist and gram_kernel on the device: one launch, nothing waited for
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_ops.h"

enum {
    THREADS = 256 /* of cdist.cu */
};

static const int64_t most_blocks = INT32_MAX;

/* Memory that the device cannot read would be a fault in the middle of the work. */
static gram_status check_pointer(gram_context *g, const char *name, const struct gram_view *v)
{
    const struct cuda_device *device = g->device;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *values[] = {&type, &ordinal, &managed};

    if (!v->data)
        return GRAM_OK;
    TRY(gram_cuda_check(g, device->driver,
                        device->driver->pointer_attributes(sizeof which / sizeof *which, which,
                                                           values, (CUdeviceptr)(uintptr_t)v->data),
                        "cuPointerGetAttributes"));
    if (type == 0 && !device->reads_host)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is at %p, which is not memory of CUDA device %d", name,
                         (void *)v->data, device->index);
    if (type == CU_MEMORYTYPE_DEVICE && !managed && ordinal != device->index)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is in the memory of CUDA device %d, expected device %d", name, ordinal,
                         device->index);
    return GRAM_OK;
}

static gram_status launch(gram_context *g, struct cuda_cdist_plan *plan)
{
    struct cuda_device *device = g->device;
    unsigned blocks = (unsigned)(plan->tiles < most_blocks ? plan->tiles : most_blocks);
    void *arguments[] = {&plan->params};
    CUfunction function = gram_jit_recall(device, plan->number);

    if (!function) {
        char defines[CUDA_CDIST_DEFINES];
        const struct jit_request request = cuda_cdist_request(plan, defines);
        TRY(gram_jit_kernel(g, device, &request, &function));
    }
    return gram_cuda_check(g, device->driver,
                           device->driver->launch(function, blocks, 1, 1, THREADS, 1, 1, 0,
                                                  device->stream, arguments, NULL),
                           "cuLaunchKernel");
}

gram_status cuda_cdist(gram_context *g, const struct gram_cdist_op *op)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {0};
    gram_status status;
    bool entered;

    cuda_cdist_plan(op, device->processors, &plan);
    if (plan.tiles == 0)
        return GRAM_OK;
    TRY(check_pointer(g, "x", &op->x));
    TRY(check_pointer(g, "y", &op->y));
    TRY(check_pointer(g, "out", &op->out));
    entered = gram_cuda_enter(device);
    status = launch(g, &plan);
    gram_cuda_leave(device, entered);
    return status;
}

size_t cuda_cdist_workspace(const gram_context *g, const struct gram_cdist_op *op)
{
    (void)g;
    (void)op;
    return 0;
}
