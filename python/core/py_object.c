/*
 * py_object.c - the code that the types of gram._core share: creating and deleting objects, and
 * calls that return lists
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"

void *py_new(PyTypeObject *type)
{
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void py_delete(PyObject *object, PyObject *owner)
{
    PyTypeObject *type = Py_TYPE(object);

    Py_XDECREF(owner);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF((PyObject *)type);
}

int py_take(bool *busy, const char *function, const char *what)
{
    if (!*busy) {
        *busy = true;
        return 0;
    }
    PyErr_Format(PyExc_RuntimeError, "%s: another thread is using this %s", function, what);
    return -1;
}

PyObject *py_open_list(struct py_call *call, struct py_state *state, const char *function)
{
    PyObject *list = PyList_New(0);

    if (list && py_open(call, state, function))
        Py_CLEAR(list);
    return list;
}

void py_add(PyObject **list, PyObject *item)
{
    if (!item || PyList_Append(*list, item))
        Py_CLEAR(*list);
    Py_XDECREF(item);
}

PyObject *py_end_list(struct py_call *call, PyObject *list, gram_status status)
{
    if (status == GRAM_OK) {
        py_close(call);
        return list;
    }
    Py_XDECREF(list);
    return py_end(call, status);
}

PyObject *py_end_none(struct py_call *call, gram_status status)
{
    if (status != GRAM_OK)
        return py_end(call, status);
    py_close(call);
    Py_RETURN_NONE;
}
