/*
 * optimizer_options.c - options of optimizers: defaults, and what is refused
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "optimizer.h"
#include <math.h>
#include <string.h>

enum {
    MOST_PART = 64, /* of an exponent k / q: gram_matrix_power's */
    MOST_STEPS = 100,
    MOST_RANKS = 1 << 20
};

const struct gram_optimizer_method_front *gram_optimizer_front(gram_optimizer_method method)
{
    static const struct gram_optimizer_method_front *const fronts[] = {
        [GRAM_SHAMPOO] = &gram_optimizer_shampoo,
        [GRAM_SOAP] = &gram_optimizer_soap,
        [GRAM_MUON] = &gram_optimizer_muon,
    };

    if (method < GRAM_SHAMPOO || method >= (int)(sizeof fronts / sizeof *fronts))
        return NULL;
    return fronts[method];
}

static void fill_defaults(const struct gram_optimizer_method_front *front,
                          gram_optimizer_method method, gram_optimizer_options *options)
{
    *options = (gram_optimizer_options)GRAM_OPTIMIZER_OPTIONS_INIT;
    options->method = method;
    if (front->defaults)
        front->defaults(options);
}

int gram_optimizer_defaults(gram_optimizer_method method, gram_optimizer_options *options)
{
    const struct gram_optimizer_method_front *front = gram_optimizer_front(method);
    gram_optimizer_options filled;
    const size_t size = options ? options->size : 0;

    if (!front || size < sizeof size || size > sizeof filled)
        return 0;
    fill_defaults(front, method, &filled);
    filled.size = size;
    memcpy(options, &filled, size);
    return 1;
}

bool gram_optimizer_fraction(double e, int *numerator, int *denominator)
{
    for (int q = 1; q <= MOST_PART; q++) {
        double k = round(e * q);
        if (k >= 1 && k <= MOST_PART && fabs(e * q - k) <= 1e-9 * k) {
            *numerator = (int)k;
            *denominator = q;
            return true;
        }
    }
    return false;
}

/* ---- Checks ------------------------------------------------------------------------------- */

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
                             "options.%s is %g, expected at least %g and finite", b->name, b->value,
                             b->least);
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

gram_status gram_optimizer_check_averages(gram_context *g, const gram_optimizer_options *o,
                                          const char *method)
{
    if (o->beta2 == 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.beta2 is 1, expected less with %s",
                         method);
    if (o->graft != GRAM_GRAFT_NONE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.graft is %d, %s takes GRAM_GRAFT_NONE only", (int)o->graft,
                         method);
    if (o->statistics != 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.statistics is %lld, %s takes 1 only",
                         (long long)o->statistics, method);
    return GRAM_OK;
}

gram_status gram_optimizer_take_options(gram_context *g, const gram_optimizer_options *given,
                                        gram_optimizer_options *options)
{
    const struct gram_optimizer_method_front *front;

    *options = (gram_optimizer_options)GRAM_OPTIMIZER_OPTIONS_INIT;
    TRY(gram_options_copy(g, options, sizeof *options, given));
    front = gram_optimizer_front(options->method);
    if (!front)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected one of gram_optimizer_method",
                         (int)options->method);
    fill_defaults(front, options->method, options);
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
    return front->check(g, options);
}
