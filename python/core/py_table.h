/*
 * py_table.h - tables from Python, viewed for the duration of a call
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_TABLE_H
#define PY_TABLE_H
#include "py_core.h"

/* What a column holds on to. */
struct py_column {
    Py_buffer view;
    const char **labels; /* of strings that Python's list keeps */
    int64_t rows;
    bool has_view;
};

struct py_table {
    gram_table table;
    gram_column *column;
    struct py_column *columns;
    Py_ssize_t count;
};

/* -1 with an exception; what is read so far is to be released in any case. */
int py_read_column(PyObject *pair, struct py_column *column, gram_column *out);
void py_release_column(struct py_column *column);
int py_read_table(PyObject *list, struct py_table *table);
void py_release_table(struct py_table *table);

#endif
