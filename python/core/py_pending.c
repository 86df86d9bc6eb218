/*
 * py_pending.c - gram.Pending: the results of a call that goes on in the background
 *
 * Until the work has ended, the object keeps the context of the call, so that no other call gets
 * it, and the arrays that the work reads and writes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_types.h"

struct pending_object {
    PyObject head;
    PyObject *owner; /* the module gram._core, whose state the call uses */
    PyObject *kept[PY_MOST_ARRAYS];
    struct py_call call;
    bool open; /* the call has not ended */
    bool busy; /* a thread waits for it */
    PyObject *result;
};

/* Waits, and takes the results of the call, NULL with an exception. */
static PyObject *end(struct pending_object *self)
{
    gram_status status;
    PyObject *result;

    self->busy = true;
    PY_WORK(status, gram_eigh_wait(self->call.g));
    self->busy = self->open = false;
    result = py_end(&self->call, status);
    for (int i = 0; i < PY_MOST_ARRAYS; i++)
        Py_CLEAR(self->kept[i]);
    return result;
}

static void pending_dealloc(PyObject *object)
{
    struct pending_object *self = (struct pending_object *)object;

    if (self->open) { /* nobody wants to know, but the arrays must stay until then */
        PyObject *raised[3];
        PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
        Py_XDECREF(end(self));
        PyErr_Restore(raised[0], raised[1], raised[2]);
    }
    Py_XDECREF(self->result);
    py_delete(object, self->owner);
}

PyObject *py_pending(struct py_call *call, PyObject *module)
{
    struct pending_object *self = py_new(call->state->pending_type);

    if (!self) {
        gram_status status;
        PY_WORK(status, gram_eigh_wait(call->g));
        (void)status; /* out of memory is what is told */
        return py_fail(call);
    }
    self->owner = Py_NewRef(module);
    py_move(&self->call, call);
    self->open = true;
    for (int i = 0; i < call->count; i++)
        self->kept[i] = Py_XNewRef(call->array[i].object);
    return (PyObject *)self;
}

static PyObject *pending_result(PyObject *object, PyObject *unused)
{
    struct pending_object *self = (struct pending_object *)object;

    (void)unused;
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError,
                        "gram.Pending.result: another thread is waiting for it already");
        return NULL;
    }
    if (self->open)
        self->result = end(self);
    else if (!self->result)
        PyErr_SetString(PyExc_RuntimeError, "gram.Pending.result: the work has failed already");
    return Py_XNewRef(self->result);
}

static const char pending_doc[] =
    "The results of gram.eigh(..., background=True), which are computed meanwhile.\n\n"
    "result() waits for the work, in the order of the stream of the call, and returns what\n"
    "the call would have returned, or raises its exception.  Until then, do not use the\n"
    "arrays of the call, which are kept alive.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> work = gram.eigh(np.diag([3.0, 1.0]), vectors=False, background=True)\n"
    ">>> work.result().tolist()\n"
    "[1.0, 3.0]\n";

static PyMethodDef methods[] = {
    {"result", pending_result, METH_NOARGS,
     "result()\n--\n\nWaits; what the call gives, or its exception."},
    {    NULL,           NULL,           0,                     NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)pending_dealloc},
    {Py_tp_methods,         (void *)methods},
    {    Py_tp_doc,     (void *)pending_doc},
    {            0,                    NULL},
};

PyType_Spec py_pending_spec = {
    .name = "gram.Pending",
    .basicsize = sizeof(struct pending_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
