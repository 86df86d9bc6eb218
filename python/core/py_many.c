/*
 * py_many.c - the functions that python/gram/_many.py calls: lists of arrays, and one matrix on
 * several devices
 *
 * The Python code has checked the kinds of the arguments.  Lists are tuples of the same length, in
 * which None stands for an array that is not requested.  Each name of a device gets its own
 * context.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include "py_functions.h"
#include <string.h>

enum {
    MOST_CONTEXTS = 64,
    LISTS = 4
};

/* A call: its contexts besides that of `call`, and its lists. */
struct many {
    struct py_call call;
    gram_context *g[MOST_CONTEXTS];
    gram_device device[MOST_CONTEXTS];
    gram_group group;
    gram_many list;
    gram_tensor **tensors[LISTS]; /* NULL: not wanted */
};

static void close_many(struct many *m)
{
    for (int i = 0; i < MOST_CONTEXTS && m->g[i]; i++) {
        const struct py_idle idle = {
            .g = m->g[i], .device = m->device[i], .threads = m->call.threads};
        py_give_context(m->call.state, &idle);
    }
    for (int i = 0; i < LISTS; i++)
        PyMem_Free(m->tensors[i]);
    PyMem_Free(m->list.items);
    py_close(&m->call);
}

static int open_contexts(struct many *m, PyObject *devices)
{
    Py_ssize_t count = PyTuple_Size(devices);

    if (count < 1 || count > MOST_CONTEXTS) {
        PyErr_Format(PyExc_ValueError, "%s: devices has %zd names, expected 1 to %d",
                     m->call.function, count, MOST_CONTEXTS);
        return -1;
    }
    for (int i = 0; i < (int)count; i++) {
        if (py_device(m->call.function, PyTuple_GetItem(devices, i), &m->device[i]))
            return -1;
        m->g[i] = py_take_context(m->call.state, m->device[i], NULL, false);
        if (!m->g[i])
            return -1;
    }
    m->group = (gram_group)GRAM_GROUP_INIT;
    m->group.contexts = m->g;
    m->group.count = count;
    return 0;
}

/* Waits for the work that the caller's library has queued for an array on a GPU. */
static int wait_for(struct many *m, const struct py_array *array)
{
    struct py_call *call = &m->call;
    struct py_idle idle = {.device = array->tensor.device, .threads = call->threads};
    gram_status status;

    if (idle.device.type == GRAM_CPU || call->query)
        return 0;
    if (py_current_stream(call, array, &idle.stream))
        return -1;
    idle.g = py_take_context(call->state, idle.device, idle.stream, false);
    if (!idle.g)
        return -1;
    PY_WORK(status, gram_context_synchronize(idle.g));
    if (status != GRAM_OK)
        py_raise(call->state, idle.g, status);
    py_give_context(call->state, &idle);
    return status == GRAM_OK ? 0 : -1;
}

static int view_list(struct many *m, int which, const char *name, PyObject *list, bool write)
{
    Py_ssize_t count = m->list.count;

    if (list == Py_None)
        return 0;
    m->tensors[which] = PyMem_Calloc((size_t)count + 1, sizeof *m->tensors[which]);
    if (!m->tensors[which]) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *array = PyTuple_GetItem(list, i);
        gram_tensor *t = NULL;
        if (!array)
            return -1;
        if (array == Py_None)
            continue;
        t = write ? py_inout(&m->call, name, array) : py_raw_input(&m->call, name, array);
        if (!t || wait_for(m, &m->call.array[m->call.count - 1]))
            return -1;
        m->tensors[which][i] = t;
    }
    return 0;
}

static int open_many(struct many *m, PyObject *module, const char *function, PyObject *devices,
                     PyObject *a, bool query)
{
    Py_ssize_t count = PyTuple_Size(a);

    memset(m->g, 0, sizeof m->g);
    memset(m->tensors, 0, sizeof m->tensors);
    m->list = (gram_many)GRAM_MANY_INIT;
    if (py_open(&m->call, py_state_of(module), function))
        return -1;
    m->call.query = query;
    m->list.count = count;
    m->list.items = PyMem_Calloc((size_t)count + 1, sizeof *m->list.items);
    if (!m->list.items)
        PyErr_NoMemory();
    if (!m->list.items || py_reserve(&m->call, LISTS * count + 1) || open_contexts(m, devices) ||
        view_list(m, 0, "a", a, false)) {
        close_many(m);
        return -1;
    }
    return 0;
}

/* Returns (status, context, message) for each matrix.  Raises if the call itself was refused and,
 * unless the caller asks for these results, if a matrix failed. */
static PyObject *end_many(struct many *m, gram_status status, bool tell)
{
    PyObject *list = NULL;
    bool each = false;

    for (int64_t i = 0; i < m->list.count; i++)
        each = each || m->list.items[i].status != GRAM_OK;
    if (status != GRAM_OK && !(tell && each))
        py_raise(m->call.state, m->g[0], status);
    else
        list = PyList_New(0);
    for (int64_t i = 0; list && i < m->list.count; i++) {
        const gram_many_item *item = &m->list.items[i];
        py_add(&list, Py_BuildValue("(sis)", gram_status_name(item->status), (int)item->context,
                                    item->message));
    }
    close_many(m);
    return list;
}

/* eigh_many(devices, a, values, vectors, info, lower, select, first, count, driver, tell) */
PyObject *py_eigh_many(PyObject *module, PyObject *args)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    PyObject *devices, *a, *values, *vectors, *info;
    long long first, count;
    int lower, select, driver, tell;
    struct many m;
    gram_status status;

    if (!PyArg_ParseTuple(args, "O!O!O!OOiiLLii:eigh_many", &PyTuple_Type, &devices, &PyTuple_Type,
                          &a, &PyTuple_Type, &values, &vectors, &info, &lower, &select, &first,
                          &count, &driver, &tell) ||
        open_many(&m, module, "gram.eigh_many", devices, a, false))
        return NULL;
    o.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    o.select = (gram_eigh_select)select;
    o.driver = (gram_eigh_driver)driver;
    o.first = first, o.count = count;
    if (view_list(&m, 1, "values", values, true) || view_list(&m, 2, "vectors", vectors, true) ||
        view_list(&m, 3, "info", info, true)) {
        close_many(&m);
        return NULL;
    }
    PY_WORK(status, gram_eigh_many(&m.group, &m.list, (const gram_tensor *const *)m.tensors[0], &o,
                                   m.tensors[1], m.tensors[2], m.tensors[3]));
    return end_many(&m, status, tell != 0);
}

/* matrix_power_many(devices, a, out, info, error, numerator, denominator, method, lower, ridge,
 * ridge_relative, condition, tolerance, iterations, keep, precision, power, floor, tell) */
PyObject *py_matrix_power_many(PyObject *module, PyObject *args)
{
    gram_matrix_power_options o = GRAM_MATRIX_POWER_OPTIONS_INIT;
    PyObject *devices, *a, *out, *info, *error;
    int method, lower, precision, tell;
    double ridge;
    struct many m;
    gram_status status;

    if (!PyArg_ParseTuple(args, "O!O!O!OOiiiididdiiiddi:matrix_power_many", &PyTuple_Type, &devices,
                          &PyTuple_Type, &a, &PyTuple_Type, &out, &info, &error, &o.numerator,
                          &o.denominator, &method, &lower, &ridge, &o.ridge_relative, &o.condition,
                          &o.tolerance, &o.iterations, &o.keep, &precision, &o.power, &o.floor,
                          &tell) ||
        open_many(&m, module, "gram.matrix_power_many", devices, a, false))
        return NULL;
    o.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    o.method = (gram_power_method)method;
    o.precision = (gram_power_precision)precision;
    o.ridge = gram_number(ridge);
    if (view_list(&m, 1, "out", out, true) || view_list(&m, 2, "info", info, true) ||
        view_list(&m, 3, "error", error, true)) {
        close_many(&m);
        return NULL;
    }
    m.list.error = m.tensors[3];
    PY_WORK(status,
            gram_matrix_power_many(&m.group, &m.list, (const gram_tensor *const *)m.tensors[0], &o,
                                   m.tensors[1], m.tensors[2]));
    return end_many(&m, status, tell != 0);
}

/* (bytes of the host, a tuple of those of each device). */
static PyObject *plan_multi(struct many *m, const gram_eigh_options *o)
{
    gram_plan_description d = {.size = sizeof d};
    gram_plan *plan = NULL;
    PyObject *result = NULL, *each = NULL;
    gram_status status;

    status = gram_eigh_multi_plan(&m->group, m->tensors[0][0], o, m->tensors[1][0],
                                  m->tensors[2] ? m->tensors[2][0] : NULL, NULL, &plan);
    if (status == GRAM_OK)
        status = gram_plan_describe(plan, &d);
    if (status != GRAM_OK) {
        py_raise(m->call.state, m->g[0], status);
    } else {
        each = PyTuple_New(d.devices);
        for (int i = 0; each && i < d.devices; i++)
            if (PyTuple_SetItem(each, i, PyLong_FromSize_t(d.device_bytes[i])))
                Py_CLEAR(each);
        if (each)
            result = Py_BuildValue("(KO)", (unsigned long long)d.need.host_bytes, each);
    }
    Py_XDECREF(each);
    gram_plan_destroy(plan);
    close_many(m);
    return result;
}

/* eigh_multi(devices, a, values, vectors, info, lower, select, first, count, force): of tuples with
 * one array each */
static PyObject *decompose_shared(PyObject *module, PyObject *args, bool query)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    PyObject *devices, *a, *values, *vectors, *info;
    long long first, count;
    int lower, select, force;
    struct many m;
    gram_status status;

    if (!PyArg_ParseTuple(args, "O!O!O!OOiiLLi:eigh_multi", &PyTuple_Type, &devices, &PyTuple_Type,
                          &a, &PyTuple_Type, &values, &vectors, &info, &lower, &select, &first,
                          &count, &force) ||
        open_many(&m, module, "gram.eigh_multi", devices, a, query))
        return NULL;
    o.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    o.select = (gram_eigh_select)select;
    o.first = first, o.count = count;
    if (view_list(&m, 1, "values", values, true) || view_list(&m, 2, "vectors", vectors, true) ||
        view_list(&m, 3, "info", info, true)) {
        close_many(&m);
        return NULL;
    }
    m.group.force = force;
    if (query)
        return plan_multi(&m, &o);
    PY_WORK(status, gram_eigh_multi(&m.group, m.tensors[0][0], &o, m.tensors[1][0],
                                    m.tensors[2] ? m.tensors[2][0] : NULL,
                                    m.tensors[3] ? m.tensors[3][0] : NULL));
    return end_many(&m, status, false);
}

PyObject *py_eigh_multi(PyObject *module, PyObject *args)
{
    return decompose_shared(module, args, false);
}

PyObject *py_eigh_multi_workspace(PyObject *module, PyObject *args)
{
    return decompose_shared(module, args, true);
}
