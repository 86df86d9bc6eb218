/*
 * py_input.c - an argument seen as a gram_tensor: by the protocols of its type, or converted
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <string.h>

/* Has the object no protocol of arrays, but is it a list or does it know how to become an array, as
 * data frames do?  -1 with an exception. */
static int is_convertible(PyObject *object)
{
    PyObject *method;

    if (PyList_Check(object) || PyTuple_Check(object))
        return 1;
    method = py_attribute((PyObject *)Py_TYPE(object), "__array__");
    Py_XDECREF(method);
    return method ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* What is no array at all. */
static int refuse_object(const struct py_call *call, const struct py_array *array)
{
    PyObject *name;

    if (PyErr_Occurred())
        return -1;
    name = PyObject_GetAttrString((PyObject *)Py_TYPE(array->object), "__name__");
    if (!name)
        return -1;
    PyErr_Format(PyExc_TypeError,
                 "%s: %s is of type %S, expected an array (of NumPy, PyTorch, JAX, CuPy, or with "
                 "the buffer protocol or DLPack) or a list of numbers",
                 call->function, array->name, name);
    Py_DECREF(name);
    return -1;
}

enum kind {
    NUMBERS, /* integers are converted to the dtype of the call */
    VALUES,  /* integers are converted to float64 */
    RAW,     /* as they are */
    WRITTEN
};

/* By the protocols of its type: 1 viewed, 0 it has none, PY_INTEGERS, or -1. */
static int view_as_is(struct py_call *call, struct py_array *array, bool write)
{
    int found = py_view_exchange(call, array, write);

    if (!found && !array->type.is_frozen && !array->type.is_cuda)
        found = py_view_buffer(call, array, write);
    if (!found)
        found = py_view_capsule(call, array, write);
    return found;
}

/* Puts what the object says in numbers in its place: gram._arrays.numbers does it. */
static int convert(struct py_call *call, struct py_array *array, enum kind kind)
{
    const struct py_array *first = &call->array[0];
    gram_dtype dtype = GRAM_F64;
    PyObject *function;

    py_release(array);
    array->hold = PY_BORROWED;
    if (kind == NUMBERS && first != array && first->tensor.dtype == GRAM_F32)
        dtype = GRAM_F32;
    function = py_helper(call->state, "numbers");
    if (function)
        array->made = PyObject_CallFunction(function, "ssOs", call->function, array->name,
                                            array->object, py_dtype_name(dtype));
    Py_XDECREF(function);
    if (!array->made)
        return -1;
    array->object = array->made;
    return py_type_of(call->state, array->object, &array->type) ? -1
                                                                : view_as_is(call, array, false);
}

/* Integers of a dtype that the library does not know, where they are not converted. */
static int refuse_integers(const struct py_call *call, const struct py_array *array)
{
    PyObject *dtype = py_attribute(array->object, "dtype");

    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "%s: %s has %s%S, expected float32, float64, float16, bfloat16, int32 or "
                     "int64",
                     call->function, array->name, dtype ? "dtype " : "elements of type ",
                     dtype ? dtype : (PyObject *)Py_TYPE(array->object));
    Py_XDECREF(dtype);
    return -1;
}

/* The sizes of a gram.Shape, row by row without gaps, at an address of its own where nothing is. */
static int take_shape(struct py_call *call, PyObject *sizes, gram_tensor *t)
{
    const uintptr_t address = ((uintptr_t)1 << 61) + ((uintptr_t)(call->count + 1) << 56);
    int64_t stride = 1;

    t->ndim = (int)PyTuple_Size(sizes);
    if (t->ndim > GRAM_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: a gram.Shape has %d dimensions, at most %d are offered",
                     call->function, t->ndim, GRAM_MAX_DIMS);
        return -1;
    }
    memcpy(&t->data, &address, sizeof t->data);
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(sizes, i));
        if (t->shape[i] == -1 && PyErr_Occurred())
            return -1;
        t->stride[i] = stride;
        if (__builtin_mul_overflow(stride, t->shape[i] > 0 ? t->shape[i] : 1, &stride))
            stride = INT64_MAX;
    }
    return 0;
}

/* What stands for an array that is not there, in a query: 1, 0 if it is none, or -1. */
static int view_shape(struct py_call *call, struct py_array *array, enum kind kind)
{
    PyObject *told = py_attribute(array->object, "__gram_shape__"), *sizes, *device;
    gram_tensor *t = &array->tensor;
    const char *dtype;
    int found = -1;

    if (!told)
        return PyErr_Occurred() ? -1 : 0;
    if (!call->query || kind == VALUES)
        PyErr_Format(PyExc_TypeError,
                     "%s: %s is a gram.Shape, which has no elements: only queries of a workspace "
                     "take it, for matrices",
                     call->function, array->name);
    else if (PyArg_ParseTuple(told, "O!sO", &PyTuple_Type, &sizes, &dtype, &device)) {
        *t = (gram_tensor){.dtype = GRAM_F64};
        for (int i = GRAM_F32; i <= GRAM_I64; i++)
            if (strcmp(py_dtype_name((gram_dtype)i), dtype) == 0)
                t->dtype = (gram_dtype)i;
        if (!py_device(call->function, device, &t->device) && !take_shape(call, sizes, t))
            found = 1;
    }
    Py_DECREF(told);
    return found;
}

static int view_array(struct py_call *call, struct py_array *array, enum kind kind)
{
    /* PyTorch's own functions take no integers where they want numbers: gram.torch relies on it. */
    bool converts = (kind == NUMBERS || kind == VALUES) && !array->type.is_torch;
    int found = view_as_is(call, array, kind == WRITTEN);

    if (!found)
        found = view_shape(call, array, kind);
    if (found == PY_INTEGERS && !converts)
        return refuse_integers(call, array);
    if (found == 1 && converts)
        found =
            array->tensor.dtype == GRAM_I32 || array->tensor.dtype == GRAM_I64 ? PY_INTEGERS : 1;
    if (!found && kind != WRITTEN)
        found = is_convertible(array->object) > 0 ? PY_INTEGERS : 0;
    if (found == PY_INTEGERS)
        found = convert(call, array, kind);
    return found ? found : refuse_object(call, array);
}

static gram_tensor *view(struct py_call *call, const char *name, PyObject *object, enum kind kind)
{
    struct py_array *array = &call->array[call->count];

    if (call->count == call->most) {
        PyErr_Format(PyExc_ValueError, "%s: too many arrays", call->function);
        return NULL;
    }
    array->object = object;
    array->name = name;
    array->hold = PY_BORROWED;
    array->made = NULL;
    if (py_type_of(call->state, object, &array->type))
        return NULL;
    if (array->type.is_masked) {
        PyErr_Format(PyExc_TypeError, "%s: %s has masked elements; pass %s.filled(value)",
                     call->function, name, name);
        return NULL;
    }
    if (view_array(call, array, kind) == 1) {
        call->count++;
        return &array->tensor;
    }
    py_release(array);
    return NULL;
}

gram_tensor *py_input(struct py_call *call, const char *name, PyObject *object)
{
    return view(call, name, object, NUMBERS);
}

gram_tensor *py_raw_input(struct py_call *call, const char *name, PyObject *object)
{
    return view(call, name, object, RAW);
}

gram_tensor *py_inout(struct py_call *call, const char *name, PyObject *object)
{
    return view(call, name, object, WRITTEN);
}

/* The value of an array without dimensions on the CPU. */
static bool read_number(const gram_tensor *t, double *out)
{
    if (t->ndim || t->device.type != GRAM_CPU)
        return false;
    switch (t->dtype) {
    case GRAM_F32:
        *out = (double)*(const float *)t->data;
        return true;
    case GRAM_F64:
        *out = *(const double *)t->data;
        return true;
    case GRAM_I32:
        *out = (double)*(const int32_t *)t->data;
        return true;
    case GRAM_I64:
        *out = (double)*(const int64_t *)t->data;
        return true;
    default:
        return false;
    }
}

int py_scalar(struct py_call *call, const char *name, PyObject *value, gram_scalar *out)
{
    double number;
    gram_tensor *t;

    if (!value)
        return 0;
    if (PyFloat_Check(value) || PyLong_Check(value)) {
        if (py_double(call->function, name, value, &number))
            return -1;
        *out = gram_number(number);
        return 0;
    }
    if (PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s: %s is %R, expected a number or an array", call->function,
                     name, value);
        return -1;
    }
    t = view(call, name, value, VALUES);
    if (!t)
        return -1;
    if (!read_number(t, &number)) {
        *out = gram_values(t);
        return 0;
    }
    *out = gram_number(number);
    py_release(&call->array[--call->count]);
    return 0;
}
