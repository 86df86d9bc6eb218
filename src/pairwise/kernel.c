/*
 * kernel.c - gram_kernel: check the arguments, describe the work, hand it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Offsets stay exact when sizes are added to them. */
#define FARTHEST ((int64_t)1 << 61)

/* The hyperparameters, their names and ranges. */
struct hyper_rule {
    const char *name;
    size_t option, op; /* offsets in gram_kernel_options and in gram_cdist_op */
    double least, most;
    bool open;
};

#define RULE(name, least, most, open)                                                            \
  {                                                                                              \
    "options." #name, offsetof(gram_kernel_options, name), offsetof(struct gram_cdist_op, name), \
        least, most, open                                                                        \
  }

static const struct hyper_rule rules[] = {
    RULE(p, 0, INFINITY, true),
    RULE(outer_power, -DBL_MAX, DBL_MAX, false),
    RULE(bandwidth, 0, DBL_MAX, true),
    RULE(exponent, 0, DBL_MAX, true),
    RULE(alpha, 0, DBL_MAX, true),
    RULE(gamma, -DBL_MAX, DBL_MAX, false),
    RULE(coef0, -DBL_MAX, DBL_MAX, false),
    RULE(degree, -DBL_MAX, DBL_MAX, false),
    RULE(regularization, -DBL_MAX, DBL_MAX, false),
};

enum {
    RULES = sizeof rules / sizeof *rules
};

static gram_scalar option_of(const gram_kernel_options *o, const struct hyper_rule *rule)
{
    return *(const gram_scalar *)((const char *)o + rule->option);
}

static const char *parameter_name(int which, char *name, size_t size)
{
    snprintf(name, size, "options.parameters[%d].value", which);
    return name;
}

static gram_status join_hypers(gram_context *g, const gram_kernel_options *o,
                               struct gram_batch *batch)
{
    char name[40];

    TRY(gram_lengths_join(g, o->lengths, batch));
    for (int i = 0; i < RULES; i++) {
        gram_scalar s = option_of(o, &rules[i]);
        if (s.tensor)
            TRY(gram_batch_join(g, batch, rules[i].name, s.tensor, 0));
    }
    for (int i = 0; i < (int)o->parameter_count; i++)
        if (o->parameters[i].value.tensor)
            TRY(gram_batch_join(g, batch, parameter_name(i, name, sizeof name),
                                o->parameters[i].value.tensor, 0));
    return GRAM_OK;
}

static gram_status view_parameters(gram_context *g, const gram_kernel_options *o,
                                   struct gram_cdist_op *op)
{
    char name[40];

    op->parameters = (int)o->parameter_count;
    for (int i = 0; i < op->parameters; i++) {
        struct gram_hyper *hyper = &op->parameter[i];
        parameter_name(i, name, sizeof name);
        TRY(gram_hyper_of(g, &op->batch, name, o->parameters[i].value, hyper));
        TRY(gram_hyper_check(g, &op->batch, name, hyper, -DBL_MAX, DBL_MAX, false));
    }
    return GRAM_OK;
}

static gram_status view_hypers(gram_context *g, const gram_kernel_options *o,
                               struct gram_cdist_op *op)
{
    for (int i = 0; i < RULES; i++) {
        const struct hyper_rule *rule = &rules[i];
        struct gram_hyper *hyper = (struct gram_hyper *)((char *)op + rule->op);
        TRY(gram_hyper_of(g, &op->batch, rule->name, option_of(o, rule), hyper));
        TRY(gram_hyper_check(g, &op->batch, rule->name, hyper, rule->least, rule->most,
                             rule->open));
    }
    return GRAM_OK;
}

static gram_status check_choices(gram_context *g, const gram_kernel_options *o)
{
    if (o->inner != GRAM_DIFFERENCE && o->inner != GRAM_DOT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.inner is %d, expected GRAM_DIFFERENCE or GRAM_DOT",
                         (int)o->inner);
    if (o->function < GRAM_IDENTITY || o->function > GRAM_EXPRESSION)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.function is %d, expected a gram_function, 0 to %d",
                         (int)o->function, (int)GRAM_EXPRESSION);
    if (o->output < GRAM_VALUE || o->output > GRAM_D2_WEIGHT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.output is %d, expected a gram_kernel_output, 0 to %d",
                         (int)o->output, (int)GRAM_D2_WEIGHT);
    if (o->function == GRAM_COSINE && o->inner != GRAM_DOT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.inner is GRAM_DIFFERENCE, expected GRAM_DOT with GRAM_COSINE");
    if (o->function == GRAM_COSINE && o->output == GRAM_WEIGHT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.output is GRAM_WEIGHT, which GRAM_COSINE does not have");
    if (o->row_offset < -FARTHEST || o->row_offset > FARTHEST)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.row_offset is %lld, expected -2^61 to 2^61",
                         (long long)o->row_offset);
    if (o->column_offset < -FARTHEST || o->column_offset > FARTHEST)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.column_offset is %lld, expected -2^61 to 2^61",
                         (long long)o->column_offset);
    return GRAM_OK;
}

/* A kernel of a metric: its function takes the distance in the place of a sum. */
static gram_status check_metric(gram_context *g, const gram_kernel_options *o,
                                const struct gram_pair *pair, gram_distance *metric)
{
    TRY(gram_metric_copy(g, o->metric, metric));
    if (metric->bits)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->bits is %lld, expected 0: kernels have no packed bits",
                         (long long)metric->bits);
    if (o->inner != GRAM_DIFFERENCE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.inner is GRAM_DOT, expected GRAM_DIFFERENCE with "
                         "options.metric");
    if (o->lengths)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.lengths is not NULL, expected NULL with options.metric, which "
                         "has weights");
    if (o->output == GRAM_WEIGHT || pair->derivative)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.metric is not NULL, expected NULL: kernels of a metric have no "
                         "derivative in x and y");
    if (metric->kind == GRAM_DISTANCE_MINKOWSKI && (metric->p.tensor || o->outer_power.tensor))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.%s is a tensor, expected a number with GRAM_DISTANCE_MINKOWSKI",
                         metric->p.tensor ? "metric->p" : "outer_power");
    return GRAM_OK;
}

/* The root of the p-norm joins the outer power. */
static gram_status view_metric(gram_context *g, const gram_distance *metric,
                               struct gram_cdist_op *op)
{
    TRY(gram_metric_view(g, metric, false, op));
    op->root = false;
    if (metric->kind == GRAM_DISTANCE_MINKOWSKI && op->p.value < INFINITY)
        op->outer_power.value /= op->p.value;
    return GRAM_OK;
}

/* An expression and its parameters belong to GRAM_EXPRESSION, and to nothing else. */
static gram_status check_expression(gram_context *g, const gram_kernel_options *o)
{
    static const char *const outputs[] = {
        [GRAM_PARAMETER_DERIVATIVE] = "GRAM_PARAMETER_DERIVATIVE",
        [GRAM_NORM_X_WEIGHT] = "GRAM_NORM_X_WEIGHT",
        [GRAM_NORM_Y_WEIGHT] = "GRAM_NORM_Y_WEIGHT",
        [GRAM_D1_WEIGHT] = "GRAM_D1_WEIGHT",
        [GRAM_D2_WEIGHT] = "GRAM_D2_WEIGHT",
    };

    if (o->function != GRAM_EXPRESSION) {
        if (o->expression || o->parameters || o->parameter_count)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.function is %d, expected GRAM_EXPRESSION, because an "
                             "expression or parameters are given",
                             (int)o->function);
        if (o->output >= GRAM_PARAMETER_DERIVATIVE)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.output is %s, which only GRAM_EXPRESSION has",
                             outputs[o->output]);
        return GRAM_OK;
    }
    if (!o->expression)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.expression is NULL, expected text with GRAM_EXPRESSION");
    if (o->parameter_count < 0 || o->parameter_count > GRAM_MAX_PARAMETERS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.parameter_count is %lld, expected 0 to %d",
                         (long long)o->parameter_count, GRAM_MAX_PARAMETERS);
    if (o->parameter_count > 0 && !o->parameters)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.parameters is NULL, expected %lld parameters",
                         (long long)o->parameter_count);
    if (o->output == GRAM_BANDWIDTH_DERIVATIVE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.output is GRAM_BANDWIDTH_DERIVATIVE, which GRAM_EXPRESSION does "
                         "not have");
    if (o->output == GRAM_PARAMETER_DERIVATIVE &&
        (o->derivative < 0 || o->derivative >= o->parameter_count))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.derivative is %lld, expected the index of one of the %lld "
                         "parameters",
                         (long long)o->derivative, (long long)o->parameter_count);
    return GRAM_OK;
}

/* The program of an expression.  A derivative by a parameter is for the backends the value of
 * another function. */
static gram_status compile(gram_context *g, const gram_kernel_options *o, bool by_s,
                           struct gram_cdist_op *op)
{
    struct gram_expression *expression;
    int by = by_s ? GRAM_EXPRESSION_BY_S : GRAM_EXPRESSION_ITSELF;

    if (o->output == GRAM_PARAMETER_DERIVATIVE)
        by = (int)o->derivative;
    else if (o->output == GRAM_NORM_X_WEIGHT)
        by = GRAM_EXPRESSION_BY_NORM_X;
    else if (o->output == GRAM_NORM_Y_WEIGHT)
        by = GRAM_EXPRESSION_BY_NORM_Y;
    else if (o->output == GRAM_D1_WEIGHT)
        by = GRAM_EXPRESSION_BY_SUM;
    else if (o->output == GRAM_D2_WEIGHT)
        by = GRAM_EXPRESSION_BY_SQUARES;
    if (o->output >= GRAM_PARAMETER_DERIVATIVE) {
        op->output = GRAM_VALUE;
        op->regularization = (struct gram_hyper){.value = 0};
    }
    TRY(gram_expression_compile(g, o, by, &expression));
    op->expression = expression;
    op->symmetric &= expression->mirrors;
    if (o->metric && gram_expression_is_of_wide(expression))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.expression has %s, which there is not with options.metric",
                         expression->of_norms ? "the norm of a point" : "d1 or d2");
    return GRAM_OK;
}

gram_status gram_kernel_describe(gram_context *g, const struct gram_pair *pair,
                                 const gram_kernel_options *options, struct gram_cdist_op *op)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    gram_distance metric;

    if (!options)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options is NULL");
    TRY(gram_options_copy(g, &o, sizeof o, options));
    TRY(check_choices(g, &o));
    TRY(check_expression(g, &o));
    if (o.metric) {
        TRY(check_metric(g, &o, pair, &metric));
        o.p = gram_number(2), o.root = 0; /* not read, whatever they are */
    }
    *op = (struct gram_cdist_op){.batch.count = 1,
                                 .inner = o.inner,
                                 .function = o.function,
                                 .output = o.output,
                                 .root = o.root != 0,
                                 .row_offset = o.row_offset,
                                 .column_offset = o.column_offset};
    TRY(gram_pair_join(g, pair, &op->batch));
    TRY(join_hypers(g, &o, &op->batch));
    if (o.metric)
        TRY(gram_metric_join(g, &metric, &op->batch));
    TRY(gram_pair_view(g, pair, op));
    TRY(gram_lengths_view(g, o.lengths, op));
    TRY(view_hypers(g, &o, op));
    if (o.metric)
        TRY(view_metric(g, &metric, op));
    if (!pair->no_out)
        TRY(gram_metric_check_apart(g, options, "out", pair->out));
    TRY(view_parameters(g, &o, op));
    if (o.function == GRAM_EXPRESSION)
        TRY(compile(g, &o, o.output == GRAM_WEIGHT || pair->derivative, op));
    if (!g->backend->cdist)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

static gram_status run(gram_context *g, const void *work)
{
    return g->backend->cdist(g, work);
}

gram_status gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                        const gram_kernel_options *options, gram_tensor *out)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    struct gram_cdist_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_kernel_describe(g, &pair, options, &op));
    return gram_lengths_call(g, &op, run, &op);
}

gram_status gram_kernel_workspace(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                  const gram_kernel_options *options, const gram_tensor *out,
                                  gram_workspace *need)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    struct gram_cdist_op op;
    size_t bytes;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(gram_kernel_describe(g, &pair, options, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_call(g, &op, run, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* What is chosen and compiled ahead are the kernels of sums of powers and of products. */
static gram_status refuse_metric(gram_context *g, const struct gram_cdist_op *op)
{
    if (gram_metric_given(&op->metric))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.metric is not NULL, expected NULL: metrics have nothing to tune "
                         "and nothing to compile ahead");
    return GRAM_OK;
}

gram_status gram_cache_warm_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   const gram_kernel_options *options, const gram_tensor *out,
                                   const gram_warm_options *warm)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    gram_warm_options o = GRAM_WARM_OPTIONS_INIT;
    struct gram_cdist_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_options_copy(g, &o, sizeof o, warm));
    TRY(gram_kernel_describe(g, &pair, options, &op));
    gram_lengths_settle(&op);
    TRY(refuse_metric(g, &op));
    return gram_cache_warm_op(g, &op, &o);
}

/* ---- The fastest way of computing a kernel matrix here -------------------------------------- */

struct tuning {
    const struct gram_cdist_op *op;
    gram_tuning *found;
};

static gram_status run_tune(gram_context *g, const void *work)
{
    const struct tuning *t = work;

    return g->backend->tune(g, t->op, t->found);
}

gram_status gram_tune(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                      const gram_kernel_options *options, gram_tensor *out, gram_tuning *result)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    const size_t size = result ? result->size : 0;
    gram_tuning found = {.size = size};
    struct gram_cdist_op op;
    const struct tuning work = {&op, &found};

    TRY(gram_begin(g, __func__));
    if (size < sizeof size || size > sizeof found)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "result.size is %zu, expected at most %zu", size,
                         sizeof found);
    TRY(gram_kernel_describe(g, &pair, options, &op));
    TRY(refuse_metric(g, &op));
    if (!g->backend->tune)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has nothing to tune", g->backend->name);
    TRY(gram_lengths_call(g, &op, run_tune, &work)); /* of the quotients, as in gram_kernel */
    memcpy(result, &found, size);
    return GRAM_OK;
}
