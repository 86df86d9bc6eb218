/*
 * py_memory.c - gram._core.Memory: bytes of an object, under a memoryview that keeps the object
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_types.h"

struct memory_object {
    PyObject head;
    PyObject *owner;
    void *data;
    Py_ssize_t bytes;
};

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct memory_object *self = (struct memory_object *)object;

    return PyBuffer_FillInfo(view, object, self->data, self->bytes, 0, flags);
}

static void dealloc(PyObject *object)
{
    py_delete(object, ((struct memory_object *)object)->owner);
}

PyObject *py_memory_view(struct py_state *state, PyObject *owner, void *data, Py_ssize_t bytes)
{
    struct memory_object *object = py_new(state->memory_type);
    PyObject *view;

    if (!object)
        return NULL;
    object->owner = Py_NewRef(owner);
    object->data = data;
    object->bytes = bytes;
    view = PyMemoryView_FromObject((PyObject *)object);
    Py_DECREF((PyObject *)object);
    return view;
}

static PyType_Slot slots[] = {
    {  Py_tp_dealloc,                                (void *)dealloc},
    {Py_bf_getbuffer,                             (void *)get_buffer},
    {      Py_tp_doc, (void *)"Memory of an object, which it keeps."},
    {              0,                                           NULL},
};

PyType_Spec py_memory_spec = {
    .name = "gram._core.Memory",
    .basicsize = sizeof(struct memory_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
