/*
 * kron_matmul_plan.c - gram_kron_matmul_plan: a product checked once and computed for many data
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/plan.h"
#include "kron.h"
#include <math.h>
#include <stdio.h>

struct planned {
    gram_plan plan;
    gram_kron_options options;
    gram_tensor x, y, z, alpha, beta, factor[GRAM_MAX_FACTORS];
    int64_t count; /* of factors */
    struct gram_kron_matmul_op op;
};

/* Checks the tensors that p keeps and describes the product of them. */
static gram_status describe(struct planned *p)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    const struct gram_kron_args a = {.x = &p->x, .factors = factors, .count = p->count, .y = &p->y};
    gram_kron_options o = p->options;

    for (int64_t i = 0; i < p->count; i++)
        factors[i] = &p->factor[i];
    if (o.z)
        o.z = &p->z;
    if (o.alpha.tensor)
        o.alpha.tensor = &p->alpha;
    if (o.beta.tensor)
        o.beta.tensor = &p->beta;
    return gram_kron_matmul_describe(p->plan.g, &a, &o, &p->op);
}

static gram_status execute(gram_plan *plan)
{
    struct planned *p = (struct planned *)plan;

    plan->g->call = "gram_plan_execute";
    return plan->g->backend->kron_matmul(plan->g, &p->op);
}

static void put_in_words(struct planned *p)
{
    gram_plan_description *d = &p->plan.description;
    const struct gram_kron_matmul_op *op = &p->op;
    int at =
        snprintf(d->text, sizeof d->text, "%lld x %lld rows of %s times",
                 (long long)op->batch.count, (long long)op->x.rows, gram_dtype_name(op->x.dtype));

    for (int i = 0; i < op->count && at < (int)sizeof d->text; i++)
        at += snprintf(d->text + at, sizeof d->text - (size_t)at, " %lld x %lld",
                       (long long)op->factor[i].rows, (long long)op->factor[i].cols);
    if (at < (int)sizeof d->text)
        snprintf(d->text + at, sizeof d->text - (size_t)at,
                 " on %s; scratch: %zu bytes of the device, %zu of the host",
                 p->plan.g->backend->name, d->need.device_bytes, d->need.host_bytes);
}

/* Copies the arguments, which have been checked. */
static void keep(struct planned *p, const struct gram_kron_args *a, const gram_kron_options *o)
{
    p->options = *o;
    p->x = *a->x;
    p->y = *a->y;
    p->count = a->count;
    for (int64_t i = 0; i < a->count; i++)
        p->factor[i] = *a->factors[i];
    if (o->z)
        p->z = *o->z;
    if (o->alpha.tensor)
        p->alpha = *o->alpha.tensor;
    if (o->beta.tensor)
        p->beta = *o->beta.tensor;
}

gram_status gram_kron_matmul_plan(gram_context *g, const gram_tensor *x,
                                  const gram_tensor *const *factors, int64_t count,
                                  const gram_kron_options *options, gram_tensor *y,
                                  gram_plan **plan)
{
    const struct gram_kron_args a = {.x = x, .factors = factors, .count = count, .y = y};
    gram_plan_description d = {.size = sizeof d, .seconds = NAN, .devices = 1};
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    struct gram_kron_matmul_op op;
    gram_plan *made;

    TRY(gram_begin(g, __func__));
    if (!plan)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "plan is NULL");
    *plan = NULL;
    TRY(gram_options_copy(g, &o, sizeof o, options));
    TRY(gram_kron_check_alone(g, &o));
    TRY(gram_kron_matmul_describe(g, &a, &o, &op));
    TRY(g->backend->kron_matmul_workspace(g, &op, &d.device_bytes[0]));
    TRY(gram_plan_allocate(g, sizeof(struct planned), &made));
    made->execute = execute;
    keep((struct planned *)made, &a, &o);
    ((struct planned *)made)->op = op;
    d.need = gram_workspace_on(g, d.device_bytes[0]);
    d.device_bytes[0] = d.need.device_bytes;
    d.only_enqueues = g->options.device.type != GRAM_CPU;
    made->description = d;
    put_in_words((struct planned *)made);
    *plan = made;
    return GRAM_OK;
}

/* ---- Other memory -------------------------------------------------------------------------- */

/* Takes the memory of tensor, which has to be laid out as *kept; NULL leaves *kept as it is. */
static gram_status replace(gram_context *g, const char *name, const gram_tensor *tensor,
                           gram_tensor *kept)
{
    gram_tensor other;

    if (!tensor)
        return GRAM_OK;
    other = *tensor;
    other.data = kept->data;
    if (!gram_tensors_same(&other, kept))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s differs from the planned one in dtype, device, shape or strides",
                         name);
    kept->data = tensor->data;
    return GRAM_OK;
}

gram_status gram_kron_matmul_replace(gram_plan *plan, const gram_tensor *x,
                                     const gram_tensor *const *factors, gram_tensor *y)
{
    struct planned other;
    char name[GRAM_FACTOR_NAME_BYTES];

    TRY(gram_begin_as(plan ? plan->g : NULL, __func__, "plan"));
    if (plan->execute != execute)
        return gram_fail(plan->g, GRAM_INVALID_ARGUMENT,
                         "plan is of another call, expected one of gram_kron_matmul_plan");
    other = *(struct planned *)plan;
    TRY(replace(plan->g, "x", x, &other.x));
    for (int64_t i = 0; factors && i < other.count; i++)
        TRY(replace(plan->g, gram_factor_name(name, (int)i), factors[i], &other.factor[i]));
    TRY(replace(plan->g, "y", y, &other.y));
    if (other.options.z && gram_tensors_same(&other.z, &((struct planned *)plan)->y))
        other.z = other.y; /* y += */
    TRY(describe(&other));
    *(struct planned *)plan = other;
    return GRAM_OK;
}
