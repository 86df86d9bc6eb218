/*
 * sample_grad.c - gram_sample_grad: checks the arguments, describes the work, hands it to the
 * device
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "layer.h"
#include <math.h>
#include <string.h>

/* What the calls are given. */
struct sample_args {
    const gram_layer *layer;
    const gram_tensor *a, *d;
    const gram_sample_grads *out;
};

static gram_status check_options(gram_context *g, const gram_sample_grad_options *o)
{
    if (!isfinite(o->scale))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.scale is %g, expected a finite number",
                         o->scale);
    if (!(o->clip >= 0 && o->clip < INFINITY))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.clip is %g, expected a finite number of at least 0 (0: no "
                         "clipping)",
                         o->clip);
    if (o->clip > 0 && o->coefficients)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT,
            "options.clip is %g and options.coefficients is given, expected at most one of them",
            o->clip);
    if (o->method < GRAM_SAMPLE_AUTO || o->method > GRAM_SAMPLE_BLOCKS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected a gram_sample_method", (int)o->method);
    return GRAM_OK;
}

/* The shape with the samples in front. */
static struct gram_batch with_samples(const struct gram_batch *shape, int64_t samples)
{
    struct gram_batch b = {.ndim = shape->ndim + 1, .shape[0] = samples};

    memcpy(b.shape + 1, shape->shape, (size_t)shape->ndim * sizeof *b.shape);
    return b;
}

/* The shape of the layer's weight; returns how many are its rows. */
static int weight_shape(const struct gram_layer_op *op, const gram_tensor *activations,
                        struct gram_batch *shape)
{
    int own = op->normalized;

    *shape = (struct gram_batch){0};
    if (op->kind == GRAM_LAYER_EMBEDDING)
        shape->shape[shape->ndim++] = op->in;
    if (op->kind == GRAM_LAYER_NORM || op->kind == GRAM_LAYER_GROUP_NORM) {
        int first = op->kind == GRAM_LAYER_NORM ? activations->ndim - own : 1;
        for (int i = 0; i < own; i++)
            shape->shape[shape->ndim++] = activations->shape[first + i];
        return own;
    }
    shape->shape[shape->ndim++] = op->out * op->groups;
    if (op->kind == GRAM_LAYER_LINEAR)
        shape->shape[shape->ndim++] = op->in;
    if (op->kind == GRAM_LAYER_CONVOLUTION) {
        shape->shape[shape->ndim++] = op->channels;
        for (int i = 3 - op->spatial; i < 3; i++)
            shape->shape[shape->ndim++] = op->kernel[i];
    }
    return 1;
}

static gram_status view_outputs(gram_context *g, const struct sample_args *s,
                                const gram_tensor *coefficients, struct gram_sample_grad_op *op)
{
    struct gram_batch weight, bias, numbers = {.ndim = 1, .shape[0] = op->layer.samples}, all;
    int rows = weight_shape(&op->layer, s->a, &weight);
    const gram_sample_grads *o = s->out;

    if (op->layer.kind == GRAM_LAYER_EMBEDDING && (o->bias || o->sum_bias))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is given, but an embedding has no bias",
                         o->bias ? "bias" : "sum_bias");
    bias = weight;
    bias.ndim = rows;
    all = with_samples(&weight, op->layer.samples);
    TRY(gram_layer_output_of(g, "weight", o->weight, &op->layer, &all, (int[]){1, rows},
                             &op->weight));
    all = with_samples(&bias, op->layer.samples);
    TRY(gram_layer_output_of(g, "bias", o->bias, &op->layer, &all, (int[]){1, rows}, &op->bias));
    TRY(gram_layer_output_of(g, "norms", o->norms, &op->layer, &numbers, (int[]){1, 0},
                             &op->norms));
    TRY(gram_layer_output_of(g, "sum_weight", o->sum_weight, &op->layer, &weight, (int[]){0, rows},
                             &op->sum_weight));
    TRY(gram_layer_output_of(g, "sum_bias", o->sum_bias, &op->layer, &bias, (int[]){0, rows},
                             &op->sum_bias));
    if (coefficients) {
        struct gram_batch any = {.count = 1};
        TRY(gram_batch_join(g, &any, "options.coefficients", coefficients, 0));
        if (coefficients->ndim != 1 || coefficients->shape[0] != op->layer.samples)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.coefficients does not have the shape (%lld), one number per "
                             "sample",
                             (long long)op->layer.samples);
        TRY(gram_check_dtype(g, "options.coefficients", coefficients, op->layer.dtype));
        op->coefficients = (struct gram_layer_output){
            .data = coefficients->data, .wanted = true, .sample_stride = coefficients->stride[0]};
    }
    return GRAM_OK;
}

/* No output overlaps another tensor. */
static gram_status check_apart(gram_context *g, const struct sample_args *s,
                               const gram_tensor *coefficients)
{
    static const char *const names[] = {"weight", "bias", "norms", "sum_weight", "sum_bias"};
    const gram_sample_grads *o = s->out;
    const gram_tensor *const t[] = {o->weight, o->bias, o->norms, o->sum_weight, o->sum_bias};

    for (int i = 0; i < 5; i++) {
        TRY(gram_layer_apart(g, names[i], t[i], s->a, s->d));
        if (t[i] && coefficients)
            TRY(gram_check_apart(g, names[i], t[i], "options.coefficients", coefficients));
        for (int j = 0; j < i; j++)
            if (t[i] && t[j])
                TRY(gram_check_apart(g, names[i], t[i], names[j], t[j]));
    }
    return GRAM_OK;
}

/* Finite coefficients, where they can be read. */
static gram_status check_coefficients(gram_context *g, const gram_tensor *c)
{
    for (int64_t i = 0; c && g->options.device.type == GRAM_CPU && i < c->shape[0]; i++) {
        double value = c->dtype == GRAM_F64 ? ((const double *)c->data)[i * c->stride[0]]
                                            : (double)((const float *)c->data)[i * c->stride[0]];
        if (!isfinite(value))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.coefficients[%lld] is %g, expected a finite number",
                             (long long)i, value);
    }
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct sample_args *s,
                            const gram_sample_grad_options *given, bool values,
                            struct gram_sample_grad_op *op)
{
    gram_sample_grad_options o = GRAM_SAMPLE_GRAD_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(check_options(g, &o));
    *op = (struct gram_sample_grad_op){
        .scale = o.scale, .clip = o.clip, .accumulate = o.accumulate != 0, .method = o.method};
    TRY(gram_layer_describe(g, s->layer, s->a, s->d, false, &op->layer));
    if (!s->out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    TRY(view_outputs(g, s, o.coefficients, op));
    TRY(check_apart(g, s, o.coefficients));
    if (values)
        TRY(check_coefficients(g, o.coefficients));
    if (!g->backend->sample_grad)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_sample_grad(gram_context *g, const gram_layer *layer,
                             const gram_tensor *activations, const gram_tensor *gradients,
                             const gram_sample_grad_options *options, const gram_sample_grads *out)
{
    const struct sample_args s = {layer, activations, gradients, out};
    struct gram_sample_grad_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &s, options, true, &op));
    return g->backend->sample_grad(g, &op);
}

gram_status gram_sample_grad_workspace(gram_context *g, const gram_layer *layer,
                                       const gram_tensor *activations, const gram_tensor *gradients,
                                       const gram_sample_grad_options *options,
                                       const gram_sample_grads *out, gram_workspace *need)
{
    const struct sample_args s = {layer, activations, gradients, out};
    struct gram_sample_grad_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &s, options, false, &op));
    TRY(gram_measure(g, &bytes, g->backend->sample_grad(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
