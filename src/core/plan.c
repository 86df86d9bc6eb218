/*
 * plan.c - gram_plan_describe, gram_plan_execute, gram_plan_destroy: of plans of every call
 *
 * SPDX-License-Identifier: MIT
 */
#include "plan.h"
#include <string.h>

gram_status gram_plan_allocate(gram_context *g, size_t bytes, gram_plan **plan)
{
    *plan = gram_alloc(g, bytes);
    if (!*plan)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(*plan, 0, bytes);
    (*plan)->g = g;
    (*plan)->bytes = bytes;
    return GRAM_OK;
}

gram_status gram_plan_describe(const gram_plan *plan, gram_plan_description *description)
{
    size_t size;

    TRY(gram_begin_as(plan ? plan->g : NULL, __func__, "plan"));
    if (!description)
        return gram_fail(plan->g, GRAM_INVALID_ARGUMENT, "description is NULL");
    size = description->size;
    if (size < sizeof size || size > sizeof *description)
        return gram_fail(plan->g, GRAM_INVALID_ARGUMENT,
                         "description.size is %zu, expected at most %zu", size,
                         sizeof *description);
    memcpy(description, &plan->description, size);
    description->size = size;
    return GRAM_OK;
}

gram_status gram_plan_execute(gram_plan *plan)
{
    TRY(gram_begin_as(plan ? plan->g : NULL, __func__, "plan"));
    return plan->execute(plan);
}

void gram_plan_destroy(gram_plan *plan)
{
    if (plan)
        gram_free(plan->g, plan, plan->bytes);
}
