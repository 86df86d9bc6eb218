/*
 * py_layer.c - reads the arguments that describe a layer: see py_layer.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_layer.h"

static const char *const kinds[] = {"linear",     "convolution", "embedding",
                                    "layer_norm", "group_norm",  NULL};

/* Reads a number for all spatial dimensions, or a sequence with one for each, whose count goes to
 * *spatial. */
static int numbers(const char *function, const char *name, PyObject *value, int *spatial,
                   int64_t out[3])
{
    Py_ssize_t count;
    int64_t one;

    if (!py_given(value))
        return 0;
    if (!PySequence_Check(value)) {
        if (py_int64(function, name, value, &one))
            return -1;
        for (int i = 0; i < 3; i++)
            out[i] = one;
        return 0;
    }
    count = PySequence_Size(value);
    if (count < 1 || count > 3 || (*spatial && count != *spatial)) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %zd numbers, expected %s", function, name, count,
                     *spatial ? "as many as the spatial dimensions" : "1 to 3");
        return -1;
    }
    *spatial = (int)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int failed = item ? py_int64(function, name, item, &out[i]) : -1;
        Py_XDECREF(item);
        if (failed)
            return -1;
    }
    return 0;
}

static int64_t size_at(const gram_tensor *t, int dim)
{
    return t && dim >= 0 && dim < t->ndim ? t->shape[dim] : 0;
}

static void weight_shape(struct py_layer *l)
{
    const gram_tensor *t = l->a ? l->a : l->d;
    const gram_layer *layer = &l->layer;
    int own = layer->normalized;

    l->weight = (struct py_shape){0};
    l->bias_dims = 1;
    switch (layer->kind) {
    case GRAM_LAYER_LINEAR:
        py_append(&l->weight, l->out);
        py_append(&l->weight, l->in);
        break;
    case GRAM_LAYER_CONVOLUTION:
        py_append(&l->weight, l->out);
        py_append(&l->weight, size_at(l->a, 1) / (layer->groups > 0 ? layer->groups : 1));
        for (int i = 0; i < layer->spatial; i++)
            py_append(&l->weight, layer->kernel[i] > 0 ? layer->kernel[i] : 0);
        break;
    case GRAM_LAYER_EMBEDDING:
        py_append(&l->weight, layer->rows > 0 ? layer->rows : 0);
        py_append(&l->weight, l->out);
        break;
    case GRAM_LAYER_NORM:
        l->bias_dims = own > 0 && own < t->ndim ? own : 1;
        for (int i = 0; i < l->bias_dims; i++)
            py_append(&l->weight, size_at(t, t->ndim - l->bias_dims + i));
        break;
    case GRAM_LAYER_GROUP_NORM:
        py_append(&l->weight, size_at(t, 1));
        break;
    }
}

/* Finds the numbers of features; they are 0 if the arguments do not fit together. */
static void sizes(struct py_layer *l)
{
    const gram_layer *layer = &l->layer;
    bool in_front = layer->kind == GRAM_LAYER_CONVOLUTION;

    l->in = l->a ? size_at(l->a, in_front ? 1 : l->a->ndim - 1) : 0;
    l->out = l->d ? size_at(l->d, in_front ? 1 : l->d->ndim - 1) : 0;
    if (layer->kind == GRAM_LAYER_EMBEDDING)
        l->in = layer->rows;
    if (in_front && layer->groups > 0)
        l->in /= layer->groups;
    for (int i = 0; in_front && i < layer->spatial; i++)
        if (layer->kernel[i] < 0 || __builtin_mul_overflow(l->in, layer->kernel[i], &l->in))
            l->in = 0;
}

int py_layer_place(struct py_call *call, struct py_layer *l)
{
    if (py_place(call))
        return -1;
    l->dtype = (l->d ? l->d : l->a)->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    l->weight.dtype = l->dtype;
    return 0;
}

int py_layer(struct py_call *call, PyObject *const *v, struct py_layer *out)
{
    const char *f = call->function;
    int64_t normalized = 1;
    int kind = GRAM_LAYER_LINEAR, spatial = 0;
    bool bias = true;

    *out = (struct py_layer){.layer = GRAM_LAYER_INIT};
    if (py_choice(f, "kind", v[PY_L_KIND], kinds, &kind) ||
        py_bool(f, "bias", v[PY_L_BIAS], &bias) ||
        numbers(f, "kernel_size", v[PY_L_KERNEL_SIZE], &spatial, out->layer.kernel) ||
        numbers(f, "stride", v[PY_L_STRIDE], &spatial, out->layer.stride) ||
        numbers(f, "padding", v[PY_L_PADDING], &spatial, out->layer.padding) ||
        numbers(f, "dilation", v[PY_L_DILATION], &spatial, out->layer.dilation) ||
        py_int64(f, "groups", v[PY_L_GROUPS], &out->layer.groups) ||
        py_int64(f, "rows", v[PY_L_ROWS], &out->layer.rows) ||
        py_int64(f, "padding_row", v[PY_L_PADDING_ROW], &out->layer.padding_row) ||
        py_int64(f, "normalized", v[PY_L_NORMALIZED], &normalized) ||
        py_double(f, "epsilon", v[PY_L_EPSILON], &out->layer.epsilon))
        return -1;
    if (py_given(v[PY_L_ACTIVATIONS]) &&
        !(out->a = kind == GRAM_LAYER_EMBEDDING
                       ? py_raw_input(call, "activations", v[PY_L_ACTIVATIONS])
                       : py_input(call, "activations", v[PY_L_ACTIVATIONS])))
        return -1;
    if (py_given(v[PY_L_GRADIENTS]) && !(out->d = py_input(call, "gradients", v[PY_L_GRADIENTS])))
        return -1;
    if (!out->a && !out->d) {
        PyErr_Format(PyExc_ValueError,
                     "%s: activations and gradients are None, expected at least one array", f);
        return -1;
    }
    out->layer.kind = (gram_layer_kind)kind;
    out->layer.bias = bias && kind != GRAM_LAYER_EMBEDDING;
    out->layer.normalized = normalized > 0 && normalized <= GRAM_MAX_DIMS ? (int)normalized : 0;
    if (!spatial)
        spatial = (out->a ? out->a : out->d)->ndim - 2;
    out->layer.spatial = spatial >= 1 && spatial <= 3 ? spatial : 2;
    sizes(out);
    weight_shape(out);
    return 0;
}
