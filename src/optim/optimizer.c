/*
 * optimizer.c - optimizers to their users: options, a step, its directions, the state by names
 *
 * Everything that a caller gives is checked here: options, and the tensors of a step, of which none
 * that is written may overlap another.
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer.h"
#include "core/backend.h"
#include "core/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_STEPS = 100,
    MOST_RANKS = 1 << 20,
    NAME_BYTES = 48 /* of a tensor's name in a message */
};

/* ---- Options --------------------------------------------------------------------------------- */

static void fill_defaults(const struct gram_optimizer_rules *rules, gram_optimizer_method method,
                          gram_optimizer_options *options)
{
    *options = (gram_optimizer_options)GRAM_OPTIMIZER_OPTIONS_INIT;
    options->method = method;
    if (rules->defaults)
        rules->defaults(options);
}

int gram_optimizer_defaults(gram_optimizer_method method, gram_optimizer_options *options)
{
    const struct gram_optimizer_rules *rules = gram_optimizer_rules_of(method);
    gram_optimizer_options filled;
    const size_t size = options ? options->size : 0;

    if (!rules || size < sizeof size || size > sizeof filled)
        return 0;
    fill_defaults(rules, method, &filled);
    filled.size = size;
    memcpy(options, &filled, size);
    return 1;
}

struct bound {
    const char *name;
    double value, least, most;
    bool open; /* most itself is refused */
};

static gram_status check_bounds(gram_context *g, const struct bound *bounds, int count)
{
    for (int i = 0; i < count; i++) {
        const struct bound *b = &bounds[i];
        if (b->value >= b->least && b->value <= b->most && !(b->open && b->value == b->most))
            continue;
        if (b->most == INFINITY)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.%s is %g, expected a finite number of at least %g", b->name,
                             b->value, b->least);
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.%s is %g, expected %g to %s%g", b->name,
                         b->value, b->least, b->open ? "less than " : "", b->most);
    }
    return GRAM_OK;
}

static gram_status check_numbers(gram_context *g, const gram_optimizer_options *o)
{
    const struct bound bounds[] = {
        {"learning_rate", o->learning_rate,         0, INFINITY,  true},
        {        "beta1",         o->beta1,         0,        1,  true},
        {        "beta2",         o->beta2, 0x1p-1022,        1, false},
        {        "beta3",         o->beta3, -INFINITY,        1,  true},
        { "shampoo_beta",  o->shampoo_beta, -INFINITY,        1, false},
        {      "epsilon",       o->epsilon,         0, INFINITY,  true},
        {     "momentum",      o->momentum,         0,        1,  true},
        {    "dampening",     o->dampening,         0,        1,  true},
        { "weight_decay",  o->weight_decay,         0, INFINITY,  true},
        {  "graft_beta2",   o->graft_beta2,         0,        1,  true},
        {"graft_epsilon", o->graft_epsilon,         0, INFINITY,  true},
        {         "skip",          o->skip,         0, INFINITY,  true},
    };

    return check_bounds(g, bounds, (int)(sizeof bounds / sizeof *bounds));
}

static gram_status check_counts(gram_context *g, const gram_optimizer_options *o)
{
    static const int64_t most = INT64_MAX;
    const struct {
        const char *name;
        int64_t value, least, most;
    } counts[] = {
        {     "block",      o->block, 1,         most},
        {     "start",      o->start, 0,         most},
        {   "refresh",    o->refresh, 1,         most},
        {  "failures",   o->failures, 0,         most},
        {     "steps",      o->steps, 1,   MOST_STEPS},
        {"statistics", o->statistics, 1,         most},
        {     "ranks",      o->ranks, 1,   MOST_RANKS},
        {      "rank",       o->rank, 0, o->ranks - 1},
    };

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < counts[i].least || counts[i].value > counts[i].most)
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.%s is %lld, expected %lld to %lld",
                             counts[i].name, (long long)counts[i].value, (long long)counts[i].least,
                             (long long)counts[i].most);
    return GRAM_OK;
}

static gram_status check_choices(gram_context *g, const gram_optimizer_options *o)
{
    const struct {
        const char *name, *type;
        int value, most;
    } choices[] = {
        {         "graft",           "gram_graft",          (int)o->graft,GRAM_GRAFT_ADAM                                                                          },
        {         "decay",    "gram_weight_decay",          (int)o->decay,        GRAM_DECAY_L2},
        {          "root",    "gram_power_method",           (int)o->root,   GRAM_POWER_MINIMAX},
        {    "not_finite",      "gram_not_finite",     (int)o->not_finite, GRAM_NOT_FINITE_FAIL},
        {"root_precision", "gram_power_precision", (int)o->root_precision,
         GRAM_POWER_PRECISION_TF32                                                             },
    };

    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value < 0 || choices[i].value > choices[i].most)
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.%s is %d, expected one of %s",
                             choices[i].name, choices[i].value, choices[i].type);
    if (o->precision != GRAM_POWER_PRECISION_AUTO && o->precision != GRAM_POWER_PRECISION_F32 &&
        o->precision != GRAM_POWER_PRECISION_TF32)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.precision is %d, expected GRAM_POWER_PRECISION_AUTO, _F32 or "
                         "_TF32",
                         (int)o->precision);
    if (o->state && o->state != GRAM_F32 && o->state != GRAM_F64 && o->state != GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.state is %d (%s), expected f32, f64 or bf16", (int)o->state,
                         gram_dtype_name(o->state));
    return GRAM_OK;
}

gram_status gram_optimizer_take_options(gram_context *g, const gram_optimizer_options *given,
                                        gram_optimizer_options *options)
{
    const struct gram_optimizer_rules *rules;

    *options = (gram_optimizer_options)GRAM_OPTIMIZER_OPTIONS_INIT;
    TRY(gram_options_copy(g, options, sizeof *options, given));
    rules = gram_optimizer_rules_of(options->method);
    if (!rules)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected one of gram_optimizer_method",
                         (int)options->method);
    fill_defaults(rules, options->method, options);
    TRY(gram_options_copy(g, options, sizeof *options, given));
    options->size = sizeof *options;
    TRY(check_numbers(g, options));
    TRY(check_counts(g, options));
    TRY(check_choices(g, options));
    if (options->beta3 < 0)
        options->beta3 = options->beta1;
    if (options->shampoo_beta < 0)
        options->shampoo_beta = options->beta2;
    if (options->start == 0)
        options->start = options->refresh;
    return rules->check(g, options);
}

/* ---- The tensors of a step ------------------------------------------------------------------- */

/* A tensor of list name, which may be read, or is written. */
static gram_status check_tensor(gram_context *g, const struct gram_optimizer_parameter *p,
                                struct gram_optimizer_range *r)
{
    struct gram_batch batch = {.count = 1};
    struct gram_view view;
    const gram_tensor *t = r->tensor;
    char name[NAME_BYTES];

    (void)snprintf(name, sizeof name, "%s[%lld]", r->list, (long long)r->index);
    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
    TRY(gram_batch_join(g, &batch, name, t, 0));
    if (t->dtype != GRAM_F32 && t->dtype != GRAM_F64 && t->dtype != GRAM_F16 &&
        t->dtype != GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has dtype %s, expected f32, f64, f16 or bf16", name,
                         gram_dtype_name(t->dtype));
    if (t->ndim != p->ndim)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has %d dimensions, but the optimizer was created with %d", name,
                         (int)t->ndim, p->ndim);
    for (int i = 0; i < p->ndim; i++)
        if (t->shape[i] != p->shape[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s has size %lld in dimension %d, but the optimizer was created "
                             "with %lld",
                             name, (long long)t->shape[i], i, (long long)p->shape[i]);
    if (r->written)
        TRY(gram_view_of(g, &batch, name, t, 0, GRAM_WRITE, &view));
    gram_tensor_range(t, &r->low, &r->high);
    return GRAM_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct gram_optimizer_range *x = a, *y = b;

    return x->low < y->low ? -1 : x->low > y->low;
}

/* A direction may be the gradient that it is made of. */
static bool may_meet(const struct gram_optimizer_range *a, const struct gram_optimizer_range *b)
{
    bool made_of = a->index == b->index && a->list != b->list &&
                   (a->list[0] == 'g' || b->list[0] == 'g') &&
                   (a->list[0] == 'd' || b->list[0] == 'd');

    return (!a->written && !b->written) || (made_of && gram_tensors_same(a->tensor, b->tensor)) ||
           !gram_tensors_overlap(a->tensor, b->tensor);
}

static gram_status check_apart(gram_context *g, struct gram_optimizer_range *range, size_t count)
{
    qsort(range, count, sizeof *range, by_address);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && range[j].low < range[i].high; j++)
            if (!may_meet(&range[i], &range[j])) {
                bool first = range[i].written;
                const struct gram_optimizer_range *a = &range[first ? i : j],
                                                  *b = &range[first ? j : i];
                return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s[%lld] overlaps %s[%lld] in memory",
                                 a->list, (long long)a->index, b->list, (long long)b->index);
            }
    return GRAM_OK;
}

static gram_status add_range(gram_context *g, const gram_optimizer *o,
                             struct gram_optimizer_range r, size_t *count)
{
    o->range[*count] = r;
    TRY(check_tensor(g, &o->parameter[r.index], &o->range[*count]));
    (*count)++;
    return GRAM_OK;
}

static gram_status check_tensors(gram_context *g, const struct gram_optimizer_op *op)
{
    const gram_optimizer *o = op->optimizer;
    size_t count = 0;

    if (o->parameters > 0 && (!op->parameters || !op->gradients))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL, expected %lld tensors",
                         op->parameters ? "gradients" : "parameters", (long long)o->parameters);
    for (int64_t i = 0; i < o->parameters; i++) {
        struct gram_optimizer_range r = {.tensor = op->parameters[i],
                                         .list = "parameters",
                                         .index = i,
                                         .written = op->updated != NULL};
        TRY(add_range(g, o, r, &count));
        if (op->gradients[i]) {
            r = (struct gram_optimizer_range){
                .tensor = op->gradients[i], .list = "gradients", .index = i};
            TRY(add_range(g, o, r, &count));
        }
        if (op->directions && (op->directions[i] || op->gradients[i])) {
            r = (struct gram_optimizer_range){
                .tensor = op->directions[i], .list = "directions", .index = i, .written = true};
            TRY(add_range(g, o, r, &count));
        }
    }
    return check_apart(g, o->range, count);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

gram_status gram_optimizer_check_call(gram_context *g, const gram_optimizer *o)
{
    if (!o)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the optimizer is NULL");
    if (!g->backend->optimizer_step)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    if (o->owner ? o->owner != g : g->backend->optimizer_open != NULL)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "the optimizer belongs to another context: an optimizer with state on a "
                         "GPU can be used only with the context that created it");
    return GRAM_OK;
}

static gram_status check_failures(gram_context *g, const gram_optimizer *o)
{
    for (int64_t i = 0; i < o->blocks; i++)
        if (o->failures[i] > o->options.failures)
            return gram_fail(g, GRAM_NUMERICAL,
                             "the root of block %lld of parameters[%lld] has failed %lld times in "
                             "a row, but options.failures is %d",
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
    gram_optimizer_report filled = {.first_failed = -1};

    TRY(check_tensors(g, op));
    TRY(check_failures(g, op->optimizer));
    TRY(check_report(g, report));
    op->report = &filled;
    op->asked = report != NULL;
    TRY(g->backend->optimizer_step(g, op));
    if (report) {
        filled.size = report->size;
        memcpy(report, &filled, filled.size);
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
                         "options.ranks is %lld, so a step needs all ranks: add up the directions "
                         "of gram_optimizer_direction, and apply the sum",
                         (long long)o->options.ranks);
    return run(g, &op, report);
}

gram_status gram_optimizer_measure(gram_context *g, const gram_optimizer *o, size_t *bytes)
{
    gram_optimizer_report none = {.size = sizeof none};
    const struct gram_optimizer_op op = {.optimizer = (gram_optimizer *)o, .report = &none};

    return gram_measure(g, bytes, g->backend->optimizer_step(g, &op));
}

gram_status gram_optimizer_workspace(gram_context *g, const gram_optimizer *o, gram_workspace *need)
{
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_optimizer_check_call(g, o));
    TRY(gram_check_need(g, need));
    TRY(gram_optimizer_measure(g, o, &bytes));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* ---- Options between steps ------------------------------------------------------------------- */

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
                             "options.%s cannot change, because it determines what the state "
                             "consists of",
                             fixed[i].name);
    return GRAM_OK;
}

/* The blocks under other options: all are described (write: and kept). */
static gram_status describe_blocks(gram_context *g, const gram_optimizer *o, bool write)
{
    const struct gram_optimizer_rules *rules = gram_optimizer_rules_of(o->options.method);

    for (int64_t i = 0; i < o->blocks; i++) {
        struct gram_optimizer_block b = o->block[i];
        if (!gram_optimizer_owns(o, &b))
            continue;
        TRY(rules->describe(g, o, &o->parameter[b.parameter], &b));
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
        gram_optimizer_info filled = {.size = info->size,
                                      .step = *o->step,
                                      .parameters = o->parameters,
                                      .blocks = o->blocks,
                                      .states = o->names,
                                      .bytes = (int64_t)o->state_bytes};
        for (int64_t i = 0; i < o->blocks; i++)
            filled.own_blocks += gram_optimizer_owns(o, &o->block[i]);
        memcpy(info, &filled, filled.size);
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
