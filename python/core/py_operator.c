/*
 * py_operator.c - the products of an operator: calls of the caller's function
 *
 * The function gets an array of its own, which it may keep, and of its result a copy is taken.
 * Both copies are of n by 8 numbers at most, which is little beside any product.  The library calls
 * from the thread that has called it, so that the function runs on the thread that Python expects.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_operator.h"

static size_t bytes_of(const gram_tensor *t)
{
    return (size_t)(t->shape[0] * t->shape[1]) * gram_dtype_size(t->dtype);
}

/* The vectors of a product as an array of the caller's library, a new reference. */
static PyObject *vectors(const struct py_operator *o, const gram_tensor *in)
{
    struct py_shape shape = {.dtype = in->dtype};
    struct py_call call;
    gram_tensor *to;

    if (py_open(&call, o->call->state, o->call->function))
        return NULL;
    if (!py_raw_input(&call, "like", o->like) || py_place(&call))
        return py_fail(&call);
    py_append(&shape, in->shape[0]);
    py_append(&shape, in->shape[1]);
    to = py_output(&call, "v", NULL, &shape);
    return to ? py_end(&call, gram_memory_copy(call.g, to->data, in->data, bytes_of(in)))
              : py_fail(&call);
}

static int refuse(const struct py_operator *o, const gram_tensor *t, const gram_tensor *out)
{
    const char *function = o->call->function;

    if (t->ndim != 2)
        PyErr_Format(PyExc_ValueError, "%s: the result of %s has %d dimensions, expected 2",
                     function, o->name, (int)t->ndim);
    else if (t->shape[0] != out->shape[0] || t->shape[1] != out->shape[1])
        PyErr_Format(PyExc_ValueError,
                     "%s: the result of %s is (%lld, %lld), expected (%lld, %lld) as its argument",
                     function, o->name, (long long)t->shape[0], (long long)t->shape[1],
                     (long long)out->shape[0], (long long)out->shape[1]);
    else if (t->dtype != out->dtype)
        PyErr_Format(PyExc_ValueError, "%s: the result of %s has dtype %s, expected %s", function,
                     o->name, py_dtype_name(t->dtype), py_dtype_name(out->dtype));
    else if (t->device.type != out->device.type || t->device.index != out->device.index)
        PyErr_Format(PyExc_ValueError,
                     "%s: the result of %s is on another device than its argument", function,
                     o->name);
    else
        return 0;
    return -1;
}

/* An array of the same elements without gaps, a new reference. */
static PyObject *row_major(const struct py_operator *o, PyObject *array)
{
    PyObject *function = py_helper(o->call->state, "row_major"), *made = NULL;

    if (function)
        made = PyObject_CallFunctionObjArgs(function, array, NULL);
    Py_XDECREF(function);
    return made;
}

/* Copies the result of a product. */
static int take(const struct py_operator *o, PyObject *result, gram_tensor *out)
{
    PyObject *plain = row_major(o, result);
    gram_status status = GRAM_OK;
    struct py_call call;
    gram_tensor *t;
    int failed = -1;

    if (!plain || py_open(&call, o->call->state, o->call->function)) {
        Py_XDECREF(plain);
        return -1;
    }
    t = py_raw_input(&call, o->name, plain);
    if (t && !refuse(o, t, out) && !py_place(&call)) {
        status = gram_memory_copy(call.g, out->data, t->data, bytes_of(out));
        if (status != GRAM_OK)
            py_raise(call.state, call.g, status);
        failed = status == GRAM_OK ? 0 : -1;
    }
    py_close(&call);
    Py_DECREF(plain);
    return failed;
}

static int product(const struct py_operator *o, const gram_tensor *in, gram_tensor *out)
{
    PyObject *v, *result;
    int failed = -1;

    if (PyErr_CheckSignals())
        return -1;
    v = vectors(o, in);
    if (!v)
        return -1;
    result = PyCallable_Check(o->function) ? PyObject_CallFunctionObjArgs(o->function, v, NULL)
                                           : PyNumber_MatrixMultiply(o->function, v);
    if (result)
        failed = take(o, result, out);
    Py_XDECREF(result);
    Py_DECREF(v);
    return failed;
}

static gram_status apply(void *user, const gram_tensor *in, gram_tensor *out)
{
    const struct py_operator *o = user;
    int failed;

    PyEval_RestoreThread(*o->saved);
    failed = product(o, in, out);
    *o->saved = PyEval_SaveThread();
    return failed ? GRAM_CANCELLED : GRAM_OK;
}

/* Whether it can be called, or has a product; -1 with an exception if not. */
static int check_function(const struct py_call *call, const char *name, PyObject *function)
{
    PyObject *method;

    if (PyCallable_Check(function))
        return 0;
    method = py_attribute((PyObject *)Py_TYPE(function), "__matmul__");
    Py_XDECREF(method);
    if (method)
        return 0;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "%s: %s is %R, expected a function, or an object with a product",
                     call->function, name, function);
    return -1;
}

const gram_tensor *py_operator_like(struct py_call *call, PyObject *value)
{
    const gram_tensor *like = py_input(call, "like", value);

    if (!like || py_place(call))
        return NULL;
    if (like->ndim >= 1 && like->ndim <= 2)
        return like;
    PyErr_Format(PyExc_ValueError, "%s: like has %d dimensions, expected 1 or 2", call->function,
                 (int)like->ndim);
    return NULL;
}

int py_operator_of(struct py_operator *o, const struct py_call *call, const char *name,
                   PyObject *function, PyThreadState **saved, const struct py_array *like,
                   int64_t n)
{
    *o = (struct py_operator){
        .given = {n, like->tensor.dtype, apply, o},
        .name = name,
        .function = function,
        .like = like->object,
        .call = call,
        .saved = saved
    };
    return check_function(call, name, function);
}
