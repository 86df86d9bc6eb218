/*
 * py_cache.c - the functions of gram.cache, which show and change the cache of compiled kernels
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"

PyObject *py_cache_info(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    static const struct py_signature signature = {"gram.cache.info", NULL, 0, 0, 0};
    struct py_state *state = py_state_of(module);
    gram_cache cache = {.size = sizeof cache};
    struct py_call call;
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, NULL) ||
        py_open(&call, state, signature.name))
        return NULL;
    PY_WORK(status, gram_cache_info(call.g, &cache));
    if (status != GRAM_OK)
        return py_end(&call, status);
    py_close(&call);
    return Py_BuildValue("{s:s,s:s,s:L,s:L,s:L,s:L,s:L}", "path", cache.path, "why", cache.why,
                         "kernels", (long long)cache.kernels, "bytes", (long long)cache.bytes,
                         "most_bytes", (long long)cache.most_bytes, "file_bytes",
                         (long long)cache.file_bytes, "tuned", (long long)cache.tuned);
}

/* Appends an entry to the list user; called without the interpreter's lock. */
static void append_entry(void *user, const gram_cache_entry *entry)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *dict = NULL;

    if (!PyErr_Occurred())
        dict = Py_BuildValue("{s:s,s:s,s:s,s:s,s:L,s:L,s:d}", "kernel", entry->kernel, "chip",
                             entry->chip, "compiler", entry->compiler, "options", entry->options,
                             "bytes", (long long)entry->bytes, "used", (long long)entry->used,
                             "compile_ms", entry->compile_ms);
    if (dict && PyList_Append(user, dict))
        PyErr_WriteUnraisable(user);
    Py_XDECREF(dict);
    PyGILState_Release(state);
}

PyObject *py_cache_list(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    static const struct py_signature signature = {"gram.cache.entries", NULL, 0, 0, 0};
    struct py_state *state = py_state_of(module);
    struct py_call call;
    PyObject *list;
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, NULL) ||
        py_open(&call, state, signature.name))
        return NULL;
    list = PyList_New(0);
    if (!list)
        return py_fail(&call);
    PY_WORK(status, gram_cache_list(call.g, append_entry, list));
    if (status != GRAM_OK) {
        Py_DECREF(list);
        return py_end(&call, status);
    }
    py_close(&call);
    return list;
}

PyObject *py_cache_clear(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    static const unsigned char words[] = {PY_pattern};
    static const struct py_signature signature = {"gram.cache.clear", words, 1, 1, 0};
    struct py_state *state = py_state_of(module);
    const char *pattern = NULL;
    int64_t removed = 0;
    struct py_call call;
    PyObject *v[1];
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_text(signature.name, "pattern", v[0], &pattern) || py_open(&call, state, signature.name))
        return NULL;
    PY_WORK(status, gram_cache_clear(call.g, pattern, &removed));
    if (status != GRAM_OK)
        return py_end(&call, status);
    py_close(&call);
    return PyLong_FromLongLong(removed);
}

/* The texts of a sequence, in memory to be freed; NULL and *count 0 for none. */
static int read_chips(PyObject *sequence, const char ***chips, int *count)
{
    Py_ssize_t size;
    PyObject *item;

    *chips = NULL;
    *count = 0;
    if (!py_given(sequence))
        return 0;
    size = PySequence_Size(sequence);
    if (size < 0)
        return -1;
    *chips = PyMem_Calloc((size_t)size + 1, sizeof **chips);
    if (!*chips) {
        PyErr_NoMemory();
        return -1;
    }
    for (; *count < size && *count < INT32_MAX; ++*count) {
        item = PySequence_GetItem(sequence, *count);
        if (!item || py_text("gram.cache.warm", "a name in chips", item, &(*chips)[*count])) {
            Py_XDECREF(item);
            return -1;
        }
        Py_DECREF(item); /* the sequence keeps it */
    }
    return 0;
}

int py_warming_begin(struct py_warming *w, PyObject *chips)
{
    *w = (struct py_warming){.options = GRAM_WARM_OPTIONS_INIT};
    if (py_given(chips) && !(w->tuple = PySequence_Tuple(chips)))
        return -1;
    w->list = PyList_New(0);
    if (!w->list || read_chips(w->tuple, &w->chips, &w->options.count)) {
        PyMem_Free(w->chips);
        Py_XDECREF(w->list);
        Py_XDECREF(w->tuple);
        return -1;
    }
    w->options.chips = w->chips;
    w->options.visit = append_entry;
    w->options.user = w->list;
    return 0;
}

PyObject *py_warming_end(struct py_warming *w, struct py_call *call, gram_status status)
{
    PyMem_Free(w->chips);
    Py_XDECREF(w->tuple);
    if (status != GRAM_OK) {
        Py_DECREF(w->list);
        return py_end(call, status);
    }
    py_close(call);
    return w->list;
}

PyObject *py_cache_warm(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    static const unsigned char words[] = {PY_chips};
    static const struct py_signature signature = {"gram.cache.warm", words, 1, 1, 0};
    struct py_state *state = py_state_of(module);
    struct py_warming w;
    struct py_call call;
    PyObject *v[1];
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_open(&call, state, signature.name))
        return NULL;
    if (py_warming_begin(&w, v[0]))
        return py_fail(&call);
    PY_WORK(status, gram_cache_warm(call.g, w.chips, w.options.count, append_entry, w.list));
    return py_warming_end(&w, &call, status);
}
