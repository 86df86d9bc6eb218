/*
 * py_context.c - idle contexts, the names of devices, and exceptions for statuses
 *
 * A call takes one of the idle contexts for the time that it runs.  Every thread within a call
 * therefore has its own context, and there are never more contexts than calls that ran at the same
 * time.  After fork(), the library creates the threads of a context again in the child.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Functions that have another name in Python than gram_NAME of the library; longer names come
 * first. */
static const char *const python_names[][2] = {
    {"machine_evaluate", "Machine.score"},
    {        "machine_",      "Machine."},
    {      "optimizer_",        "optim."},
    {           "kfac_",         "KFAC."},
    {  "module_compile",        "Module"},
    {   "kernel_launch", "Module.launch"},
    {      "cache_list", "cache.entries"},
    {          "cache_",        "cache."},
};

/* The message in the words of Python: with the Python name of the function, and with options as
 * arguments. */
static void translate(const char *message, char *out, size_t room)
{
    const char *rest = message + strlen("gram_"), *at;
    size_t used;

    PyOS_snprintf(out, room, "gram.");
    for (size_t i = 0; i < sizeof python_names / sizeof *python_names; i++) {
        size_t length = strlen(python_names[i][0]);
        if (strncmp(rest, python_names[i][0], length) == 0) {
            strncat(out, python_names[i][1], room - strlen(out) - 1);
            rest += length;
            break;
        }
    }
    used = strlen(out);
    while (used + 1 < room && *rest) {
        at = strncmp(rest, "options.", 8) == 0 && rest[-1] != '_' ? rest + 8 : rest;
        if (at != rest &&
            (strncmp(message, "gram_krr_solve", 14) == 0 ||
             strncmp(message, "gram_krr_samples", 16) == 0 ||
             strncmp(message, "gram_krr_variance", 17) == 0) &&
            strncmp(at, "weights", 7) == 0 && used + 5 < room) {
            memcpy(out + used, "row_", 4); /* weights are those of a metric */
            used += 4;
        }
        if (at == rest)
            out[used++] = *at++;
        rest = at;
    }
    out[used] = '\0';
}

void py_raise(const struct py_state *state, const gram_context *g, gram_status status)
{
    const char *message = gram_message(g);
    PyObject *type = PyExc_RuntimeError;

    if (PyErr_Occurred()) /* of a callback: it says more */
        return;
    switch (status) {
    case GRAM_INVALID_ARGUMENT:
    case GRAM_BAD_DATA:
        type = PyExc_ValueError;
        break;
    case GRAM_UNSUPPORTED:
        type = PyExc_NotImplementedError;
        break;
    case GRAM_OUT_OF_MEMORY:
        type = PyExc_MemoryError;
        break;
    case GRAM_IO:
        type = PyExc_OSError;
        break;
    case GRAM_NUMERICAL:
        type = state->linalg_error;
        break;
    default:
        break;
    }
    if (strncmp(message, "gram_", 5) == 0) {
        char said[1024];
        translate(message, said, sizeof said);
        PyErr_SetString(type, said);
    } else
        PyErr_SetString(type, message[0] ? message : gram_status_name(status));
}

gram_context *py_take_context(struct py_state *state, gram_device device, void *stream,
                              bool of_torch)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;
    gram_status status;

    for (int i = state->idle_count - 1; i >= 0; i--) {
        const struct py_idle *idle = &state->idle[i];
        if (idle->device.type != device.type || idle->device.index != device.index ||
            idle->stream != stream || idle->of_torch != of_torch)
            continue;
        g = idle->g;
        state->idle_count--;
        memmove(state->idle + i, state->idle + i + 1,
                (size_t)(state->idle_count - i) * sizeof *state->idle);
        return g;
    }
    options.device = device;
    options.stream = stream;
    options.threads = state->threads;
    if (of_torch)
        py_scratch_of_torch(&options);
    status = gram_context_create(&options, &g);
    if (status == GRAM_OK)
        return g;
    py_raise(state, NULL, status);
    return NULL;
}

void py_give_context(struct py_state *state, const struct py_idle *idle)
{
    if (idle->of_torch) { /* PyTorch may give the memory to tensors now */
        gram_status status = gram_context_use_workspace(idle->g, NULL, 0);
        (void)status; /* the next call reports a device that has failed */
    }
    if (idle->threads != state->threads) {
        gram_context_destroy(idle->g);
        return;
    }
    if (state->idle_count == PY_MOST_IDLE) {
        gram_context_destroy(state->idle[0].g);
        state->idle_count--;
        memmove(state->idle, state->idle + 1, (size_t)state->idle_count * sizeof *state->idle);
    }
    state->idle[state->idle_count++] = *idle;
}

void py_drop_contexts(struct py_state *state)
{
    while (state->idle_count)
        gram_context_destroy(state->idle[--state->idle_count].g);
}

PyObject *py_device_text(gram_device device)
{
    return device.type == GRAM_CPU ? PyUnicode_FromString("cpu")
                                   : PyUnicode_FromFormat("cuda:%d", (int)device.index);
}

/* The device with a name; its index is -1 if there is none. */
static gram_device device_named(const char *name)
{
    gram_device none = {GRAM_CPU, -1};
    char *end;
    long index;

    if (strcmp(name, "cpu") == 0 || strcmp(name, "cpu:0") == 0)
        return (gram_device){GRAM_CPU, 0};
    if (strcmp(name, "cuda") == 0)
        return (gram_device){GRAM_CUDA, 0};
    if (strncmp(name, "cuda:", 5) != 0 || !isdigit((unsigned char)name[5]))
        return none;
    index = strtol(name + 5, &end, 10);
    return *end || index > INT16_MAX ? none : (gram_device){GRAM_CUDA, (int32_t)index};
}

/* Reads "cpu", "cuda", "cuda:1", or an object whose str() is one of these, such as a
 * torch.device. */
int py_device(const char *function, PyObject *value, gram_device *out)
{
    PyObject *text;
    const char *name;

    *out = (gram_device){GRAM_CPU, 0};
    if (!py_given(value))
        return 0;
    text = PyObject_Str(value);
    name = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (name)
        *out = device_named(name);
    Py_XDECREF(text);
    if (!name)
        return -1;
    if (out->index < 0)
        PyErr_Format(PyExc_ValueError, "%s: device is %R, expected \"cpu\" or \"cuda:0\"", function,
                     value);
    return out->index < 0 ? -1 : 0;
}
