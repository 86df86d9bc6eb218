/*
 * py_kfac.c - gram._core.Kfac: the state of K-FAC; gram/_kfac.py is its public face
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_types.h"

struct kfac_object {
    PyObject head;
    struct py_state *state; /* of the module gram._core, which owner keeps alive */
    PyObject *owner;
    gram_kfac *kfac;
    int64_t layers;
    bool busy; /* a thread works with it */
};

enum {
    LAYER_NUMBERS = 19, /* of a layer's description: see read_layer */
    LAYERS_A_CALL = 16  /* whose arrays one py_call views: two each */
};

/* A tuple of whole numbers: kind, inputs, outputs, bias, spatial, groups, padding row, then three
 * each of kernel, stride, padding and dilation. */
static int read_layer(PyObject *value, gram_layer *layer, int64_t sizes[2])
{
    int64_t n[LAYER_NUMBERS];
    PyObject *item;

    for (int i = 0; i < LAYER_NUMBERS; i++) {
        item = PySequence_GetItem(value, i);
        if (!item || py_int64("gram._core.Kfac", "a layer", item, &n[i])) {
            Py_XDECREF(item);
            return -1;
        }
        Py_DECREF(item);
    }
    *layer = (gram_layer)GRAM_LAYER_INIT;
    layer->kind = (gram_layer_kind)n[0];
    sizes[0] = n[1], sizes[1] = n[2];
    layer->bias = n[3] != 0;
    layer->spatial = (int)n[4];
    layer->groups = n[5];
    layer->rows = layer->kind == GRAM_LAYER_EMBEDDING ? n[1] : 0;
    layer->padding_row = n[6];
    for (int i = 0; i < 3; i++) {
        layer->kernel[i] = n[7 + i];
        layer->stride[i] = n[10 + i];
        layer->padding[i] = n[13 + i];
        layer->dilation[i] = n[16 + i];
    }
    return 0;
}

static int read_options(PyObject *value, gram_kfac_options *o)
{
    int corrected, exact, reduce;

    if (!PyArg_ParseTuple(value, "ppdddpd:Kfac", &corrected, &exact, &o->lambda, &o->decay,
                          &o->kl_clip, &reduce, &o->scale))
        return -1;
    o->corrected = corrected;
    o->damping = exact || corrected ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
    o->setting = reduce ? GRAM_KFAC_REDUCE : GRAM_KFAC_EXPAND;
    return 0;
}

/* Layers as the library takes them. */
struct layers {
    gram_layer *layer;
    const gram_layer **at;
    int64_t *inputs, *outputs;
};

static void release_layers(struct layers *l)
{
    PyMem_Free(l->layer);
    PyMem_Free((void *)l->at);
    PyMem_Free(l->inputs);
    PyMem_Free(l->outputs);
}

static int read_layers(PyObject *list, Py_ssize_t count, struct layers *l)
{
    size_t room = (size_t)count + 1;

    *l = (struct layers){PyMem_Calloc(room, sizeof *l->layer),
                         (const gram_layer **)PyMem_Calloc(room, sizeof *l->at),
                         PyMem_Calloc(room, sizeof *l->inputs),
                         PyMem_Calloc(room, sizeof *l->outputs)};
    if (!l->layer || !l->at || !l->inputs || !l->outputs) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t sizes[2];
        if (read_layer(PyTuple_GetItem(list, i), &l->layer[i], sizes))
            return -1;
        l->at[i] = &l->layer[i];
        l->inputs[i] = sizes[0], l->outputs[i] = sizes[1];
    }
    return 0;
}

static PyObject *kfac_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    PyObject *list, *numbers, *owner = PyType_GetModule(type);
    struct layers l = {NULL, NULL, NULL, NULL};
    struct kfac_object *self;
    struct py_call call;
    gram_status status;

    if (!owner || (kwargs && PyDict_Size(kwargs) > 0) ||
        !PyArg_ParseTuple(args, "O!O:Kfac", &PyTuple_Type, &list, &numbers) ||
        read_options(numbers, &options))
        return NULL;
    self = py_new(type);
    if (!self)
        return NULL;
    self->state = py_state_of(owner);
    self->owner = Py_NewRef(owner);
    self->layers = PyTuple_Size(list);
    if (read_layers(list, PyTuple_Size(list), &l) || py_open(&call, self->state, "gram.KFAC")) {
        release_layers(&l);
        Py_DECREF(self);
        return NULL;
    }
    status =
        gram_kfac_create(call.g, l.at, l.inputs, l.outputs, self->layers, &options, &self->kfac);
    release_layers(&l);
    if (status != GRAM_OK) {
        py_raise(self->state, call.g, status);
        Py_DECREF(self);
        return py_fail(&call);
    }
    py_close(&call);
    return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
    struct kfac_object *self = (struct kfac_object *)object;

    gram_kfac_destroy(self->kfac);
    py_delete(object, self->owner);
}

static int take(struct kfac_object *self, const char *function)
{
    return py_take(&self->busy, function, "object");
}

/* update(index, activations, gradients), and feed(index, a, b) with factors. */
static PyObject *learn(PyObject *object, PyObject *args, bool factors)
{
    struct kfac_object *self = (struct kfac_object *)object;
    gram_tensor *a = NULL, *b = NULL;
    gram_status status;
    PyObject *x, *y;
    struct py_call call;
    long long index;

    if (!PyArg_ParseTuple(args, "LOO", &index, &x, &y) ||
        py_open(&call, self->state, factors ? "gram.KFAC.feed" : "gram.KFAC.update"))
        return NULL;
    if ((py_given(x) && !(a = py_input(&call, "a", x))) ||
        (py_given(y) && !(b = py_input(&call, "b", y))) || py_place(&call) ||
        take(self, call.function))
        return py_fail(&call);
    PY_WORK(status, factors ? gram_kfac_feed(call.g, self->kfac, index, a, b)
                            : gram_kfac_update(call.g, self->kfac, index, a, b));
    self->busy = false;
    return py_end_none(&call, status);
}

static PyObject *kfac_update(PyObject *object, PyObject *args)
{
    return learn(object, args, false);
}

static PyObject *kfac_feed(PyObject *object, PyObject *args)
{
    return learn(object, args, true);
}

static PyObject *kfac_refresh(PyObject *object, PyObject *unused)
{
    struct kfac_object *self = (struct kfac_object *)object;
    struct py_call call;
    gram_status status;

    (void)unused;
    if (py_open(&call, self->state, "gram.KFAC.refresh"))
        return NULL;
    if (take(self, call.function))
        return py_fail(&call);
    PY_WORK(status, gram_kfac_refresh(call.g, self->kfac));
    self->busy = false;
    return py_end_none(&call, status);
}

/* The gradients of a call: tensors of all layers, viewed by as many py_calls as they need. */
struct gradients {
    struct py_call *call;
    int calls;
    gram_tensor **weights, **biases;
};

static void release_gradients(struct gradients *d)
{
    while (d->calls > 0)
        py_close(&d->call[--d->calls]);
    PyMem_Free(d->call);
    PyMem_Free(d->weights);
    PyMem_Free(d->biases);
}

static int view_gradients(const struct kfac_object *self, PyObject *weights, PyObject *biases,
                          struct gradients *d)
{
    size_t room = (size_t)self->layers + 1;

    if (PyTuple_Size(weights) != self->layers || PyTuple_Size(biases) != self->layers) {
        PyErr_Format(PyExc_ValueError, "gram.KFAC: %zd weights and %zd biases for %lld layers",
                     PyTuple_Size(weights), PyTuple_Size(biases), (long long)self->layers);
        return -1;
    }
    d->call = PyMem_Calloc(room / LAYERS_A_CALL + 1, sizeof *d->call);
    d->weights = PyMem_Calloc(room, sizeof *d->weights);
    d->biases = PyMem_Calloc(room, sizeof *d->biases);
    if (!d->call || !d->weights || !d->biases) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->layers; i++) {
        PyObject *bias = PyTuple_GetItem(biases, i);
        struct py_call *call = &d->call[i / LAYERS_A_CALL];
        if (i % LAYERS_A_CALL == 0) {
            if (py_open(call, self->state, "gram.KFAC.precondition"))
                return -1;
            d->calls++;
        }
        d->weights[i] = py_inout(call, "weights", PyTuple_GetItem(weights, i));
        if (!d->weights[i] || (bias != Py_None && !(d->biases[i] = py_inout(call, "biases", bias))))
            return -1;
        if ((i % LAYERS_A_CALL == LAYERS_A_CALL - 1 || i == self->layers - 1) && py_place(call))
            return -1;
    }
    return 0;
}

/* precondition(lr, weights, biases): tuples of arrays, in place; a bias may be None. */
static PyObject *kfac_precondition(PyObject *object, PyObject *args)
{
    struct kfac_object *self = (struct kfac_object *)object;
    struct gradients d = {NULL, 0, NULL, NULL};
    PyObject *weights, *biases;
    gram_status status = GRAM_OK;
    double rate;

    if (!PyArg_ParseTuple(args, "dO!O!", &rate, &PyTuple_Type, &weights, &PyTuple_Type, &biases))
        return NULL;
    if (view_gradients(self, weights, biases, &d) || take(self, "gram.KFAC.precondition")) {
        release_gradients(&d);
        return NULL;
    }
    if (d.calls > 0) {
        PY_WORK(status, gram_kfac_precondition(
                            d.call[0].g, self->kfac, rate, (const gram_tensor *const *)d.weights,
                            (const gram_tensor *const *)d.biases, d.weights, d.biases));
        if (status != GRAM_OK)
            py_raise(self->state, d.call[0].g, status);
    }
    self->busy = false;
    release_gradients(&d);
    if (status != GRAM_OK)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *kfac_set(PyObject *object, PyObject *numbers)
{
    struct kfac_object *self = (struct kfac_object *)object;
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    struct py_call call;

    if (read_options(numbers, &options) || py_open(&call, self->state, "gram.KFAC"))
        return NULL;
    if (take(self, call.function))
        return py_fail(&call);
    self->busy = false;
    return py_end_none(&call, gram_kfac_set(call.g, self->kfac, &options));
}

static PyObject *kfac_info(PyObject *object, PyObject *unused)
{
    const struct kfac_object *self = (const struct kfac_object *)object;
    gram_kfac_info info = {.size = sizeof info};
    struct py_call call;
    gram_status status;

    (void)unused;
    if (py_open(&call, self->state, "gram.KFAC"))
        return NULL;
    status = gram_kfac_get(call.g, self->kfac, &info);
    if (status != GRAM_OK)
        return py_end(&call, status);
    py_close(&call);
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:d}", "parameters", (long long)info.parameters, "bytes",
                         (long long)info.bytes, "skipped", (long long)info.skipped, "failed",
                         (long long)info.failed, "nu", info.nu);
}

/* (name, shape, is int64, writable memory) of a part of the state. */
static PyObject *part_of(const char *name, const gram_tensor *t)
{
    PyObject *shape = PyTuple_New(t->ndim), *memory = NULL, *row = NULL;
    Py_ssize_t bytes = 8;

    for (int d = 0; shape && d < t->ndim; d++) {
        bytes *= (Py_ssize_t)t->shape[d];
        if (PyTuple_SetItem(shape, d, PyLong_FromLongLong(t->shape[d])))
            Py_CLEAR(shape);
    }
    memory = shape ? PyMemoryView_FromMemory(t->data, bytes, PyBUF_WRITE) : NULL;
    if (memory)
        row =
            Py_BuildValue("(sOOO)", name, shape, t->dtype == GRAM_I64 ? Py_True : Py_False, memory);
    Py_XDECREF(shape);
    Py_XDECREF(memory);
    return row;
}

/* All parts: their memory lives as long as the object. */
static PyObject *kfac_state(PyObject *object, PyObject *unused)
{
    const struct kfac_object *self = (const struct kfac_object *)object;
    PyObject *list;
    struct py_call call;
    const char *name;
    gram_tensor t;

    (void)unused;
    list = py_open_list(&call, self->state, "gram.KFAC");
    if (!list)
        return NULL;
    for (int64_t i = 0; list && gram_kfac_state_at(call.g, self->kfac, i, &name, &t) == GRAM_OK;
         i++)
        py_add(&list, part_of(name, &t));
    return py_end_list(&call, list, GRAM_OK);
}

static PyMethodDef methods[] = {
    {      "update",       kfac_update, METH_VARARGS, NULL},
    {        "feed",         kfac_feed, METH_VARARGS, NULL},
    {     "refresh",      kfac_refresh,  METH_NOARGS, NULL},
    {"precondition", kfac_precondition, METH_VARARGS, NULL},
    {         "set",          kfac_set,       METH_O, NULL},
    {        "info",         kfac_info,  METH_NOARGS, NULL},
    {       "state",        kfac_state,  METH_NOARGS, NULL},
    {          NULL,              NULL,            0, NULL},
};

static PyType_Slot slots[] = {
    {    Py_tp_new,                                       (void *)kfac_new},
    {Py_tp_dealloc,                                        (void *)dealloc},
    {Py_tp_methods,                                        (void *)methods},
    {    Py_tp_doc, (void *)"The state of K-FAC; see gram_kfac in gram.h."},
    {            0,                                                   NULL},
};

PyType_Spec py_kfac_spec = {
    .name = "gram._core.Kfac",
    .basicsize = sizeof(struct kfac_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
