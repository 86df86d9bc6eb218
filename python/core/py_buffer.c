/*
 * py_buffer.c - views an object with the buffer protocol, such as an array of NumPy, as a
 * gram_tensor
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <string.h>

static const struct {
    size_t size;
    gram_dtype dtype;
    char code;
} formats[] = {
    {4, GRAM_F32, 'f'},
    {8, GRAM_F64, 'd'},
    {2, GRAM_F16, 'e'},
    {4, GRAM_I32, 'i'},
    {4, GRAM_I32, 'l'},
    {8, GRAM_I64, 'l'},
    {8, GRAM_I64, 'q'},
    {1,  GRAM_U8, 'B'},
};

static int refuse_dtype(const struct py_call *call, const struct py_array *array,
                        const char *format)
{
    PyObject *dtype = py_attribute(array->object, "dtype");

    if (PyErr_Occurred())
        return -1;
    if (dtype)
        PyErr_Format(PyExc_TypeError,
                     "%s: %s has dtype %S, expected float32, float64, float16, bfloat16, int32 or "
                     "int64",
                     call->function, array->name, dtype);
    else
        PyErr_Format(PyExc_TypeError,
                     "%s: %s has elements of format '%s', expected 'f', 'd', 'e', 'i' or 'q'",
                     call->function, array->name, format);
    Py_XDECREF(dtype);
    return -1;
}

/* Whether the format is that of integers or truth values in the module struct; bytes objects do not
 * count. */
static bool are_integers(const struct py_array *array, const char *code)
{
    return code[0] && !code[1] && strchr("?bBhHiIlLqQnN", code[0]) && !PyBytes_Check(array->object);
}

/* Returns 0, PY_INTEGERS for integers of a dtype that the library does not support, or -1. */
static int find_dtype(const struct py_call *call, struct py_array *array)
{
    const Py_buffer *view = &array->held.view;
    const char *format = view->format ? view->format : "B", *code = format;
    const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    bool foreign = false;

    if (strchr("<>!", *code) && *code)
        foreign = (*code++ != '<') != big;
    else if (*code == '@' || *code == '=')
        code++;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (code[0] != formats[i].code || code[1] || (size_t)view->itemsize != formats[i].size ||
            (formats[i].dtype == GRAM_U8 && !array->of_bytes))
            continue;
        if (foreign) {
            PyErr_Format(PyExc_ValueError,
                         "%s: %s has the byte order of another machine; pass "
                         "%s.astype(%s.dtype.newbyteorder('='))",
                         call->function, array->name, array->name, array->name);
            return -1;
        }
        array->tensor.dtype = formats[i].dtype;
        return 0;
    }
    return are_integers(array, code) ? PY_INTEGERS : refuse_dtype(call, array, format);
}

static int copy_shape(const struct py_call *call, struct py_array *array)
{
    const Py_buffer *view = &array->held.view;
    Py_ssize_t packed = view->itemsize;
    gram_tensor *t = &array->tensor;

    if (view->ndim > GRAM_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %d dimensions, expected at most %d",
                     call->function, array->name, view->ndim, GRAM_MAX_DIMS);
        return -1;
    }
    t->data = view->buf;
    t->device = (gram_device){GRAM_CPU, 0};
    t->ndim = view->ndim;
    if ((uintptr_t)view->buf % (uintptr_t)view->itemsize && view->len) {
        PyErr_Format(PyExc_ValueError, "%s: %s is not aligned to its elements; pass a copy",
                     call->function, array->name);
        return -1;
    }
    for (int i = view->ndim - 1; i >= 0; i--) {
        /* ctypes omits the strides of row-major arrays. */
        Py_ssize_t stride = view->strides ? view->strides[i] : packed;
        if (__builtin_mul_overflow(packed, view->shape[i] > 0 ? view->shape[i] : 1, &packed))
            packed = 0; /* then the array has no elements */
        if (stride % view->itemsize && view->shape[i] > 1) {
            PyErr_Format(PyExc_ValueError,
                         "%s: %s has a stride of %zd bytes, which is not a multiple of its "
                         "element size, %zd; pass a copy",
                         call->function, array->name, stride, view->itemsize);
            return -1;
        }
        t->shape[i] = view->shape[i];
        t->stride[i] = stride / view->itemsize;
    }
    return 0;
}

int py_view_buffer(struct py_call *call, struct py_array *array, bool write)
{
    int found;

    if (!PyObject_CheckBuffer(array->object))
        return 0;
    if (PyObject_GetBuffer(array->object, &array->held.view,
                           write ? PyBUF_RECORDS : PyBUF_RECORDS_RO)) {
        if (!write)
            return py_refuse(call, array, "has elements that are not numbers");
        if (py_drop_exception())
            return -1;
        if (PyObject_GetBuffer(array->object, &array->held.view, PyBUF_RECORDS_RO))
            return py_refuse(call, array, "has elements that are not numbers");
        PyBuffer_Release(&array->held.view);
        PyErr_Format(PyExc_ValueError, "%s: %s is read-only", call->function, array->name);
        return -1;
    }
    array->hold = PY_BUFFER;
    found = find_dtype(call, array);
    if (found)
        return found;
    return copy_shape(call, array) ? -1 : 1;
}
