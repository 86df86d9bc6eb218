/*
 * plot_eigh_workspace.c - what plans say of the workspace of one matrix on 1, 2, 4, ... GPUs
 *
 * A plan reads no data: matrices are described at addresses where nothing is.
 *
 * SPDX-License-Identifier: MIT
 */
#include "plot_eigh_workspace.h"
#include <stdio.h>
#include <string.h>

enum {
    LEAST_ORDER = 1024,
    MOST_ORDER = 1 << 17,
    MOST_DEVICES = 16
};

/* The which'th of three tensors, apart from the others. */
static gram_tensor described(int which, int64_t rows, int64_t cols, gram_dtype dtype,
                             gram_device device)
{
    const uintptr_t address = ((uintptr_t)1 << 60) + ((uintptr_t)which << 56);
    gram_tensor t = gram_matrix(NULL, rows, cols, dtype);

    memcpy(&t.data, &address, sizeof t.data);
    t.device = device;
    return t;
}

/* Bytes of each device; 0 where no plan can be made. */
static size_t planned_bytes(const gram_group *group, int64_t n, gram_dtype dtype)
{
    gram_context *g = group->contexts[0];
    const gram_device device = gram_context_device(g);
    gram_tensor a = described(1, n, n, dtype, device), v = described(2, n, n, dtype, device);
    gram_tensor w = described(3, 1, n, dtype, device);
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_plan_description d = {.size = sizeof d};
    gram_plan *plan;
    gram_status status;

    w.ndim = 1, w.shape[0] = n, w.stride[0] = 1;
    options.driver = GRAM_EIGH_DRIVER_DIVIDE;
    status = group->count == 1 ? gram_eigh_plan(g, &a, &options, &w, &v, NULL, &plan)
                               : gram_eigh_multi_plan(group, &a, &options, &w, &v, NULL, &plan);
    if (status != GRAM_OK)
        return 0;
    status = gram_plan_describe(plan, &d);
    gram_plan_destroy(plan);
    return status == GRAM_OK ? d.device_bytes[0] : 0;
}

static void fill(const gram_group *group, gram_dtype dtype, struct workspace_track *to)
{
    *to = (struct workspace_track){.devices = (int)group->count};
    snprintf(to->name, sizeof to->name, "%d GPU%s", to->devices, to->devices > 1 ? "s" : "");
    for (int64_t n = LEAST_ORDER; n <= MOST_ORDER && to->count < WORKSPACE_POINTS; n *= 2) {
        size_t bytes = planned_bytes(group, n, dtype);
        if (bytes == 0)
            break;
        to->n[to->count] = (double)n;
        to->bytes[to->count++] = (double)bytes;
    }
}

enum exit_status workspace_plans(gram_context *g, gram_dtype dtype,
                                 struct workspace_track tracks[WORKSPACE_TRACKS], int *count,
                                 struct failure *why)
{
    gram_info info = {.size = sizeof info};
    gram_context *contexts[MOST_DEVICES] = {NULL};
    gram_group group = GRAM_GROUP_INIT;
    gram_status status = gram_context_info(g, &info);
    int made = 0;

    *count = 0;
    if (gram_context_device(g).type == GRAM_CPU)
        return CLI_OK;
    while (status == GRAM_OK && made < info.cuda_devices && made < MOST_DEVICES) {
        gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
        options.device = (gram_device){GRAM_CUDA, made};
        status = gram_context_create(&options, &contexts[made]);
        made += status == GRAM_OK;
    }
    group.contexts = contexts;
    for (int devices = 1; status == GRAM_OK && devices <= made; devices *= 2) {
        group.count = devices;
        fill(&group, dtype, &tracks[(*count)++]);
    }
    while (made > 0)
        gram_context_destroy(contexts[--made]);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, NULL);
}
