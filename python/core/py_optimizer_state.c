/*
 * py_optimizer_state.c - a state tensor of an optimizer by the buffer protocol
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_optimizer.h"

/* The object of a memoryview, which keeps alive the optimizer whose memory it shows. */
struct state_object {
    PyObject head;
    PyObject *optimizer;
    gram_tensor tensor;
    void *copy; /* of a GPU's: what the view shows; else NULL */
    Py_ssize_t shape[GRAM_MAX_DIMS], strides[GRAM_MAX_DIMS];
};

/* Its elements in the words of the module struct; bfloat16, which has none, as 16-bit integers. */
static const char *format_of(gram_dtype dtype, Py_ssize_t *bytes)
{
    switch (dtype) {
    case GRAM_F32:
        *bytes = sizeof(float);
        return "f";
    case GRAM_F64:
        *bytes = sizeof(double);
        return "d";
    case GRAM_I32:
        *bytes = sizeof(int32_t);
        return "i";
    case GRAM_I64:
        *bytes = sizeof(int64_t);
        return "q";
    case GRAM_F16:
        *bytes = sizeof(uint16_t);
        return "e";
    default:
        *bytes = sizeof(uint16_t);
        return "h";
    }
}

static int get_buffer(PyObject *object, Py_buffer *view, int flags)
{
    struct state_object *self = (struct state_object *)object;
    const gram_tensor *t = &self->tensor;
    const char *format = format_of(t->dtype, &view->itemsize);

    view->obj = Py_NewRef(object);
    view->buf = self->copy ? self->copy : t->data;
    view->readonly = 0;
    view->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
    view->ndim = t->ndim;
    view->shape = self->shape;
    view->strides = self->strides;
    view->suboffsets = NULL;
    view->internal = NULL;
    view->len = view->itemsize;
    for (int i = 0; i < t->ndim; i++) {
        self->shape[i] = (Py_ssize_t)t->shape[i];
        self->strides[i] = (Py_ssize_t)t->stride[i] * view->itemsize;
        view->len *= self->shape[i];
    }
    return 0;
}

static void dealloc(PyObject *object)
{
    struct state_object *self = (struct state_object *)object;

    PyMem_Free(self->copy);
    py_delete(object, self->optimizer);
}

/* Copies between the copy and the device in either direction, and waits. */
static int move(const struct py_optimizer *o, void *to, const void *from, size_t bytes)
{
    gram_status status = gram_memory_copy(o->g, to, from, bytes);

    if (status == GRAM_OK)
        status = gram_context_synchronize(o->g);
    if (status == GRAM_OK)
        return 0;
    py_raise(o->state, o->g, status);
    return -1;
}

static size_t bytes_of(const gram_tensor *t)
{
    Py_ssize_t size;

    (void)format_of(t->dtype, &size);
    for (int i = 0; i < t->ndim; i++)
        size *= (Py_ssize_t)t->shape[i];
    return (size_t)size;
}

static int copy_here(const struct py_optimizer *o, struct state_object *object)
{
    size_t bytes = bytes_of(&object->tensor);

    object->copy = PyMem_Malloc(bytes + 1);
    if (object->copy)
        return bytes > 0 ? move(o, object->copy, object->tensor.data, bytes) : 0;
    PyErr_NoMemory();
    return -1;
}

int py_optimizer_put(const struct py_optimizer *self, PyObject *view)
{
    PyObject *base = PyObject_GetAttrString(view, "obj"); /* of a memoryview: what is under it */
    struct state_object *object = (struct state_object *)base;
    size_t bytes;
    int result = 0;

    if (!base)
        return -1;
    if (!PyObject_TypeCheck(base, self->state->optimizer_state_type) ||
        object->optimizer != (PyObject *)self) {
        PyErr_SetString(PyExc_TypeError,
                        "gram.optim: the tensor is not part of this optimizer's state");
        result = -1;
    } else {
        bytes = bytes_of(&object->tensor);
        if (object->copy && bytes > 0)
            result = move(self, object->tensor.data, object->copy, bytes);
    }
    Py_DECREF(base);
    return result;
}

PyObject *py_optimizer_view(struct py_optimizer *self, const gram_tensor *t)
{
    struct state_object *object = py_new(self->state->optimizer_state_type);
    PyObject *view;

    if (!object)
        return NULL;
    object->optimizer = Py_NewRef((PyObject *)self);
    object->tensor = *t;
    view = self->g && copy_here(self, object) ? NULL : PyMemoryView_FromObject((PyObject *)object);
    Py_DECREF((PyObject *)object);
    return view;
}

static PyType_Slot slots[] = {
    {  Py_tp_dealloc,                                         (void *)dealloc},
    {Py_bf_getbuffer,                                      (void *)get_buffer},
    {      Py_tp_doc, (void *)"A state tensor of an optimizer, as it is now."},
    {              0,                                                    NULL},
};

PyType_Spec py_optimizer_state_spec = {
    .name = "gram._core.OptimizerState",
    .basicsize = sizeof(struct state_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
