/*
 * layer.c - a layer and its tensors, checked and described: see layer.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer.h"
#include <string.h>

static gram_status copy_layer(gram_context *g, const gram_layer *given, gram_layer *layer)
{
    if (!given)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "layer is NULL");
    if (given->size < sizeof given->size || given->size > sizeof *layer)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "layer.size is %zu, expected at least %zu and at most %zu", given->size,
                         sizeof given->size, sizeof *layer);
    memcpy(layer, given, given->size);
    return GRAM_OK;
}

static gram_status check_float(gram_context *g, const char *name, const gram_tensor *t)
{
    if (t->dtype == GRAM_I32 || t->dtype == GRAM_I64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has dtype %s, expected f32, f64, f16 or bf16", name,
                         gram_dtype_name(t->dtype));
    return GRAM_OK;
}

gram_status gram_layer_describe(gram_context *g, const gram_layer *given,
                                const gram_tensor *activations, const gram_tensor *gradients,
                                bool may_lack, struct gram_layer_op *op)
{
    gram_layer layer = GRAM_LAYER_INIT;
    const gram_tensor *a = activations, *d = gradients;
    bool table;

    TRY(copy_layer(g, given, &layer));
    table = layer.kind == GRAM_LAYER_EMBEDDING;
    *op = (struct gram_layer_op){
        .kind = layer.kind, .bias = layer.bias != 0 && !table, .groups = 1, .padding_row = -1};
    if (!a && (!may_lack || !d || table))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "activations is NULL");
    if (!d && !may_lack)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "gradients is NULL");
    TRY(gram_layer_describe_kind(g, &layer, a, d, op));
    op->samples = (a ? a : d)->shape[0];
    if (a && !table)
        TRY(check_float(g, "activations", a));
    if (d)
        TRY(check_float(g, "gradients", d));
    if (a && d && !table)
        TRY(gram_check_dtype(g, "gradients", d, a->dtype));
    op->dtype = (d ? d : a)->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    return GRAM_OK;
}

int gram_layer_weight(const struct gram_layer_op *op, const gram_tensor *activations,
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

gram_status gram_layer_output_of(gram_context *g, const char *name, const gram_tensor *t,
                                 const struct gram_layer_op *op, const struct gram_batch *shape,
                                 const int leading_rows[2], struct gram_layer_output *out)
{
    int leading = leading_rows[0], rows = leading_rows[1];
    struct gram_view view;

    *out = (struct gram_layer_output){0};
    if (!t)
        return GRAM_OK;
    TRY(gram_view_of(g, shape, name, t, 0, GRAM_WRITE, &view));
    TRY(gram_check_dtype(g, name, t, op->dtype));
    *out = (struct gram_layer_output){.data = t->data,
                                      .wanted = true,
                                      .sample_stride = leading ? t->stride[0] : 0,
                                      .row = gram_axes_of(t, leading, leading + rows),
                                      .col = gram_axes_of(t, leading + rows, t->ndim)};
    return GRAM_OK;
}

gram_status gram_layer_apart(gram_context *g, const char *name, const gram_tensor *t,
                             const gram_tensor *activations, const gram_tensor *gradients)
{
    if (t && activations)
        TRY(gram_check_apart(g, name, t, "activations", activations));
    if (t && gradients)
        TRY(gram_check_apart(g, name, t, "gradients", gradients));
    return GRAM_OK;
}
