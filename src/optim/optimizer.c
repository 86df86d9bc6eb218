/*
 * optimizer.c - optimizers to their users: a step, its directions, options between steps, the state
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_counts.h"
#include <string.h>

gram_status gram_optimizer_check_call(gram_context *g, const gram_optimizer *o)
{
    if (!o)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the optimizer is NULL");
    if (!g->backend->optimizer_step)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer it", g->backend->name);
    if (o->owner ? o->owner != g : g->backend->optimizer_open != NULL)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "the optimizer belongs to another context: one with state on a GPU is of "
                         "the context that made it");
    return GRAM_OK;
}

/* ---- Steps -------------------------------------------------------------------------------- */

static gram_status check_failures(gram_context *g, const gram_optimizer *o)
{
    for (int64_t i = 0; i < o->blocks; i++)
        if (o->failures[i] > o->options.failures)
            return gram_fail(g, GRAM_NUMERICAL,
                             "block %lld of parameters[%lld] could not take a root %lld times in a "
                             "row, options.failures is %d",
                             (long long)o->block[i].number, (long long)o->block[i].parameter,
                             (long long)o->failures[i], o->options.failures);
    return GRAM_OK;
}

static gram_status check_report(gram_context *g, const gram_optimizer_report *report)
{
    if (report && (report->size < sizeof report->size || report->size > sizeof *report))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "report.size is %zu, expected at most %zu",
                         report->size, sizeof *report);
    return GRAM_OK;
}

static gram_status run(gram_context *g, struct gram_optimizer_op *op, gram_optimizer_report *report)
{
    gram_optimizer_report told = {.first_failed = -1};

    TRY(gram_optimizer_check(g, op));
    TRY(check_failures(g, op->optimizer));
    TRY(check_report(g, report));
    op->report = &told;
    op->asked = report != NULL;
    TRY(g->backend->optimizer_step(g, op));
    if (report) {
        told.size = report->size;
        memcpy(report, &told, told.size);
    }
    return GRAM_OK;
}

gram_status gram_optimizer_direction(gram_context *g, gram_optimizer *o,
                                     const gram_tensor *const *parameters,
                                     const gram_tensor *const *gradients,
                                     gram_tensor *const *directions, gram_optimizer_report *report)
{
    struct gram_optimizer_op op = {
        .optimizer = o, .parameters = parameters, .gradients = gradients, .directions = directions};

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    if (!directions && o->parameters > 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "directions is NULL, expected %lld tensors",
                         (long long)o->parameters);
    return run(g, &op, report);
}

gram_status gram_optimizer_step(gram_context *g, gram_optimizer *o, gram_tensor *const *parameters,
                                const gram_tensor *const *gradients, gram_optimizer_report *report)
{
    struct gram_optimizer_op op = {.optimizer = o,
                                   .parameters = (const gram_tensor *const *)parameters,
                                   .gradients = gradients,
                                   .updated = parameters};

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    if (o->options.ranks > 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.ranks is %lld: add the directions of all ranks up "
                         "(gram_optimizer_direction) and apply their sum",
                         (long long)o->options.ranks);
    return run(g, &op, report);
}

gram_status gram_optimizer_workspace(gram_context *g, const gram_optimizer *o, gram_workspace *need)
{
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    TRY(gram_check_need(g, need));
    TRY(g->backend->optimizer_workspace(g, o, &bytes));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* ---- Options ------------------------------------------------------------------------------ */

static gram_status check_fixed(gram_context *g, const gram_optimizer_options *was,
                               const gram_optimizer_options *is)
{
    const struct {
        const char *name;
        bool same;
    } fixed[] = {
        {                    "method",                   was->method == is->method},
        {                     "graft",                     was->graft == is->graft},
        {                     "block",                     was->block == is->block},
        {                     "merge",                   !was->merge == !is->merge},
        {                     "state",                     was->state == is->state},
        {                    "packed",                 !was->packed == !is->packed},
        {                      "rank",                       was->rank == is->rank},
        {                     "ranks",                     was->ranks == is->ranks},
        {   "beta1 (whether it is 0)",       (was->beta1 == 0) == (is->beta1 == 0)},
        {   "beta3 (whether it is 0)",       (was->beta3 == 0) == (is->beta3 == 0)},
        {"momentum (whether it is 0)", (was->momentum == 0) == (is->momentum == 0)},
    };

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!fixed[i].same)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.%s cannot change: it decides what state there is",
                             fixed[i].name);
    return GRAM_OK;
}

/* The blocks under other options: all are described (write: and kept). */
static gram_status describe_blocks(gram_context *g, const gram_optimizer *o, bool write)
{
    const struct gram_optimizer_method_front *front = gram_optimizer_front(o->options.method);

    for (int64_t i = 0; i < o->blocks; i++) {
        struct gram_optimizer_block b = o->block[i];
        if (!gram_optimizer_owns(o, &b))
            continue;
        TRY(front->describe(g, o, &o->parameter[b.parameter], &b));
        if (write) {
            o->block[i].numerator = b.numerator;
            o->block[i].denominator = b.denominator;
        }
    }
    return GRAM_OK;
}

gram_status gram_optimizer_set(gram_context *g, gram_optimizer *o,
                               const gram_optimizer_options *options)
{
    struct gram_optimizer next;
    bool forgive;

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    next = *o;
    TRY(gram_optimizer_take_options(g, options, &next.options));
    TRY(check_fixed(g, &o->options, &next.options));
    TRY(describe_blocks(g, &next, false));
    TRY(describe_blocks(g, &next, true));
    forgive = o->options.epsilon != next.options.epsilon ||
              !o->options.epsilon_relative != !next.options.epsilon_relative ||
              o->options.root != next.options.root || o->options.failures != next.options.failures;
    if (forgive && o->owner)
        TRY(g->backend->memory_zero(g, o->state + ((char *)o->failures - o->counts),
                                    (size_t)o->blocks * sizeof *o->failures));
    o->options = next.options;
    for (int64_t i = 0; forgive && i < o->blocks; i++)
        o->failures[i] = 0;
    return GRAM_OK;
}

static gram_status check_size(gram_context *g, const char *name, size_t size, size_t ours)
{
    if (size < sizeof size || size > ours)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s.size is %zu, expected %zu to %zu", name,
                         size, sizeof size, ours);
    return GRAM_OK;
}

gram_status gram_optimizer_get(gram_context *g, const gram_optimizer *o,
                               gram_optimizer_options *options, gram_optimizer_info *info)
{
    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    if (options)
        TRY(check_size(g, "options", options->size, sizeof *options));
    if (info)
        TRY(check_size(g, "info", info->size, sizeof *info));
    if (options) {
        size_t size = options->size;
        memcpy(options, &o->options, size);
        options->size = size;
    }
    if (info) {
        TRY(gram_optimizer_read_counts(g, o));
        gram_optimizer_info told = {.size = info->size,
                                    .step = *o->step,
                                    .parameters = o->parameters,
                                    .blocks = o->blocks,
                                    .states = o->names,
                                    .bytes = (int64_t)o->state_bytes};
        for (int64_t i = 0; i < o->blocks; i++)
            told.own_blocks += gram_optimizer_owns(o, &o->block[i]);
        memcpy(info, &told, told.size);
    }
    return GRAM_OK;
}

gram_status gram_optimizer_state_at(gram_context *g, gram_optimizer *o, int64_t index,
                                    const char **name, gram_tensor *view)
{
    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    if (index < 0 || index >= o->names)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "index is %lld, expected 0 to %lld",
                         (long long)index, (long long)o->names - 1);
    if (!name || !view)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name ? "view" : "name");
    o->stale = o->owner != NULL; /* the caller may write it */
    *name = o->named[index].name;
    *view = o->named[index].view;
    return GRAM_OK;
}
