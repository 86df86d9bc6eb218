/*
 * py_kfac.c - gram._core.Kfac: the state of K-FAC, which gram/_kfac.py makes public
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_kfac.h"

enum {
    LAYER_NUMBERS = 19 /* of a layer's description: see read_layer */
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
    int corrected, exact, reduce, narrow;

    if (!PyArg_ParseTuple(value, "ppdddppd:Kfac", &corrected, &exact, &o->lambda, &o->decay,
                          &o->kl_clip, &reduce, &narrow, &o->scale))
        return -1;
    o->corrected = corrected;
    o->damping = exact || corrected ? GRAM_KFAC_EXACT : GRAM_KFAC_FACTORED;
    o->setting = reduce ? GRAM_KFAC_REDUCE : GRAM_KFAC_EXPAND;
    o->state = narrow ? GRAM_F32 : GRAM_F64;
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

/* Begins a call on the device of the array; None: on the CPU. */
static int open_at(struct py_call *call, struct py_state *state, PyObject *where)
{
    if (py_open(call, state, "gram.KFAC"))
        return -1;
    if (!py_given(where) || (py_raw_input(call, "where", where) && !py_place(call)))
        return 0;
    py_close(call);
    return -1;
}

/* Kfac(layers, options, where): where is an array of the device that the state is to be on. */
static PyObject *kfac_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    PyObject *list, *numbers, *where = NULL, *owner = PyType_GetModule(type);
    struct layers l = {NULL, NULL, NULL, NULL};
    struct kfac_object *self;
    struct py_call call;
    gram_status status;

    if (!owner || (kwargs && PyDict_Size(kwargs) > 0) ||
        !PyArg_ParseTuple(args, "O!O|O:Kfac", &PyTuple_Type, &list, &numbers, &where) ||
        read_options(numbers, &options))
        return NULL;
    self = py_new(type);
    if (!self)
        return NULL;
    self->state = py_state_of(owner);
    self->owner = Py_NewRef(owner);
    self->layers = PyTuple_Size(list);
    if (read_layers(list, PyTuple_Size(list), &l) || open_at(&call, self->state, where)) {
        release_layers(&l);
        Py_DECREF(self);
        return NULL;
    }
    PY_WORK(status, gram_kfac_create(call.g, l.at, l.inputs, l.outputs, self->layers, &options,
                                     &self->kfac));
    release_layers(&l);
    if (status != GRAM_OK) {
        py_raise(self->state, call.g, status);
        Py_DECREF(self);
        return py_fail(&call);
    }
    if (call.device.type != GRAM_CPU) { /* it keeps the context, which holds its state */
        self->g = call.g;
        call.g = NULL;
    }
    py_close(&call);
    return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
    struct kfac_object *self = (struct kfac_object *)object;

    gram_kfac_destroy(self->kfac);
    gram_context_destroy(self->g);
    py_delete(object, self->owner);
}

PyObject *kfac_end(const struct kfac_object *self, struct py_call *call, gram_status status)
{
    if (status == GRAM_OK)
        return py_end_none(call, status);
    py_raise(call->state, kfac_context(self, call), status);
    return py_fail(call);
}

static PyObject *kfac_set(PyObject *object, PyObject *numbers)
{
    struct kfac_object *self = (struct kfac_object *)object;
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    struct py_call call;
    gram_status status;

    if (read_options(numbers, &options) || py_open(&call, self->state, "gram.KFAC"))
        return NULL;
    if (kfac_take(self, call.function))
        return py_fail(&call);
    status = gram_kfac_set(kfac_context(self, &call), self->kfac, &options);
    self->busy = false;
    return kfac_end(self, &call, status);
}

static PyObject *kfac_info(PyObject *object, PyObject *unused)
{
    struct kfac_object *self = (struct kfac_object *)object;
    gram_kfac_info info = {.size = sizeof info};
    struct py_call call;
    gram_status status;

    (void)unused;
    if (py_open(&call, self->state, "gram.KFAC"))
        return NULL;
    if (kfac_take(self, call.function))
        return py_fail(&call);
    PY_WORK(status, gram_kfac_get(kfac_context(self, &call), self->kfac, &info));
    self->busy = false;
    if (status != GRAM_OK)
        return kfac_end(self, &call, status);
    py_close(&call);
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:d}", "parameters", (long long)info.parameters, "bytes",
                         (long long)info.bytes, "skipped", (long long)info.skipped, "failed",
                         (long long)info.failed, "nu", info.nu);
}

/* ---- State --------------------------------------------------------------------------------- */

/* (name, shape, dtype, memory): a writable memoryview, of a GPU the address. */
static PyObject *part_of(struct kfac_object *self, const char *name, const gram_tensor *t)
{
    PyObject *shape = PyTuple_New(t->ndim), *memory = NULL, *row = NULL;
    Py_ssize_t bytes = (Py_ssize_t)gram_dtype_size(t->dtype);

    for (int d = 0; shape && d < t->ndim; d++) {
        bytes *= (Py_ssize_t)t->shape[d];
        if (PyTuple_SetItem(shape, d, PyLong_FromLongLong(t->shape[d])))
            Py_CLEAR(shape);
    }
    if (shape && t->device.type == GRAM_CPU)
        memory = py_memory_view(self->state, (PyObject *)self, t->data, bytes);
    else if (shape)
        memory = PyLong_FromVoidPtr(t->data);
    if (memory)
        row = Py_BuildValue("(sOsO)", name, shape, py_dtype_name(t->dtype), memory);
    Py_XDECREF(shape);
    Py_XDECREF(memory);
    return row;
}

/* Returns all parts.  Their memory lives as long as the object, which memoryviews keep alive. */
static PyObject *kfac_state(PyObject *object, PyObject *unused)
{
    struct kfac_object *self = (struct kfac_object *)object;
    PyObject *list;
    struct py_call call;
    const char *name;
    gram_tensor t;

    (void)unused;
    list = py_open_list(&call, self->state, "gram.KFAC");
    if (!list)
        return NULL;
    for (int64_t i = 0;
         list && gram_kfac_state_at(kfac_context(self, &call), self->kfac, i, &name, &t) == GRAM_OK;
         i++)
        py_add(&list, part_of(self, name, &t));
    return py_end_list(&call, list, GRAM_OK);
}

/* put(index, array): part index of state(), from an array of the CPU. */
static PyObject *kfac_put(PyObject *object, PyObject *args)
{
    struct kfac_object *self = (struct kfac_object *)object;
    const gram_tensor *part;
    struct py_call call;
    gram_status status;
    long long index;
    PyObject *array;

    if (!PyArg_ParseTuple(args, "LO", &index, &array) ||
        py_open(&call, self->state, "gram.KFAC.put"))
        return NULL;
    part = py_raw_input(&call, "part", array);
    if (!part || kfac_take(self, call.function))
        return py_fail(&call);
    PY_WORK(status, gram_kfac_put(kfac_context(self, &call), self->kfac, index, part));
    self->busy = false;
    return kfac_end(self, &call, status);
}

static PyMethodDef methods[] = {
    {      "update",       kfac_update, METH_VARARGS, NULL},
    {        "feed",         kfac_feed, METH_VARARGS, NULL},
    {     "refresh",      kfac_refresh,  METH_NOARGS, NULL},
    {"precondition", kfac_precondition, METH_VARARGS, NULL},
    {         "set",          kfac_set,       METH_O, NULL},
    {        "info",         kfac_info,  METH_NOARGS, NULL},
    {       "state",        kfac_state,  METH_NOARGS, NULL},
    {         "put",          kfac_put, METH_VARARGS, NULL},
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
