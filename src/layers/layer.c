/*
 * layer.c - a layer and its tensors, checked and described: see layer.h
 *
 * A convolution with a kernel of one position, stride 1 and no padding is a product of matrices on
 * the tensors as they lie, so only the others have patches.
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer.h"
#include <math.h>
#include <string.h>

/* ---- Sizes and strides of each kind --------------------------------------------------------- */

/* Dimensions [first, last) of t as one. */
static struct gram_axes axes_of(const gram_tensor *t, int first, int last)
{
    struct gram_axes a = {0};

    for (int i = first; i < last; i++) {
        if (t->shape[i] == 1)
            continue;
        if (a.ndim > 0 && a.stride[a.ndim - 1] == t->shape[i] * t->stride[i]) {
            a.shape[a.ndim - 1] *= t->shape[i];
            a.stride[a.ndim - 1] = t->stride[i];
        } else {
            a.shape[a.ndim] = t->shape[i];
            a.stride[a.ndim++] = t->stride[i];
        }
    }
    return a;
}

static int64_t count_of(const gram_tensor *t, int first, int last)
{
    int64_t count = 1;

    for (int i = first; i < last; i++)
        count *= t->shape[i];
    return count;
}

static gram_status check_dims(gram_context *g, const char *name, const gram_tensor *t, int least,
                              int most)
{
    struct gram_batch batch = {.count = 1};

    TRY(gram_batch_join(g, &batch, name, t, 0));
    if (t->ndim < least || t->ndim > most)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         least == most ? "%s has %d dimensions, expected %d"
                                       : "%s has %d dimensions, expected %d to %d",
                         name, (int)t->ndim, least, most);
    return GRAM_OK;
}

/* Sizes [first, last) of the gradients are those of the activations. */
static gram_status check_alike(gram_context *g, const gram_tensor *a, const gram_tensor *d,
                               int first, int last)
{
    for (int i = first; i < last; i++)
        if (a->shape[i] != d->shape[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "gradients has size %lld in dimension %d, expected %lld",
                             (long long)d->shape[i], i, (long long)a->shape[i]);
    return GRAM_OK;
}

static struct gram_layer_side side_of(const gram_tensor *t, struct gram_axes feature,
                                      struct gram_axes position)
{
    return (struct gram_layer_side){.data = t->data,
                                    .dtype = t->dtype,
                                    .sample_stride = t->stride[0],
                                    .feature = feature,
                                    .position = position};
}

/* (N, S..., features), features of the last `own` dimensions. */
static struct gram_layer_side rows_side(const gram_tensor *t, int own)
{
    return side_of(t, axes_of(t, t->ndim - own, t->ndim), axes_of(t, 1, t->ndim - own));
}

/* (N, features, S...) */
static struct gram_layer_side planes_side(const gram_tensor *t)
{
    return side_of(t, axes_of(t, 1, 2), axes_of(t, 2, t->ndim));
}

static gram_status describe_linear(gram_context *g, const gram_tensor *a, const gram_tensor *d,
                                   struct gram_layer_op *op)
{
    if (a)
        TRY(check_dims(g, "activations", a, 2, GRAM_MAX_DIMS));
    if (d)
        TRY(check_dims(g, "gradients", d, 2, GRAM_MAX_DIMS));
    if (a && d) {
        TRY(check_dims(g, "gradients", d, a->ndim, a->ndim));
        TRY(check_alike(g, a, d, 0, a->ndim - 1));
    }
    if (a) {
        op->positions = count_of(a, 1, a->ndim - 1);
        op->in = a->shape[a->ndim - 1];
        op->a = rows_side(a, 1);
    }
    if (d) {
        op->positions = count_of(d, 1, d->ndim - 1);
        op->out = d->shape[d->ndim - 1];
        op->g = rows_side(d, 1);
    }
    return GRAM_OK;
}

/* One of the convolution's sizes: at least `least`, and small enough for sums of them. */
static gram_status check_size(gram_context *g, const char *name, int64_t value, int64_t least)
{
    if (value < least || value > INT32_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "layer.%s is %lld, expected %lld to %lld", name,
                         (long long)value, (long long)least, (long long)INT32_MAX);
    return GRAM_OK;
}

/* The convolution's own sizes, into op; dimension i of spatial ones is i + 3 - spatial there. */
static gram_status check_geometry(gram_context *g, const gram_layer *layer,
                                  struct gram_layer_op *op)
{
    int first = 3 - layer->spatial;

    for (int i = 0; i < 3; i++) {
        bool there = i >= first;
        op->kernel[i] = there ? layer->kernel[i - first] : 1;
        op->stride[i] = there ? layer->stride[i - first] : 1;
        op->padding[i] = there ? layer->padding[i - first] : 0;
        op->dilation[i] = there ? layer->dilation[i - first] : 1;
        op->size[i] = op->place[i] = 1;
        op->size_stride[i] = 0;
        TRY(check_size(g, "kernel", op->kernel[i], 1));
        TRY(check_size(g, "stride", op->stride[i], 1));
        TRY(check_size(g, "padding", op->padding[i], 0));
        TRY(check_size(g, "dilation", op->dilation[i], 1));
        op->patches |= op->kernel[i] != 1 || op->stride[i] != 1 || op->padding[i] != 0;
    }
    return GRAM_OK;
}

static gram_status check_channels(gram_context *g, const char *name, int64_t channels,
                                  int64_t groups)
{
    if (groups < 1 || channels % groups != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "layer.groups is %lld, expected a divisor of the %lld channels of %s",
                         (long long)groups, (long long)channels, name);
    return GRAM_OK;
}

/* Positions from the input's size: (X + 2 padding - dilation (kernel - 1) - 1) / stride + 1. */
static gram_status place_kernel(gram_context *g, const gram_tensor *a, int first,
                                struct gram_layer_op *op)
{
    for (int i = first; i < 3; i++) {
        int64_t x = a->shape[2 + i - first], room;
        if (x > INT64_MAX / 4)
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of activations overflows");
        room = x + 2 * op->padding[i] - op->dilation[i] * (op->kernel[i] - 1) - 1;
        op->size[i] = x;
        op->size_stride[i] = a->stride[2 + i - first];
        op->place[i] = room < 0 ? 0 : room / op->stride[i] + 1;
    }
    return GRAM_OK;
}

static gram_status describe_inputs(gram_context *g, const gram_layer *layer, const gram_tensor *a,
                                   struct gram_layer_op *op)
{
    bool overflows;

    TRY(check_dims(g, "activations", a, layer->spatial + 2, layer->spatial + 2));
    TRY(check_channels(g, "activations", a->shape[1], layer->groups));
    TRY(place_kernel(g, a, 3 - layer->spatial, op));
    op->channels = a->shape[1] / layer->groups;
    overflows = __builtin_mul_overflow(op->channels, op->kernel[0], &op->in) ||
                __builtin_mul_overflow(op->in, op->kernel[1], &op->in) ||
                __builtin_mul_overflow(op->in, op->kernel[2], &op->in) ||
                __builtin_mul_overflow(op->place[0], op->place[1], &op->positions) ||
                __builtin_mul_overflow(op->positions, op->place[2], &op->positions);
    if (overflows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of the patches overflows");
    op->a = planes_side(a);
    return GRAM_OK;
}

static gram_status describe_convolution(gram_context *g, const gram_layer *layer,
                                        const gram_tensor *a, const gram_tensor *d,
                                        struct gram_layer_op *op)
{
    if (layer->spatial < 1 || layer->spatial > 3)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "layer.spatial is %d, expected 1, 2 or 3",
                         layer->spatial);
    TRY(check_geometry(g, layer, op));
    op->groups = layer->groups;
    op->spatial = layer->spatial;
    if (a)
        TRY(describe_inputs(g, layer, a, op));
    if (!d)
        return GRAM_OK;
    TRY(check_dims(g, "gradients", d, layer->spatial + 2, layer->spatial + 2));
    TRY(check_channels(g, "gradients", d->shape[1], layer->groups));
    for (int i = 0; a && i < layer->spatial; i++)
        if (d->shape[2 + i] != op->place[3 - layer->spatial + i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "gradients has size %lld in dimension %d, expected %lld positions",
                             (long long)d->shape[2 + i], 2 + i,
                             (long long)op->place[3 - layer->spatial + i]);
    if (a)
        TRY(check_alike(g, a, d, 0, 1));
    op->positions = count_of(d, 2, d->ndim);
    op->out = d->shape[1] / layer->groups;
    op->g = planes_side(d);
    return GRAM_OK;
}

static gram_status describe_embedding(gram_context *g, const gram_layer *layer,
                                      const gram_tensor *a, const gram_tensor *d,
                                      struct gram_layer_op *op)
{
    if (layer->rows < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "layer.rows is %lld, expected at least 0",
                         (long long)layer->rows);
    TRY(check_dims(g, "activations", a, 1, GRAM_MAX_DIMS - 1));
    if (a->dtype != GRAM_I32 && a->dtype != GRAM_I64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "activations has dtype %s, expected i32 or i64",
                         gram_dtype_name(a->dtype));
    op->in = layer->rows;
    op->padding_row = layer->padding_row;
    op->positions = count_of(a, 1, a->ndim);
    op->a = rows_side(a, 0);
    if (!d)
        return GRAM_OK;
    TRY(check_dims(g, "gradients", d, a->ndim + 1, a->ndim + 1));
    TRY(check_alike(g, a, d, 0, a->ndim));
    op->out = d->shape[d->ndim - 1];
    op->g = rows_side(d, 1);
    return GRAM_OK;
}

static gram_status describe_norm(gram_context *g, const gram_layer *layer, const gram_tensor *a,
                                 const gram_tensor *d, struct gram_layer_op *op)
{
    bool whole = layer->kind == GRAM_LAYER_NORM;
    int own = whole ? layer->normalized : 1;

    if (whole && own < 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "layer.normalized is %d, expected at least 1",
                         own);
    if (!(layer->epsilon > 0 && layer->epsilon < INFINITY))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "layer.epsilon is %g, expected a finite number of more than 0",
                         layer->epsilon);
    TRY(check_dims(g, "activations", a, own + 1, GRAM_MAX_DIMS));
    TRY(check_dims(g, "gradients", d, a->ndim, a->ndim));
    TRY(check_alike(g, a, d, 0, a->ndim));
    op->epsilon = layer->epsilon;
    op->normalized = own;
    if (whole) {
        op->in = count_of(a, a->ndim - own, a->ndim);
        op->positions = count_of(a, 1, a->ndim - own);
        op->a = rows_side(a, own), op->g = rows_side(d, own);
    } else {
        TRY(check_channels(g, "activations", a->shape[1], layer->groups));
        op->groups = layer->groups;
        op->in = a->shape[1];
        op->positions = count_of(a, 2, a->ndim);
        op->a = planes_side(a), op->g = planes_side(d);
    }
    op->out = op->in;
    return GRAM_OK;
}

static gram_status describe_kind(gram_context *g, const gram_layer *layer, const gram_tensor *a,
                                 const gram_tensor *d, struct gram_layer_op *op)
{
    switch (layer->kind) {
    case GRAM_LAYER_LINEAR:
        return describe_linear(g, a, d, op);
    case GRAM_LAYER_CONVOLUTION:
        return describe_convolution(g, layer, a, d, op);
    case GRAM_LAYER_EMBEDDING:
        return describe_embedding(g, layer, a, d, op);
    case GRAM_LAYER_NORM:
    case GRAM_LAYER_GROUP_NORM:
        return describe_norm(g, layer, a, d, op);
    }
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "layer.kind is %d, expected a gram_layer_kind",
                     (int)layer->kind);
}

/* ---- The layer ------------------------------------------------------------------------------ */

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
    TRY(describe_kind(g, &layer, a, d, op));
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
                                      .row = axes_of(t, leading, leading + rows),
                                      .col = axes_of(t, leading + rows, t->ndim)};
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
