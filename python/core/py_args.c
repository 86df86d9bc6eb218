/*
 * py_args.c - sorts the arguments of a Python call by name, and reads them
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include <string.h>

static int find_word(const struct py_state *state, const struct py_signature *s, PyObject *name)
{
    for (int i = 0; i < s->count; i++)
        if (state->word[s->words[i]] == name)
            return i;
    for (int i = 0; i < s->count; i++) /* a name that was not interned */
        if (PyUnicode_Compare(state->word[s->words[i]], name) == 0)
            return i;
    return -1;
}

static int take_keywords(const struct py_state *state, const struct py_signature *s,
                         PyObject *const *args, PyObject *kwnames, PyObject **values)
{
    Py_ssize_t count = PyTuple_Size(kwnames);

    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(kwnames, i);
        int at = find_word(state, s, name);
        if (at < 0) {
            PyErr_Format(PyExc_TypeError, "%s() has no argument %R", s->name, name);
            return -1;
        }
        if (values[at]) {
            PyErr_Format(PyExc_TypeError, "%s() got %R twice", s->name, name);
            return -1;
        }
        values[at] = args[i];
    }
    return 0;
}

int py_parse(struct py_state *state, const struct py_signature *s, PyObject *const *args,
             Py_ssize_t nargs, PyObject *kwnames, PyObject **values)
{
    if (nargs > s->positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d positional arguments, got %zd",
                     s->name, s->positional, nargs);
        return -1;
    }
    for (int i = 0; i < s->count; i++)
        values[i] = i < nargs ? args[i] : NULL;
    if (kwnames && take_keywords(state, s, args + nargs, kwnames, values))
        return -1;
    for (int i = 0; i < s->required; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument %R", s->name,
                         state->word[s->words[i]]);
            return -1;
        }
    return 0;
}

static int refuse(const char *function, const char *name, PyObject *value, const char *expected)
{
    PyErr_Format(PyExc_TypeError, "%s: %s is %R, expected %s", function, name, value, expected);
    return -1;
}

int py_double(const char *function, const char *name, PyObject *value, double *out)
{
    double result;

    if (!value)
        return 0;
    result = PyFloat_AsDouble(value);
    if (result == -1 && PyErr_Occurred())
        return PyErr_ExceptionMatches(PyExc_TypeError) ? refuse(function, name, value, "a number")
                                                       : -1;
    *out = result;
    return 0;
}

int py_int64(const char *function, const char *name, PyObject *value, int64_t *out)
{
    PyObject *whole;
    long long result;

    if (!value)
        return 0;
    whole = PyNumber_Index(value);
    if (!whole)
        return PyErr_ExceptionMatches(PyExc_TypeError)
                   ? refuse(function, name, value, "a whole number")
                   : -1;
    result = PyLong_AsLongLong(whole);
    Py_DECREF(whole);
    if (result == -1 && PyErr_Occurred())
        return -1;
    *out = result;
    return 0;
}

int py_report_dict(const char *function, PyObject *value)
{
    return py_given(value) && !PyDict_Check(value) ? refuse(function, "report", value, "a dict")
                                                   : 0;
}

int py_tell(PyObject *dict, PyObject *items)
{
    const int failed = items ? PyDict_Update(dict, items) : -1;

    Py_XDECREF(items);
    return failed;
}

int py_bool(const char *function, const char *name, PyObject *value, bool *out)
{
    int result;

    if (!value)
        return 0;
    if (PyUnicode_Check(value))
        return refuse(function, name, value, "True or False");
    result = PyObject_IsTrue(value);
    if (result < 0)
        return -1;
    *out = result;
    return 0;
}

int py_text(const char *function, const char *name, PyObject *value, const char **out)
{
    Py_ssize_t size;
    const char *text;

    if (!py_given(value))
        return 0;
    if (!PyUnicode_Check(value))
        return refuse(function, name, value, "a str");
    text = PyUnicode_AsUTF8AndSize(value, &size);
    if (!text)
        return -1;
    if (strlen(text) != (size_t)size) {
        PyErr_Format(PyExc_ValueError, "%s: %s holds a null character", function, name);
        return -1;
    }
    *out = text;
    return 0;
}

/* Whether the names are equal, where - and _ count as the same. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b)))
            return false;
    return *a == *b;
}

int py_choice(const char *function, const char *name, PyObject *value, const char *const *names,
              int *out)
{
    char list[512] = "";
    const char *text = "";

    if (!py_given(value))
        return 0;
    if (py_text(function, name, value, &text))
        return -1;
    for (int i = 0; names[i]; i++) {
        if (same_name(names[i], text)) {
            *out = i;
            return 0;
        }
        if (i)
            strncat(list, ", ", sizeof list - strlen(list) - 1);
        strncat(list, names[i], sizeof list - strlen(list) - 1);
    }
    PyErr_Format(PyExc_ValueError, "%s: %s is %R, expected one of %s", function, name, value, list);
    return -1;
}
