/*
 * eigh_multi_alone.c - whether one device alone does what several are asked for, and faster
 *
 * cusolverMg gains size, not time: it was slower than one device at every order that fits on one
 * (bench/results/2026-11-22-h200x2-eigh.md).
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_multi_host.h"
#include <math.h>
#include <stdio.h>

/* Seconds of all pairs with vectors, both measured in one run: two H200 through cusolverMg, one by
 * Xsyevd. */
struct point {
    gram_dtype dtype;
    double n, together, alone;
};

static const struct point points[] = {
    {GRAM_F32, 10000, 2.22, 0.711},
    {GRAM_F32, 20000, 7.50,  3.60},
};

static const double usable = 0.95; /* of a device's memory, beside what its driver takes */

/* The last point that is no larger, else the first; NULL: nothing was measured. */
static const struct point *point_of(const struct gram_eigh_op *op)
{
    const struct point *found = NULL;

    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (points[i].dtype == op->a.dtype && (!found || points[i].n <= (double)op->a.rows))
            found = &points[i];
    return found;
}

/* Bytes of a tensor that is not on the device. */
static double bytes_there(const gram_tensor *t, gram_device device)
{
    double bytes = (double)gram_dtype_size(t->dtype);

    for (int d = 0; d < t->ndim; d++)
        bytes *= (double)t->shape[d];
    return t->device.type == device.type && t->device.index == device.index ? 0 : bytes;
}

/* What gram_eigh would take of one device: its scratch, and tensors that are not there yet. */
static gram_status alone_bytes(gram_context *g, const struct gram_eigh_call *call, double *bytes)
{
    gram_plan_description d = {.size = sizeof d};
    const gram_device device = g->options.device;
    gram_tensor a = *call->a, values = *call->values, vectors, found;
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    struct gram_eigh_call there = {&a, &o, &values, NULL, NULL};

    TRY(gram_options_copy(g, &o, sizeof o, call->options));
    o.driver = GRAM_EIGH_DRIVER_DIVIDE;
    a.device = values.device = device;
    *bytes = bytes_there(call->a, device) + bytes_there(call->values, device);
    if (call->vectors) {
        vectors = *call->vectors;
        vectors.device = device;
        there.vectors = &vectors;
        *bytes += bytes_there(call->vectors, device);
    }
    if (o.found) {
        found = *o.found;
        found.device = device;
        o.found = &found;
    }
    TRY(gram_eigh_query(g, &there, &d));
    *bytes += (double)d.need.device_bytes;
    return GRAM_OK;
}

gram_status gram_eigh_multi_alone(const gram_group *group, const struct gram_eigh_call *call,
                                  const struct gram_eigh_op *op, gram_plan_description *d)
{
    const struct point *p = point_of(op);
    double n = (double)op->a.rows, bytes;

    d->refused = 0;
    d->reason[0] = '\0';
    d->seconds = NAN;
    d->time_source = GRAM_TIME_UNKNOWN;
    if (!p || op->a.rows == 0 || op->batch.count == 0)
        return GRAM_OK;
    d->time_source = GRAM_TIME_ESTIMATED;
    d->seconds = (double)op->batch.count * p->together * pow(n / p->n, 3);
    for (int64_t i = 0; i < group->count && !d->refused; i++) {
        gram_context *g = group->contexts[i];
        gram_info info = {.size = sizeof info};
        const char *name = g->call;
        gram_status status = gram_context_info(g, &info);
        g->call = name;
        if (status == GRAM_OK)
            status = alone_bytes(g, call, &bytes);
        if (status == GRAM_UNSUPPORTED || status == GRAM_OUT_OF_MEMORY)
            continue; /* it cannot */
        if (status != GRAM_OK)
            return status;
        d->refused = bytes <= usable * (double)info.device_memory_total && p->alone < p->together;
        if (d->refused)
            snprintf(d->reason, sizeof d->reason,
                     "one device can hold it (%.3g GB of %.3g) and is faster: n = %.0f in %s took "
                     "one H200 %.3g s and two through cusolverMg %.3g s",
                     bytes * 1e-9, (double)info.device_memory_total * 1e-9, p->n,
                     gram_dtype_name(p->dtype), p->alone, p->together);
    }
    return GRAM_OK;
}
