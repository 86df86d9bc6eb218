/*
 * py_input.c - views an argument as a gram_tensor, by the protocols of its type or by conversion
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <string.h>

/* Whether an object without a protocol of arrays is a list or can be converted to an array, as data
 * frames can; -1 with an exception. */
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
    BYTES,   /* the same, and bytes are such */
    WRITTEN
};

/* Views an array by the protocols of its type: 1 if it was viewed, 0 if it has none, PY_INTEGERS,
 * or -1. */
static int view_as_is(struct py_call *call, struct py_array *array, bool write)
{
    int found = py_view_exchange(call, array, write);

    if (!found && !array->type.is_frozen && !array->type.is_cuda)
        found = py_view_buffer(call, array, write);
    if (!found)
        found = py_view_capsule(call, array, write);
    return found;
}

/* Replaces the object by an array, whose reference is taken. */
static int replace(struct py_call *call, struct py_array *array, PyObject *made)
{
    py_release(array);
    array->hold = PY_BORROWED;
    array->made = made;
    array->object = made;
    return py_type_of(call->state, made, &array->type) ? -1 : view_as_is(call, array, false);
}

/* The rank of what gram._arrays.numbers has converted: -1 a list, 0 floats, else the bytes of an
 * integer. */
static enum py_rank rank_of(int bytes)
{
    if (bytes <= 0)
        return bytes < 0 ? PY_OPEN : PY_FLOATS;
    return bytes == 1 ? PY_WHOLE_8 : bytes == 2 ? PY_WHOLE_16 : PY_WHOLE_64;
}

/* Replaces the object by an array of numbers, which gram._arrays.numbers makes of it. */
static int convert(struct py_call *call, struct py_array *array, enum kind kind)
{
    const struct py_array *first = &call->array[0];
    PyObject *function = py_helper(call->state, "numbers"), *found = NULL, *made;
    gram_dtype dtype = GRAM_F64;
    int bytes;

    if (kind == NUMBERS && first != array && first->tensor.dtype == GRAM_F32)
        dtype = GRAM_F32;
    if (function)
        found = PyObject_CallFunction(function, "ssOs", call->function, array->name, array->object,
                                      py_dtype_name(dtype));
    Py_XDECREF(function);
    if (!found || !PyArg_ParseTuple(found, "Oi", &made, &bytes)) {
        Py_XDECREF(found);
        return -1;
    }
    Py_INCREF(made);
    Py_DECREF(found);
    array->rank = rank_of(bytes);
    return replace(call, array, made);
}

/* Refuses integers of a dtype that the library does not support, for arguments that are not
 * converted. */
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

/* Describes a gram.Shape as a row-major tensor without gaps, at an address of its own without
 * memory. */
static int take_shape(struct py_call *call, PyObject *sizes, gram_tensor *t)
{
    const uintptr_t address = ((uintptr_t)1 << 61) + ((uintptr_t)(call->count + 1) << 56);
    int64_t stride = 1;

    t->ndim = (int)PyTuple_Size(sizes);
    if (t->ndim > GRAM_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: a gram.Shape has %d dimensions, expected at most %d",
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

/* Views a gram.Shape, which stands for an array in a query: 1, 0 if the object is not one, or
 * -1. */
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
                     "%s: %s is a gram.Shape, which has no elements, expected an array; only "
                     "gram.workspace takes a gram.Shape, for a matrix",
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
    /* The functions of PyTorch do not accept integers for floating-point tensors, and gram.torch
     * relies on the same rule here. */
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

/* The rank of a viewed array; convert has already set that of the arrays that it made. */
static enum py_rank final_rank(const struct py_array *array, enum kind kind)
{
    if (kind == VALUES || kind == WRITTEN)
        return PY_SILENT;
    if (kind == RAW || kind == BYTES || array->hold != PY_BUFFER)
        return PY_FIXED;
    return array->rank == PY_SILENT ? PY_FLOATS : array->rank;
}

static gram_tensor *view(struct py_call *call, const char *name, PyObject *object, enum kind kind)
{
    struct py_array *array = &call->array[call->count];

    if (call->count == call->most) {
        PyErr_Format(PyExc_ValueError, "%s: there are too many arrays", call->function);
        return NULL;
    }
    array->object = object;
    array->name = name;
    array->hold = PY_BORROWED;
    array->made = NULL;
    array->rank = PY_SILENT;
    array->of_bytes = kind == BYTES;
    if (py_type_of(call->state, object, &array->type))
        return NULL;
    if (array->type.is_masked) {
        PyErr_Format(PyExc_TypeError, "%s: %s has masked elements; pass %s.filled(value)",
                     call->function, name, name);
        return NULL;
    }
    if (view_array(call, array, kind) == 1) {
        array->rank = final_rank(array, kind);
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

gram_tensor *py_bytes_input(struct py_call *call, const char *name, PyObject *object)
{
    return view(call, name, object, BYTES);
}

gram_tensor *py_inout(struct py_call *call, const char *name, PyObject *object)
{
    return view(call, name, object, WRITTEN);
}

/* ---- One dtype for all inputs ---------------------------------------------------------------- */

/* The dtype that all inputs have in common, as numpy.result_type says.  False where they stay as
 * they are: without integers and lists, or with arrays that are not converted here. */
static bool common_dtype(const struct py_call *call, gram_dtype *out, bool *whole)
{
    size_t bytes = 0;
    bool open = false, floats = false;

    *whole = false;
    for (int i = 0; i < call->count; i++) {
        const struct py_array *array = &call->array[i];
        size_t least = array->rank == PY_WHOLE_16   ? sizeof(float)
                       : array->rank == PY_WHOLE_64 ? sizeof(double)
                                                    : 0;
        if (array->rank == PY_FIXED)
            return false;
        if (array->rank == PY_FLOATS) {
            least = gram_dtype_size(array->tensor.dtype);
            floats = true;
        }
        open |= array->rank == PY_OPEN;
        *whole |= array->rank >= PY_WHOLE_8;
        bytes = bytes > least ? bytes : least;
    }
    *out = !floats || bytes == sizeof(double) ? GRAM_F64
           : bytes == sizeof(float)           ? GRAM_F32
                                              : GRAM_F16;
    return open || *whole;
}

int py_promote(struct py_call *call)
{
    gram_dtype dtype;
    bool whole;

    if (!common_dtype(call, &dtype, &whole))
        return 0;
    for (int i = 0; i < call->count; i++) {
        struct py_array *array = &call->array[i];
        PyObject *function, *made = NULL;
        if (array->rank == PY_SILENT || array->tensor.dtype == dtype ||
            (array->rank == PY_FLOATS && !whole))
            continue;
        function = py_helper(call->state, "cast");
        if (function)
            made = PyObject_CallFunction(function, "Os", array->object, py_dtype_name(dtype));
        Py_XDECREF(function);
        if (!made || replace(call, array, made) != 1)
            return -1;
    }
    return 0;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

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
