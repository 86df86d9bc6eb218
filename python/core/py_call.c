/*
 * py_call.c - a call from its beginning to its end: contexts, results and exceptions
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <limits.h>
#include <string.h>

int py_open(struct py_call *call, struct py_state *state, const char *function)
{
    call->state = state;
    call->function = function;
    call->device = (gram_device){GRAM_CPU, 0};
    call->stream = NULL;
    call->of_torch = false;
    call->threads = state->threads;
    call->query = false;
    call->of_bits = false;
    call->array = call->own;
    call->most = PY_MOST_ARRAYS;
    call->count = 0;
    call->result_count = 0;
    call->as_tuple = false;
    call->g = py_take_context(state, call->device, NULL, false);
    return call->g ? 0 : -1;
}

int py_reserve(struct py_call *call, Py_ssize_t most)
{
    if (most <= call->most)
        return 0;
    call->array = most <= INT_MAX ? PyMem_Calloc((size_t)most, sizeof *call->array) : NULL;
    if (!call->array) {
        call->array = call->own;
        PyErr_NoMemory();
        return -1;
    }
    call->most = (int)most;
    return 0;
}

void py_move(struct py_call *to, const struct py_call *from)
{
    *to = *from;
    if (from->array == from->own)
        to->array = to->own;
}

int py_begin(struct py_call *call, PyObject *module, const struct py_signature *signature,
             PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, PyObject **values)
{
    struct py_state *state = py_state_of(module);

    if (py_parse(state, signature, args, nargs, kwnames, values) ||
        py_open(call, state, signature->name))
        return -1;
    return 0;
}

static void give_back(struct py_call *call)
{
    const struct py_idle idle = {call->g, call->device, call->stream, call->threads,
                                 call->of_torch};

    py_give_context(call->state, &idle);
}

/* Releases everything that the library needed; the results stay. */
static void let_go(struct py_call *call)
{
    while (call->count)
        py_release(&call->array[--call->count]);
    if (call->array != call->own)
        PyMem_Free(call->array);
    call->array = call->own;
    if (call->g)
        give_back(call);
    call->g = NULL;
}

void py_close(struct py_call *call)
{
    let_go(call);
    while (call->result_count) {
        struct py_result *result = &call->result[--call->result_count];
        Py_XDECREF(result->array);
        Py_XDECREF(result->finish);
    }
}

PyObject *py_fail(struct py_call *call)
{
    py_close(call);
    return NULL;
}

/* The object that the caller gets for a result, a new reference. */
static PyObject *finished(const struct py_result *result)
{
    if (result->finish && result->finish != Py_None)
        return PyObject_CallFunctionObjArgs(result->finish, result->array, NULL);
    Py_INCREF(result->array);
    return result->array;
}

static PyObject *all_finished(const struct py_call *call)
{
    PyObject *tuple = PyTuple_New(call->result_count), *item;

    for (int i = 0; tuple && i < call->result_count; i++) {
        item = finished(&call->result[i]);
        if (!item || PyTuple_SetItem(tuple, i, item))
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *py_end(struct py_call *call, gram_status status)
{
    PyObject *answer;

    if (status != GRAM_OK) {
        py_raise(call->state, call->g, status);
        return py_fail(call);
    }
    let_go(call);
    if (call->query)
        answer = Py_BuildValue("(KK)", (unsigned long long)call->need.host_bytes,
                               (unsigned long long)call->need.device_bytes);
    else if (call->result_count == 1 && !call->as_tuple)
        answer = finished(&call->result[0]);
    else
        answer = all_finished(call);
    py_close(call);
    return answer;
}

static const char *place_name(gram_device device, char *text, size_t size)
{
    if (device.type == GRAM_CPU)
        return "the CPU";
    PyOS_snprintf(text, size, "CUDA device %d", (int)device.index);
    return text;
}

static int refuse_places(const struct py_call *call, const struct py_array *a,
                         const struct py_array *b)
{
    char one[32], other[32];

    PyErr_Format(PyExc_ValueError, "%s: %s is on %s but %s is on %s; move one of them",
                 call->function, a->name, place_name(a->tensor.device, one, sizeof one), b->name,
                 place_name(b->tensor.device, other, sizeof other));
    return -1;
}

/* Continues the call in a context of the device, on the stream of the array; NULL: the default
 * stream. */
static int go_to(struct py_call *call, gram_device device, const struct py_array *array)
{
    void *stream = NULL;

    if (array && py_current_stream(call, array, &stream))
        return -1;
    give_back(call);
    call->device = device;
    call->stream = stream;
    call->of_torch = array && array->type.is_torch;
    call->g = py_take_context(call->state, call->device, stream, call->of_torch);
    return call->g ? 0 : -1;
}

int py_place(struct py_call *call)
{
    const struct py_array *first = &call->array[0];

    if (py_promote(call))
        return -1;
    for (int i = 1; i < call->count; i++) {
        gram_device a = first->tensor.device, b = call->array[i].tensor.device;
        if (a.type != b.type || a.index != b.index)
            return refuse_places(call, first, &call->array[i]);
    }
    if (call->count == 0 || first->tensor.device.type == GRAM_CPU)
        return 0;
    return go_to(call, first->tensor.device, first);
}

int py_place_most(struct py_call *call, gram_device asked)
{
    const struct py_array *found = NULL;

    if (py_promote(call))
        return -1;
    for (int i = 0; i < call->count; i++) {
        const struct py_array *array = &call->array[i];
        if (array->tensor.device.type == GRAM_CPU)
            continue;
        if (found && found->tensor.device.index != array->tensor.device.index)
            return refuse_places(call, found, array);
        found = found ? found : array;
    }
    if (!found && asked.type == GRAM_CPU)
        return 0;
    return go_to(call, found ? found->tensor.device : asked, found);
}
