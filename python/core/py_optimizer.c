/*
 * py_optimizer.c - gram._core.Optimizer: an optimizer of a list of arrays, which gram/optim.py
 * makes public
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_optimizer.h"
#include "py_functions.h"

/* Lists of arrays that are viewed for one call; an entry of None is NULL. */
struct lists {
    PyObject *tuple[3]; /* owned */
    gram_tensor **at[3];
    int count;
};

static const char *const list_names[] = {"parameters", "gradients", "directions"};

static void release_lists(struct lists *l)
{
    for (int i = 0; i < l->count; i++) {
        PyMem_Free(l->at[i]);
        Py_XDECREF(l->tuple[i]);
    }
}

/* Views one list; gradients, and the directions where there is none, may be None. */
static int view_list(struct py_call *call, struct lists *l, int which, bool write)
{
    Py_ssize_t count = PyTuple_Size(l->tuple[which]);
    PyObject *item;

    l->at[which] = PyMem_Calloc((size_t)count + 1, sizeof *l->at[which]);
    if (!l->at[which]) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        item = PyTuple_GetItem(l->tuple[which], i);
        if (item == Py_None && which > 0)
            continue;
        l->at[which][i] = write ? py_inout(call, list_names[which], item)
                                : py_raw_input(call, list_names[which], item);
        if (!l->at[which][i])
            return -1;
    }
    return 0;
}

/* Views `count` lists of the same length.  The bits of `writes` mark the lists that are written. */
static int read_lists(struct py_call *call, struct lists *l, PyObject *const *objects, int count,
                      int writes)
{
    Py_ssize_t length, own;

    *l = (struct lists){.count = count};
    for (int i = 0; i < count; i++)
        if (!(l->tuple[i] = PySequence_Tuple(objects[i])))
            return -1;
    length = PyTuple_Size(l->tuple[0]);
    for (int i = 1; i < count; i++) {
        own = PyTuple_Size(l->tuple[i]);
        if (own == length)
            continue;
        PyErr_Format(PyExc_ValueError, "%s: there are %zd %s but %zd %s", call->function, own,
                     list_names[i], length, list_names[0]);
        return -1;
    }
    if (py_reserve(call, length * count))
        return -1;
    for (int i = 0; i < count; i++)
        if (view_list(call, l, i, writes >> i & 1))
            return -1;
    return py_place(call);
}

static int check_count(const struct py_optimizer *self, const struct py_call *call,
                       const struct lists *l)
{
    if (PyTuple_Size(l->tuple[0]) == self->count)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "%s: there are %zd parameters, but the optimizer was created for %lld",
                 call->function, PyTuple_Size(l->tuple[0]), (long long)self->count);
    return -1;
}

/* The context that the optimizer's calls are made in. */
static gram_context *context_of(const struct py_optimizer *self, const struct py_call *call)
{
    return self->g ? self->g : call->g;
}

static PyObject *fail(const struct py_optimizer *self, struct py_call *call, gram_status status)
{
    py_raise(call->state, context_of(self, call), status);
    return py_fail(call);
}

/* Ends a call that gives None. */
static PyObject *end(const struct py_optimizer *self, struct py_call *call, gram_status status)
{
    return status == GRAM_OK ? py_end_none(call, status) : fail(self, call, status);
}

/* An optimizer on a GPU stays on the stream on which it began, because its state is written in the
 * order of that stream. */
static int check_stream(const struct py_optimizer *self, const struct py_call *call)
{
    bool here = call->device.type != GRAM_CPU;

    if (self->count == 0 || (here == (self->g != NULL) && (!here || call->stream == self->stream)))
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "%s: the arrays are on %s, but the optimizer was created on another device or "
                 "stream",
                 call->function, here ? "a GPU" : "the CPU");
    return -1;
}

/* Takes the optimizer for a thread. */
static int take(struct py_optimizer *self, const char *function)
{
    return py_take(&self->busy, function, "optimizer");
}

static PyObject *report_dict(const gram_optimizer_report *r)
{
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "skipped", (long long)r->skipped, "refreshed",
                         (long long)r->refreshed, "kept", (long long)r->kept, "failed",
                         (long long)r->failed, "first_failed", (long long)r->first_failed);
}

static gram_status run(const struct py_call *call, struct py_optimizer *self, const struct lists *l,
                       gram_optimizer_report *report)
{
    gram_context *g = context_of(self, call);
    const gram_tensor *const *parameters = (const gram_tensor *const *)l->at[0];
    const gram_tensor *const *gradients = (const gram_tensor *const *)l->at[1];

    if (l->count == 2)
        return gram_optimizer_step(g, self->optimizer, l->at[0], gradients, report);
    return gram_optimizer_direction(g, self->optimizer, parameters, gradients, l->at[2], report);
}

/* Makes a step or, with three lists, computes only its directions. */
static PyObject *work(PyObject *object, PyObject *args, int count, const char *function)
{
    struct py_optimizer *self = (struct py_optimizer *)object;
    gram_optimizer_report report = {.size = sizeof report};
    gram_status status = GRAM_OK;
    struct lists l = {.count = 0};
    PyObject *objects[3];
    struct py_call call;

    if (!PyArg_UnpackTuple(args, function, count, count, &objects[0], &objects[1], &objects[2]) ||
        py_open(&call, self->state, function))
        return NULL;
    if (read_lists(&call, &l, objects, count, count == 3 ? 4 : 1) || check_count(self, &call, &l) ||
        check_stream(self, &call) || take(self, function)) {
        release_lists(&l);
        return py_fail(&call);
    }
    PY_WORK(status, run(&call, self, &l, self->g ? NULL : &report));
    self->busy = false;
    release_lists(&l);
    if (status != GRAM_OK)
        return fail(self, &call, status);
    py_close(&call);
    if (self->g) /* it would have to wait */
        Py_RETURN_NONE;
    return report_dict(&report);
}

static PyObject *optimizer_step(PyObject *object, PyObject *args)
{
    return work(object, args, 2, "gram.optim.step");
}

static PyObject *optimizer_direction(PyObject *object, PyObject *args)
{
    return work(object, args, 3, "gram.optim.direction");
}

static PyObject *optimizer_set(PyObject *object, PyObject *dict)
{
    struct py_optimizer *self = (struct py_optimizer *)object;
    gram_optimizer_options options = {.size = sizeof options};
    gram_status status;
    struct py_call call;

    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "gram.optim: the options are not a dict");
        return NULL;
    }
    if (py_open(&call, self->state, "gram.optim.set"))
        return NULL;
    if (take(self, call.function))
        return py_fail(&call);
    status = gram_optimizer_get(context_of(self, &call), self->optimizer, &options, NULL);
    if (status == GRAM_OK && py_optimizer_options(call.function, dict, &options)) {
        self->busy = false;
        return py_fail(&call);
    }
    if (status == GRAM_OK)
        status = gram_optimizer_set(context_of(self, &call), self->optimizer, &options);
    self->busy = false;
    return end(self, &call, status);
}

/* (options, facts), two dicts. */
static PyObject *optimizer_get(PyObject *object, PyObject *unused)
{
    const struct py_optimizer *self = (const struct py_optimizer *)object;
    gram_optimizer_options options = {.size = sizeof options};
    gram_optimizer_info info = {.size = sizeof info};
    gram_status status;
    struct py_call call;
    PyObject *dict;

    (void)unused;
    if (py_open(&call, self->state, "gram.optim.get"))
        return NULL;
    status = gram_optimizer_get(context_of(self, &call), self->optimizer, &options, &info);
    if (status != GRAM_OK)
        return fail(self, &call, status);
    py_close(&call);
    dict = py_optimizer_options_dict(&options);
    if (!dict)
        return NULL;
    return Py_BuildValue("(N{s:L,s:L,s:L,s:L,s:L})", dict, "step", (long long)info.step,
                         "parameters", (long long)info.parameters, "blocks", (long long)info.blocks,
                         "own_blocks", (long long)info.own_blocks, "bytes", (long long)info.bytes);
}

/* [(name, dtype, memoryview), ...] */
static PyObject *optimizer_state(PyObject *object, PyObject *unused)
{
    struct py_optimizer *self = (struct py_optimizer *)object;
    gram_optimizer_info info = {.size = sizeof info};
    PyObject *list, *view;
    gram_status status;
    struct py_call call;
    const char *name;
    gram_tensor t;

    (void)unused;
    list = py_open_list(&call, self->state, "gram.optim.state");
    if (!list)
        return NULL;
    status = gram_optimizer_get(context_of(self, &call), self->optimizer, NULL, &info);
    for (int64_t i = 0; i < info.states && list && status == GRAM_OK; i++) {
        status = gram_optimizer_state_at(context_of(self, &call), self->optimizer, i, &name, &t);
        if (status != GRAM_OK)
            break;
        view = py_optimizer_view(self, &t);
        py_add(&list, view ? Py_BuildValue("(ssN)", name, py_dtype_name(t.dtype), view) : NULL);
    }
    return py_end_list(&call, list, status);
}

/* Writes back views of state() that were changed; on a GPU these are copies. */
static PyObject *optimizer_put(PyObject *object, PyObject *views)
{
    const struct py_optimizer *self = (const struct py_optimizer *)object;
    PyObject *tuple = PySequence_Tuple(views);
    int result = tuple ? 0 : -1;

    for (Py_ssize_t i = 0; result == 0 && i < PyTuple_Size(tuple); i++)
        result = py_optimizer_put(self, PyTuple_GetItem(tuple, i));
    Py_XDECREF(tuple);
    if (result)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *file(PyObject *object, PyObject *path, bool save)
{
    struct py_optimizer *self = (struct py_optimizer *)object;
    struct py_call call;
    gram_status status;
    PyObject *bytes;

    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    if (py_open(&call, self->state, save ? "gram.optim.save" : "gram.optim.load")) {
        Py_DECREF(bytes);
        return NULL;
    }
    if (take(self, call.function)) {
        Py_DECREF(bytes);
        return py_fail(&call);
    }
    PY_WORK(status, (save ? gram_optimizer_save(context_of(self, &call), self->optimizer,
                                                PyBytes_AsString(bytes))
                          : gram_optimizer_load(context_of(self, &call), self->optimizer,
                                                PyBytes_AsString(bytes))));
    self->busy = false;
    Py_DECREF(bytes);
    return end(self, &call, status);
}

static PyObject *optimizer_save(PyObject *object, PyObject *path)
{
    return file(object, path, true);
}

static PyObject *optimizer_load(PyObject *object, PyObject *path)
{
    return file(object, path, false);
}

/* (options, parameters) */
PyObject *py_optimizer_create(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_of(module);
    gram_optimizer_options options = {.size = sizeof options};
    struct lists l = {.count = 0};
    struct py_optimizer *self;
    PyObject *dict, *list;
    struct py_call call;
    gram_status status;

    if (!PyArg_ParseTuple(args, "O!O:optimizer_create", &PyDict_Type, &dict, &list))
        return NULL;
    gram_optimizer_defaults(GRAM_SHAMPOO, &options);
    if (py_optimizer_options("gram.optim", dict, &options) || py_open(&call, state, "gram.optim"))
        return NULL;
    self = py_new(state->optimizer_type);
    if (!self || read_lists(&call, &l, &list, 1, 0)) {
        release_lists(&l);
        Py_XDECREF((PyObject *)self);
        return py_fail(&call);
    }
    self->state = state;
    self->owner = Py_NewRef(module);
    self->count = (int64_t)PyTuple_Size(l.tuple[0]);
    PY_WORK(status, gram_optimizer_create(call.g, &options, (const gram_tensor *const *)l.at[0],
                                          self->count, &self->optimizer));
    release_lists(&l);
    if (status != GRAM_OK) {
        Py_DECREF((PyObject *)self);
        return py_end(&call, status);
    }
    if (call.device.type != GRAM_CPU) { /* it keeps the context, which holds its state */
        self->g = call.g;
        self->stream = call.stream;
        call.g = NULL;
    }
    py_close(&call);
    return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
    struct py_optimizer *self = (struct py_optimizer *)object;

    gram_optimizer_destroy(self->optimizer);
    gram_context_destroy(self->g);
    py_delete(object, self->owner);
}

static PyMethodDef methods[] = {
    {"direction", optimizer_direction, METH_VARARGS, NULL},
    {     "step",      optimizer_step, METH_VARARGS, NULL},
    {      "set",       optimizer_set,       METH_O, NULL},
    {      "get",       optimizer_get,  METH_NOARGS, NULL},
    {    "state",     optimizer_state,  METH_NOARGS, NULL},
    {      "put",       optimizer_put,       METH_O, NULL},
    {     "save",      optimizer_save,       METH_O, NULL},
    {     "load",      optimizer_load,       METH_O, NULL},
    {       NULL,                NULL,            0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc,                         (void *)dealloc},
    {Py_tp_methods,                         (void *)methods},
    {    Py_tp_doc, (void *)"An optimizer; see gram.optim."},
    {            0,                                    NULL},
};

PyType_Spec py_optimizer_spec = {
    .name = "gram._core.Optimizer",
    .basicsize = sizeof(struct py_optimizer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
