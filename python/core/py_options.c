/*
 * py_options.c - reads options from a dict, by a table of their names
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_options.h"

static int read_whole(const char *function, const struct py_option *row, PyObject *value, char *at)
{
    int64_t whole = 0;

    if (py_int64(function, row->name, value, &whole))
        return -1;
    if (row->kind == PY_WHOLE64) {
        *(int64_t *)at = whole;
        return 0;
    }
    if (whole < INT32_MIN || whole > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: %s is %R, expected a whole number of at most 32 bits",
                     function, row->name, value);
        return -1;
    }
    *(int *)at = (int)whole;
    return 0;
}

static int read_option(const char *function, const struct py_option *row, PyObject *value, char *at)
{
    int choice = 0;

    if (row->kind == PY_NUMBER)
        return py_double(function, row->name, value, (double *)at);
    if (row->kind != PY_CHOICE)
        return read_whole(function, row, value, at);
    if (py_choice(function, row->name, value, row->names, &choice))
        return -1;
    *(int *)at = choice;
    return 0;
}

int py_read_options(const char *function, const struct py_option *rows, size_t count,
                    PyObject *dict, void *options)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    size_t i;

    while (PyDict_Next(dict, &at, &name, &value)) {
        for (i = 0; i < count; i++)
            if (PyUnicode_CompareWithASCIIString(name, rows[i].name) == 0)
                break;
        if (i == count) {
            PyErr_Format(PyExc_TypeError, "%s() has no argument %R", function, name);
            return -1;
        }
        if (value != Py_None &&
            read_option(function, &rows[i], value, (char *)options + rows[i].offset))
            return -1;
    }
    return 0;
}

static PyObject *option_value(const struct py_option *row, const char *at)
{
    switch (row->kind) {
    case PY_NUMBER:
        return PyFloat_FromDouble(*(const double *)at);
    case PY_WHOLE64:
        return PyLong_FromLongLong(*(const int64_t *)at);
    case PY_WHOLE:
        return PyLong_FromLong(*(const int *)at);
    default:
        return PyUnicode_FromString(row->names[*(const int *)at]);
    }
}

PyObject *py_options_dict(const struct py_option *rows, size_t count, const void *options)
{
    PyObject *dict = PyDict_New(), *value;

    for (size_t i = 0; dict && i < count; i++) {
        value = option_value(&rows[i], (const char *)options + rows[i].offset);
        if (!value || PyDict_SetItemString(dict, rows[i].name, value))
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}
