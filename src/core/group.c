/*
 * group.c - contexts that share the work of one call: their checks, their messages
 *
 * SPDX-License-Identifier: MIT
 */
#include "group.h"
#include <math.h>
#include <string.h>

static gram_status check_distinct(gram_context *first, const gram_group *group)
{
    for (int64_t i = 0; i < group->count; i++) {
        if (!group->contexts[i])
            return gram_fail(first, GRAM_INVALID_ARGUMENT, "group.contexts[%lld] is NULL",
                             (long long)i);
        for (int64_t j = 0; j < i; j++)
            if (group->contexts[i] == group->contexts[j])
                return gram_fail(first, GRAM_INVALID_ARGUMENT,
                                 "group.contexts[%lld] is group.contexts[%lld], expected distinct "
                                 "contexts",
                                 (long long)i, (long long)j);
        if (group->speeds && !(group->speeds[i] > 0 && group->speeds[i] < INFINITY))
            return gram_fail(first, GRAM_INVALID_ARGUMENT,
                             "group.speeds[%lld] is %g, expected more than 0, and finite",
                             (long long)i, group->speeds[i]);
    }
    return GRAM_OK;
}

gram_status gram_group_failed(const gram_group *group, const gram_context *g, gram_status status)
{
    gram_context *first = group->contexts[0];

    if (g != first)
        memcpy(first->message, g->message, sizeof first->message);
    return status;
}

gram_status gram_group_open(const gram_group *given, const char *call, gram_group *group)
{
    gram_context *first;

    *group = (gram_group){.size = sizeof *group};
    if (!given || given->size < offsetof(gram_group, speeds) || !given->contexts ||
        given->count < 1)
        return gram_begin_as(NULL, call, given ? "group.contexts" : "group");
    first = given->contexts[0];
    TRY(gram_begin_as(first, call, "group.contexts[0]"));
    TRY(gram_options_copy(first, group, sizeof *group, given));
    TRY(check_distinct(first, group));
    for (int64_t i = 0; i < group->count; i++) {
        gram_context *g = group->contexts[i];
        gram_status status = gram_context_synchronize(g);
        first->call = call;
        if (status != GRAM_OK)
            return gram_group_failed(group, g, status);
        g->call = call;
    }
    return GRAM_OK;
}

gram_status gram_group_check(gram_context *g, const char *name, const gram_tensor *t)
{
    struct gram_batch batch = {.count = 1};
    gram_tensor here;

    if (t->device.type != GRAM_CPU && t->device.type != GRAM_CUDA)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is on device %d:%d, expected a gram_device",
                         name, (int)t->device.type, (int)t->device.index);
    here = *t;
    here.device = g->options.device;
    return gram_batch_join(g, &batch, name, &here, 0);
}
