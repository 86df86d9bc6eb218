/*
 * py_table.c - converts the columns of a table and a target for gram_machine_*
 *
 * A column is a pair (name, values), where values is a buffer of double (numbers), or a list of str
 * and None (labels). gram/machine.py makes these pairs of arrays, dicts and data frames.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_table.h"
#include <string.h>

static int read_labels(const char *name, PyObject *list, struct py_column *column)
{
    Py_ssize_t rows = PyList_Size(list);
    PyObject *item;

    column->labels = PyMem_Calloc((size_t)rows + 1, sizeof *column->labels);
    if (!column->labels) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < rows; i++) {
        item = PyList_GetItem(list, i);
        if (item != Py_None && py_text("gram.Machine", name, item, &column->labels[i]))
            return -1;
    }
    column->rows = rows;
    return 0;
}

static int read_numbers(const char *name, PyObject *object, struct py_column *column)
{
    if (PyObject_GetBuffer(object, &column->view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS))
        return -1;
    column->has_view = true;
    if (column->view.ndim != 1 || !column->view.format || strcmp(column->view.format, "d") != 0) {
        PyErr_Format(PyExc_TypeError, "gram.Machine: column %s is not a vector of float64", name);
        return -1;
    }
    column->rows = column->view.shape[0];
    return 0;
}

int py_read_column(PyObject *pair, struct py_column *column, gram_column *out)
{
    PyObject *values;

    *column = (struct py_column){0};
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "gram.Machine: a column is a tuple of a name and values");
        return -1;
    }
    values = PyTuple_GetItem(pair, 1);
    out->name = NULL;
    if (py_text("gram.Machine", "the name of a column", PyTuple_GetItem(pair, 0), &out->name) ||
        (PyList_Check(values) ? read_labels(out->name, values, column)
                              : read_numbers(out->name, values, column)))
        return -1;
    out->numbers = column->has_view ? column->view.buf : NULL;
    out->labels = column->labels;
    return 0;
}

void py_release_column(struct py_column *column)
{
    PyMem_Free((void *)column->labels);
    if (column->has_view)
        PyBuffer_Release(&column->view);
    *column = (struct py_column){0};
}

int py_read_table(PyObject *list, struct py_table *t)
{
    Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;

    *t = (struct py_table){0};
    if (count < 0) {
        PyErr_SetString(PyExc_TypeError, "gram.Machine: a table is a list of columns");
        return -1;
    }
    t->columns = PyMem_Calloc((size_t)count + 1, sizeof *t->columns);
    t->column = PyMem_Calloc((size_t)count + 1, sizeof *t->column);
    if (!t->columns || !t->column) {
        PyErr_NoMemory();
        return -1;
    }
    for (; t->count < count; t->count++) {
        if (py_read_column(PyList_GetItem(list, t->count), &t->columns[t->count],
                           &t->column[t->count])) {
            py_release_column(&t->columns[t->count]);
            return -1;
        }
        if (t->columns[t->count].rows != t->columns[0].rows) {
            PyErr_Format(PyExc_ValueError,
                         "gram.Machine: column %s has %lld rows, but the others have %lld",
                         t->column[t->count].name, (long long)t->columns[t->count].rows,
                         (long long)t->columns[0].rows);
            t->count++;
            return -1;
        }
    }
    t->table = (gram_table){count ? t->columns[0].rows : 0, count, t->column};
    return 0;
}

void py_release_table(struct py_table *t)
{
    while (t->count)
        py_release_column(&t->columns[--t->count]);
    PyMem_Free(t->columns);
    PyMem_Free(t->column);
    *t = (struct py_table){0};
}
