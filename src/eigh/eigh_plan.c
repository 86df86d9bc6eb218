/*
 * eigh_plan.c - gram_eigh_plan: a call of gram_eigh checked beforehand, and what it will do
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh.h"
#include <stdio.h>
#include <string.h>

static const char *const drivers[] = {
    [GRAM_EIGH_DRIVER_AUTO] = "auto",
    [GRAM_EIGH_DRIVER_CLOSED_FORM] = "closed form",
    [GRAM_EIGH_DRIVER_JACOBI] = "Jacobi",
    [GRAM_EIGH_DRIVER_DIVIDE] = "divide and conquer",
    [GRAM_EIGH_DRIVER_BISECTION] = "a range of pairs",
    [GRAM_EIGH_DRIVER_KRYLOV] = "block Lanczos",
    [GRAM_EIGH_DRIVER_BATCHED] = "batched divide and conquer",
};

/* The drivers of a device that wait inside are cuSOLVER's for one matrix. */
static bool only_enqueues(const gram_context *g, gram_eigh_driver driver)
{
    return g->options.device.type == GRAM_CUDA &&
           (driver == GRAM_EIGH_DRIVER_CLOSED_FORM || driver == GRAM_EIGH_DRIVER_JACOBI ||
            driver == GRAM_EIGH_DRIVER_BATCHED);
}

static void put_in_words(const struct gram_eigh_planned *plan, gram_plan_description *d)
{
    static const char *const sources[] = {
        [GRAM_TIME_UNKNOWN] = "unknown",
        [GRAM_TIME_MEASURED] = "measured",
        [GRAM_TIME_ESTIMATED] = "estimated",
    };
    long long items = 1, n = plan->a.shape[plan->a.ndim - 1];

    for (int i = 0; i < plan->a.ndim - 2; i++)
        items *= plan->a.shape[i];
    snprintf(
        d->text, sizeof d->text,
        "%s of %lld x %lld x %lld %s on %s, %lld %s an item; scratch: %zu bytes of the device, "
        "%zu of the host; %s; time: %.3g ms, %s",
        drivers[d->driver], items, n, n, gram_dtype_name(plan->a.dtype),
        plan->plan.g->backend->name, (long long)plan->values.shape[plan->values.ndim - 1],
        plan->has_vectors ? "pairs" : "values", d->need.device_bytes, d->need.host_bytes,
        d->only_enqueues ? "only enqueues" : "keeps the calling thread", d->seconds * 1e3,
        sources[d->time_source]);
}

static gram_status execute(gram_plan *plan)
{
    struct gram_eigh_planned *p = (struct gram_eigh_planned *)plan;
    gram_tensor *vectors = p->has_vectors ? &p->vectors : NULL;
    gram_tensor *info = p->has_info ? &p->info : NULL;

    if (p->group.count)
        return gram_eigh_multi(&p->group, &p->a, &p->options, &p->values, vectors, info);
    return gram_eigh(plan->g, &p->a, &p->options, &p->values, vectors, info);
}

gram_status gram_eigh_keep(gram_context *g, const struct gram_eigh_call *call,
                           struct gram_eigh_planned **made)
{
    struct gram_eigh_planned *p;
    gram_plan *plan;

    TRY(gram_plan_allocate(g, sizeof *p, &plan));
    plan->execute = execute;
    p = *made = (struct gram_eigh_planned *)plan;
    p->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    if (call->options)
        memcpy(&p->options, call->options, call->options->size);
    p->options.size = sizeof p->options;
    p->a = *call->a;
    p->values = *call->values;
    p->has_vectors = call->vectors != NULL;
    if (call->vectors)
        p->vectors = *call->vectors;
    p->has_info = call->info != NULL;
    if (call->info)
        p->info = *call->info;
    if (p->options.found) {
        p->found = *p->options.found;
        p->options.found = &p->found;
    }
    return GRAM_OK;
}

gram_status gram_eigh_plan(gram_context *g, const gram_tensor *a, const gram_eigh_options *options,
                           gram_tensor *values, gram_tensor *vectors, gram_tensor *info,
                           gram_plan **plan)
{
    const struct gram_eigh_call call = {a, options, values, vectors, info};
    gram_plan_description d = {.size = sizeof d};
    struct gram_eigh_planned *made;

    TRY(gram_begin(g, __func__));
    if (!plan)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "plan is NULL");
    *plan = NULL;
    TRY(gram_eigh_query(g, &call, &d));
    TRY(gram_eigh_keep(g, &call, &made));
    if (d.driver != GRAM_EIGH_DRIVER_KRYLOV) /* which AUTO alone replaces where it gives up */
        made->options.driver = d.driver;
    d.only_enqueues = only_enqueues(g, d.driver);
    d.devices = 1;
    d.device_bytes[0] = d.need.device_bytes;
    put_in_words(made, &d);
    made->plan.description = d;
    *plan = &made->plan;
    return GRAM_OK;
}
