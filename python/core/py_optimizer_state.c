/*
 * py_optimizer_state.c - a state tensor of an optimizer by the buffer protocol
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_optimizer.h"

/* What is under a memoryview: it keeps the optimizer whose memory it shows. */
struct state_object {
    PyObject head;
    PyObject *optimizer;
    gram_tensor tensor;
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
    view->buf = t->data;
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

    py_delete(object, self->optimizer);
}

PyObject *py_optimizer_view(struct py_optimizer *self, const gram_tensor *t)
{
    struct state_object *object = py_new(self->state->optimizer_state_type);
    PyObject *view;

    if (!object)
        return NULL;
    object->optimizer = Py_NewRef((PyObject *)self);
    object->tensor = *t;
    view = PyMemoryView_FromObject((PyObject *)object);
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
