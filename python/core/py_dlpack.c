/*
 * py_dlpack.c - arrays through DLPack: the C exchange API of their type, or __dlpack__()
 *
 * A capsule is not consumed, but is kept under its own name until the call ends.  Its destructor
 * then frees the export, and the owner keeps the array.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_dlpack.h"
#include "py_core.h"
#include <string.h>

/* The dtype names, for messages and for the helpers in Python. */
const char *py_dtype_name(gram_dtype dtype)
{
    static const char *const names[] = {"",         "float32", "float64", "float16",
                                        "bfloat16", "int32",   "int64"};

    return names[dtype];
}

int py_refuse(const struct py_call *call, const struct py_array *array, const char *why)
{
    PyObject *type, *value, *trace, *new_type, *new_value, *new_trace;

    if (PyErr_Occurred() &&
        (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)))
        return -1;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyErr_Format(PyExc_TypeError, "%s: %s %s", call->function, array->name, why);
    if (!value)
        return -1;
    if (trace)
        PyException_SetTraceback(value, trace);
    PyErr_Fetch(&new_type, &new_value, &new_trace);
    PyErr_NormalizeException(&new_type, &new_value, &new_trace);
    Py_INCREF(value);
    PyException_SetCause(new_value, value);
    PyErr_Restore(new_type, new_value, new_trace);
    Py_DECREF(type);
    Py_DECREF(value);
    Py_XDECREF(trace);
    return -1;
}

/* The truth value of an answer of Python, which is released; -1 if there is none. */
static int truth(PyObject *answer)
{
    int yes = answer == Py_False ? 0 : answer ? PyObject_IsTrue(answer) : -1;

    Py_XDECREF(answer);
    return yes;
}

/* Refuses a tensor, and names the method that returns an acceptable one. */
static int ask_for(const struct py_call *call, const struct py_array *array, const char *trouble,
                   const char *method)
{
    PyErr_Format(PyExc_TypeError, "%s: %s %s; pass %s.%s()", call->function, array->name, trouble,
                 array->name, method);
    return -1;
}

/* Checks two properties of a torch.Tensor that neither protocol reports: that its operations are
 * recorded for gradients, and that its values are to be negated when they are read. */
static int check_torch(const struct py_call *call, const struct py_array *array)
{
    PyObject *answer = PyObject_GetAttr(array->object, call->state->requires_grad);
    int yes = truth(answer);

    if (yes > 0)
        return ask_for(call, array, "requires a gradient, which is not recorded", "detach");
    if (yes < 0)
        return -1;
    yes = truth(PyObject_CallMethodObjArgs(array->object, call->state->is_neg, NULL));
    if (yes > 0)
        return ask_for(call, array, "is a negated view", "resolve_neg");
    return yes;
}

static bool is_empty(const gram_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return true;
    return false;
}

/*
 * CuPy divides a negative stride in bytes by the size of an element as if it were unsigned, so the
 * stride is too large by 2^64 / size.  No true stride reaches 2^60.
 */
static void mend_strides(gram_tensor *t)
{
    uint64_t size = gram_dtype_size(t->dtype);

    for (int i = 0; i < t->ndim; i++)
        if (t->stride[i] >= (int64_t)1 << 60)
            t->stride[i] = (int64_t)((uint64_t)t->stride[i] * size) / (int64_t)size;
}

/* Whether the elements are integers or truth values, which the library may or may not support. */
static bool are_integers(const struct gram_dl_tensor *t)
{
    return t->dtype.lanes == 1 && (t->dtype.code == GRAM_DL_INT || t->dtype.code == PY_DL_UINT ||
                                   t->dtype.code == PY_DL_BOOL);
}

/* 1, PY_INTEGERS or -1. */
static int read_tensor(const struct py_call *call, struct py_array *array,
                       const struct gram_dl_tensor *t)
{
    gram_status status;
    size_t size;

    if (t->ndim < 0 || t->ndim > GRAM_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %d dimensions, expected at most %d",
                     call->function, array->name, (int)t->ndim, GRAM_MAX_DIMS);
        return -1;
    }
    status = gram_tensor_from_dlpack(call->g, t, &array->tensor);
    if (status != GRAM_OK) {
        PyObject *dtype;
        if (are_integers(t) && t->device.type <= GRAM_DL_CUDA)
            return PY_INTEGERS;
        dtype = py_attribute(array->object, "dtype");
        if (PyErr_Occurred())
            return -1;
        if (dtype && t->device.type <= GRAM_DL_CUDA)
            PyErr_Format(PyExc_TypeError,
                         "%s: %s has dtype %S, expected float32, float64, float16, bfloat16, "
                         "int32 or int64",
                         call->function, array->name, dtype);
        else
            py_raise(call->state, call->g, status);
        Py_XDECREF(dtype);
        return -1;
    }
    mend_strides(&array->tensor);
    if (!array->tensor.data && !is_empty(&array->tensor))
        return py_refuse(call, array, "has no memory: it is a fake or meta tensor");
    size = gram_dtype_size(array->tensor.dtype);
    if ((uintptr_t)array->tensor.data % size && !is_empty(&array->tensor))
        return py_refuse(call, array, "is not aligned to its elements; pass a copy");
    return 1;
}

int py_view_exchange(struct py_call *call, struct py_array *array, bool write)
{
    const struct py_exchange *api = array->type.api;
    struct gram_dl_tensor tensor;
    struct py_managed *managed;

    if (!api)
        return 0;
    if (array->type.is_torch && check_torch(call, array))
        return -1;
    if (write && array->type.is_frozen)
        return py_refuse(call, array, "cannot be written");
    if (api->tensor_from) {
        if (api->tensor_from(array->object, &tensor))
            return py_refuse(call, array, "cannot be read as an array of the CPU or a CUDA device");
        return read_tensor(call, array, &tensor);
    }
    if (api->managed_from(array->object, &managed))
        return py_refuse(call, array, "cannot be read as an array of the CPU or a CUDA device");
    array->hold = PY_MANAGED;
    array->held.managed = managed;
    if (write && managed->flags & PY_DL_READ_ONLY)
        return py_refuse(call, array, "is read-only");
    return read_tensor(call, array, &managed->tensor);
}

/* (type, index) of an object's __dlpack_device__(). */
static int device_of(PyObject *object, int32_t *type, int32_t *index)
{
    PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    PyObject *whole;
    long number[2] = {0, 0};
    int failed = pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2 ? 0 : -1;

    for (int i = 0; i < 2 && !failed; i++) {
        whole = PyNumber_Index(PyTuple_GetItem(pair, i)); /* it may be an enum */
        number[i] = whole ? PyLong_AsLong(whole) : -1;
        Py_XDECREF(whole);
        failed = PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(pair);
    *type = (int32_t)number[0];
    *index = (int32_t)number[1];
    return failed;
}

int py_current_stream(struct py_call *call, const struct py_array *array, void **stream)
{
    PyObject *function, *number;

    *stream = NULL;
    if (array->type.api)
        return array->type.api->current_stream(GRAM_DL_CUDA, array->tensor.device.index, stream);
    function = py_helper(call->state, "current_stream");
    number = function ? PyObject_CallFunction(function, "Oi", array->object,
                                              (int)array->tensor.device.index)
                      : NULL;
    Py_XDECREF(function);
    if (!number)
        return -1;
    *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

/* Calls __dlpack__, first with newer arguments, and without them if the object does not accept
 * them. */
static PyObject *export_of(struct py_call *call, struct py_array *array, bool on_cuda)
{
    PyObject *method = PyObject_GetAttrString(array->object, "__dlpack__");
    PyObject *empty = PyTuple_New(0), *options = PyDict_New(), *version = NULL, *number = NULL;
    PyObject *capsule = NULL;
    void *stream = NULL;

    version = Py_BuildValue("(ii)", PY_DL_MAJOR, 3);
    if (!method || !empty || !options || !version)
        goto done;
    if (on_cuda) { /* 1 stands for the default stream, which has no handle */
        if (py_current_stream(call, array, &stream))
            goto done;
        number = stream ? PyLong_FromVoidPtr(stream) : PyLong_FromLong(1);
        if (!number || PyDict_SetItemString(options, "stream", number))
            goto done;
    }
    if (PyDict_SetItemString(options, "max_version", version))
        goto done;
    capsule = PyObject_Call(method, empty, options);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        if (PyDict_DelItemString(options, "max_version") == 0)
            capsule = PyObject_Call(method, empty, options);
    }
done:
    Py_XDECREF(method);
    Py_XDECREF(empty);
    Py_XDECREF(options);
    Py_XDECREF(version);
    Py_XDECREF(number);
    return capsule;
}

/* The tensor of a capsule of either kind. */
static int read_capsule(struct py_call *call, struct py_array *array, bool write)
{
    PyObject *capsule = array->held.capsule;
    const struct py_managed_legacy *legacy;
    const struct py_managed *managed;

    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->major != PY_DL_MAJOR)
            return py_refuse(call, array, "is exported in a version of DLPack that is not known");
        if (write && managed->flags & PY_DL_READ_ONLY)
            return py_refuse(call, array, "is read-only");
        return read_tensor(call, array, &managed->tensor);
    }
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return py_refuse(call, array, "has a __dlpack__ that does not return a DLPack capsule");
    legacy = PyCapsule_GetPointer(capsule, "dltensor");
    return read_tensor(call, array, &legacy->tensor);
}

int py_view_capsule(struct py_call *call, struct py_array *array, bool write)
{
    PyObject *method = py_attribute(array->object, "__dlpack__");
    int32_t type, index;

    Py_XDECREF(method);
    if (!method)
        return PyErr_Occurred() ? -1 : 0;
    if (array->type.is_torch && check_torch(call, array))
        return -1;
    if (write && array->type.is_frozen)
        return py_refuse(call, array, "cannot be written, because arrays of JAX never change");
    if (device_of(array->object, &type, &index))
        return py_refuse(call, array, "does not say on which device it is");
    array->tensor.device = (gram_device){GRAM_CUDA, index};
    array->held.capsule =
        export_of(call, array, type == GRAM_DL_CUDA || type == GRAM_DL_CUDA_MANAGED);
    if (!array->held.capsule)
        return py_refuse(call, array, "cannot be exported by DLPack");
    array->hold = PY_CAPSULE;
    return read_capsule(call, array, write);
}

void py_release(struct py_array *array)
{
    struct py_managed *managed = array->held.managed;

    switch (array->hold) {
    case PY_BORROWED:
        break;
    case PY_BUFFER:
        PyBuffer_Release(&array->held.view);
        break;
    case PY_CAPSULE:
        Py_DECREF(array->held.capsule);
        break;
    case PY_MANAGED:
        if (managed->deleter)
            managed->deleter(managed);
        break;
    }
    Py_CLEAR(array->made);
}

static void set_error(void *user, const char *kind, const char *message)
{
    PyGILState_STATE state = PyGILState_Ensure();

    (void)user;
    PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
    PyGILState_Release(state);
}

PyObject *py_new_exchanged(struct py_call *call, const struct py_type *type, struct py_array *array,
                           const struct py_shape *shape)
{
    static const struct {
        uint8_t code, bits;
    } dtypes[] = {
        {             0,  0},
        { GRAM_DL_FLOAT, 32},
        { GRAM_DL_FLOAT, 64},
        { GRAM_DL_FLOAT, 16},
        {GRAM_DL_BFLOAT, 16},
        {   GRAM_DL_INT, 32},
        {   GRAM_DL_INT, 64},
    };
    struct gram_dl_tensor like = {.ndim = shape->ndim};
    int64_t size[GRAM_MAX_DIMS];
    struct py_managed *managed = NULL;
    void *object = NULL;

    memcpy(size, shape->size, sizeof size);
    like.shape = size;
    like.dtype.code = dtypes[shape->dtype].code;
    like.dtype.bits = dtypes[shape->dtype].bits;
    like.dtype.lanes = 1;
    like.device.type = call->device.type == GRAM_CPU ? GRAM_DL_CPU : GRAM_DL_CUDA;
    like.device.index = call->device.index;
    if (type->api->allocate(&like, &managed, NULL, set_error) || !managed) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return NULL;
    }
    array->name = "out";
    if (read_tensor(call, array, &managed->tensor) != 1) {
        if (managed->deleter)
            managed->deleter(managed);
        return NULL;
    }
    if (type->api->object_from(managed, &object))
        return NULL;
    return object;
}
