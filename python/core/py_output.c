/*
 * py_output.c - the outputs of a call: the caller's, or new arrays of the caller's library
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <string.h>

void py_batch(struct py_shape *shape, const gram_tensor *t, int core)
{
    int own = t->ndim - core, ndim = own > shape->ndim ? own : shape->ndim;
    struct py_shape joined = {.dtype = shape->dtype, .ndim = ndim};

    for (int i = 0; i < ndim; i++) { /* sizes that do not fit are the library's to refuse */
        int mine = i - (ndim - own), theirs = i - (ndim - shape->ndim);
        int64_t a = mine < 0 ? 1 : t->shape[mine], b = theirs < 0 ? 1 : shape->size[theirs];
        joined.size[i] = a == 1 ? b : a;
    }
    if (own >= 0)
        *shape = joined;
}

void py_append(struct py_shape *shape, int64_t size)
{
    if (shape->ndim < GRAM_MAX_DIMS)
        shape->size[shape->ndim++] = size;
}

static PyObject *shape_tuple(const struct py_shape *shape)
{
    PyObject *tuple = PyTuple_New(shape->ndim), *size;

    for (int i = 0; tuple && i < shape->ndim; i++) {
        size = PyLong_FromLongLong(shape->size[i]);
        if (!size || PyTuple_SetItem(tuple, i, size))
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* numpy.empty and the dtypes, found at the first use. */
static int find_numpy(struct py_state *state)
{
    PyObject *numpy;

    if (state->numpy_empty)
        return 0;
    numpy = PyImport_ImportModule("numpy");
    if (!numpy)
        return -1;
    for (int i = GRAM_F32; i <= GRAM_I64; i++)
        if (i != GRAM_BF16 && !state->numpy_dtype[i]) {
            PyObject *name = PyObject_GetAttrString(numpy, py_dtype_name((gram_dtype)i));
            state->numpy_dtype[i] = name ? PyObject_CallMethod(numpy, "dtype", "O", name) : NULL;
            Py_XDECREF(name);
            if (!state->numpy_dtype[i])
                break;
        }
    if (state->numpy_dtype[GRAM_I64])
        state->numpy_empty = PyObject_GetAttrString(numpy, "empty");
    Py_DECREF(numpy);
    return state->numpy_empty ? 0 : -1;
}

static PyObject *new_numpy(struct py_call *call, const struct py_shape *shape)
{
    PyObject *tuple, *result;

    if (find_numpy(call->state))
        return NULL;
    tuple = shape_tuple(shape);
    if (!tuple)
        return NULL;
    result = PyObject_CallFunctionObjArgs(call->state->numpy_empty, tuple,
                                          call->state->numpy_dtype[shape->dtype], NULL);
    Py_DECREF(tuple);
    return result;
}

/* Creates an array of any other library in Python: gram._arrays.empty returns an array to write
 * into, and a function that converts it for the caller, or None. */
static int new_foreign(struct py_call *call, const struct py_shape *shape, struct py_result *out)
{
    PyObject *function = py_helper(call->state, "empty"), *tuple = shape_tuple(shape), *pair = NULL;

    if (function && tuple)
        pair = PyObject_CallFunction(function, "OOsii", call->array[0].object, tuple,
                                     py_dtype_name(shape->dtype), (int)call->device.type,
                                     (int)call->device.index);
    Py_XDECREF(function);
    Py_XDECREF(tuple);
    if (pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        out->array = PyTuple_GetItem(pair, 0);
        Py_INCREF(out->array);
        out->finish = PyTuple_GetItem(pair, 1);
        Py_INCREF(out->finish);
    }
    Py_XDECREF(pair);
    return out->array ? 0 : -1;
}

/* Describes an output of a query, at addresses without memory, so that outputs do not overlap. */
static gram_tensor *describe(struct py_call *call, const struct py_shape *shape)
{
    struct py_array *array = &call->array[call->count++];
    gram_tensor *t = &array->tensor;
    const uintptr_t address = ((uintptr_t)1 << 61) + ((uintptr_t)call->count << 56);
    int64_t stride = 1;

    *array = (struct py_array){.name = "out", .hold = PY_BORROWED};
    memcpy(&t->data, &address, sizeof t->data);
    t->dtype = shape->dtype;
    t->device = call->device;
    t->ndim = shape->ndim;
    for (int i = shape->ndim - 1; i >= 0; i--) {
        t->shape[i] = shape->size[i];
        t->stride[i] = stride;
        if (__builtin_mul_overflow(stride, shape->size[i] > 0 ? shape->size[i] : 1, &stride))
            stride = INT64_MAX;
    }
    return t;
}

/* A new array of the library of the first one; result->array is NULL if that failed. */
static gram_tensor *create(struct py_call *call, const char *name, const struct py_shape *shape,
                           struct py_result *result)
{
    const struct py_array *first = &call->array[0];
    struct py_array *array = &call->array[call->count];

    if (first->type.api) {
        *array = (struct py_array){.hold = PY_BORROWED};
        result->array = py_new_exchanged(call, &first->type, array, shape);
        if (!result->array)
            return NULL;
        call->count++;
        return &array->tensor;
    }
    if (first->hold == PY_BUFFER && shape->dtype != GRAM_BF16)
        result->array = new_numpy(call, shape);
    else if (new_foreign(call, shape, result))
        return NULL;
    return result->array ? py_inout(call, name, result->array) : NULL;
}

gram_tensor *py_output(struct py_call *call, const char *name, PyObject *object,
                       const struct py_shape *shape)
{
    struct py_result *result = &call->result[call->result_count];
    gram_tensor *t;

    if (call->count == call->most || call->result_count == PY_MOST_RESULTS) {
        PyErr_Format(PyExc_ValueError, "%s: there are too many arrays", call->function);
        return NULL;
    }
    if (call->query && !py_given(object))
        return describe(call, shape);
    *result = (struct py_result){0};
    if (py_given(object)) {
        t = py_inout(call, name, object);
        if (t) {
            Py_INCREF(object);
            result->array = object;
        }
    } else
        t = create(call, name, shape, result);
    if (result->array)
        call->result_count++;
    return t;
}
