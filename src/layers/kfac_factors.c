/*
 * kfac_factors.c - gram_kfac_factors: checks the arguments, describes the work, hands it to the
 * device
 *
 * With a' the activations and a 1 behind them, g the gradients, N samples and S positions:
 *
 *   EXPAND   A = 1 / (N S) sum_ns a'[n,s] a'[n,s]^T,   B = scale^2 / N sum_ns g[n,s] g[n,s]^T
 *   REDUCE   A = 1 / N sum_n u[n] u[n]^T,              B = scale^2 / N sum_n h[n] h[n]^T
 *            with u[n] = 1 / S sum_s a'[n,s] and h[n] = sum_s g[n,s]
 *
 * Eschenhagen et al., Kronecker-factored approximate curvature for modern neural network
 * architectures, NeurIPS 2023.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "layer.h"
#include <math.h>

/* The arguments of a call. */
struct kfac_args {
    const gram_layer *layer;
    const gram_tensor *a, *d, *a_factor, *b_factor;
};

static gram_status check_options(gram_context *g, const gram_kfac_factors_options *o)
{
    if (o->setting != GRAM_KFAC_EXPAND && o->setting != GRAM_KFAC_REDUCE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.setting is %d, expected GRAM_KFAC_EXPAND or GRAM_KFAC_REDUCE",
                         (int)o->setting);
    if (!isfinite(o->scale))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.scale is %g, expected a finite number",
                         o->scale);
    if (!(o->keep >= 0 && o->keep <= 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.keep is %g, expected 0 to 1", o->keep);
    return GRAM_OK;
}

/* Views a square factor of this order, or one for each group. */
static gram_status view_factor(gram_context *g, const char *name, const gram_tensor *t,
                               const struct gram_layer_op *op, int64_t order,
                               struct gram_layer_output *out)
{
    struct gram_batch shape = {
        .ndim = 2, .shape = {order, order}
    };
    int grouped = op->groups > 1;

    if (grouped)
        shape = (struct gram_batch){
            .ndim = 3, .shape = {op->groups, order, order}
        };
    return gram_layer_output_of(g, name, t, op, &shape, (int[]){grouped, 1}, out);
}

static gram_status view_outputs(gram_context *g, const struct kfac_args *k,
                                struct gram_kfac_factors_op *op)
{
    struct gram_batch table = {.ndim = 1, .shape[0] = op->layer.in};

    if (op->layer.in > INT64_MAX / 16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of a_factor overflows");
    if (op->layer.kind == GRAM_LAYER_EMBEDDING)
        TRY(gram_layer_output_of(g, "a_factor", k->a_factor, &op->layer, &table, (int[]){0, 1},
                                 &op->a));
    else
        TRY(view_factor(g, "a_factor", k->a_factor, &op->layer, op->layer.in + op->layer.bias,
                        &op->a));
    return view_factor(g, "b_factor", k->b_factor, &op->layer, op->layer.out, &op->b);
}

static gram_status describe(gram_context *g, const struct kfac_args *k,
                            const gram_kfac_factors_options *given, struct gram_kfac_factors_op *op)
{
    gram_kfac_factors_options o = GRAM_KFAC_FACTORS_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(check_options(g, &o));
    *op = (struct gram_kfac_factors_op){.setting = o.setting, .scale = o.scale, .keep = o.keep};
    if (k->a_factor && !k->a)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "activations is NULL, but a_factor is given and needs it");
    if (k->b_factor && !k->d)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "gradients is NULL, but b_factor is given and needs it");
    TRY(gram_layer_describe(g, k->layer, k->a, k->d, true, &op->layer));
    if (op->layer.kind == GRAM_LAYER_NORM || op->layer.kind == GRAM_LAYER_GROUP_NORM)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "layer.kind is %d, a normalisation, which has no Kronecker factors",
                         (int)op->layer.kind);
    TRY(view_outputs(g, k, op));
    TRY(gram_layer_apart(g, "a_factor", k->a_factor, k->a, k->d));
    TRY(gram_layer_apart(g, "b_factor", k->b_factor, k->a, k->d));
    if (k->a_factor && k->b_factor)
        TRY(gram_check_apart(g, "b_factor", k->b_factor, "a_factor", k->a_factor));
    if (!g->backend->kfac_factors)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_kfac_factors(gram_context *g, const gram_layer *layer,
                              const gram_tensor *activations, const gram_tensor *gradients,
                              const gram_kfac_factors_options *options, gram_tensor *a_factor,
                              gram_tensor *b_factor)
{
    const struct kfac_args k = {layer, activations, gradients, a_factor, b_factor};
    struct gram_kfac_factors_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &k, options, &op));
    return g->backend->kfac_factors(g, &op);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_kfac_factors_workspace(gram_context *g, const gram_layer *layer,
                                        const gram_tensor *activations,
                                        const gram_tensor *gradients,
                                        const gram_kfac_factors_options *options,
                                        const gram_tensor *a_factor, const gram_tensor *b_factor,
                                        gram_workspace *need)
{
    const struct kfac_args k = {layer, activations, gradients, a_factor, b_factor};
    struct gram_kfac_factors_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &k, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->kfac_factors(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
