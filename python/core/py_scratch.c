/*
 * py_scratch.c - scratch on a device from PyTorch's caching allocator
 *
 * Calls with tensors of PyTorch allocate scratch memory there, in the order of the caller's stream,
 * and release it when they have queued their work.  The caller's tensors can then use that memory,
 * and in a graph that PyTorch captures, the memory is in the pool of the graph.  The library asks
 * for it without the interpreter's lock, and only if a call needs scratch memory.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"

/* gram._arrays' function of that name, called with arguments in the words of Py_BuildValue; a new
 * reference, or NULL with an exception. */
static PyObject *ask(const char *name, PyObject *arguments)
{
    PyObject *module = arguments ? PyImport_ImportModule("gram._arrays") : NULL;
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
    PyObject *answer = function ? PyObject_CallObject(function, arguments) : NULL;

    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(arguments);
    return answer;
}

/* A failure here is raised when the call ends. */
static void *allocate(void *user, size_t bytes, void *stream)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *address = ask("allocate", Py_BuildValue("(nnn)", (Py_ssize_t)user, (Py_ssize_t)bytes,
                                                      (Py_ssize_t)stream));
    void *memory = address ? PyLong_AsVoidPtr(address) : NULL;

    Py_XDECREF(address);
    PyGILState_Release(lock);
    return memory;
}

static void release(void *user, void *memory, size_t bytes, void *stream)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *raised[3];

    (void)user, (void)bytes, (void)stream;
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    Py_XDECREF(ask("release", Py_BuildValue("(N)", PyLong_FromVoidPtr(memory))));
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    PyErr_Restore(raised[0], raised[1], raised[2]);
    PyGILState_Release(lock);
}

void py_scratch_of_torch(gram_context_options *options)
{
    options->allocate_device = allocate;
    options->release_device = release;
    /* The device's number. */
    options->device_user =
        (void *)(uintptr_t)options->device.index; // NOLINT(performance-no-int-to-ptr)
}
