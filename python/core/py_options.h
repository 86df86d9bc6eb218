/*
 * py_options.h - reads options from a dict, by a table of their names
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_OPTIONS_H
#define PY_OPTIONS_H
#include "py_core.h"
#include <stddef.h>

enum py_option_kind {
    PY_WHOLE,   /* int */
    PY_WHOLE64, /* int64_t */
    PY_NUMBER,  /* double */
    PY_CHOICE   /* an enum, whose values are the indices of names */
};

/* One option by its name in a structure of options. */
struct py_option {
    const char *name;
    size_t offset;
    const char *const *names; /* of a choice; ends with NULL */
    enum py_option_kind kind;
};

/* Writes the entries of a dict into options; None leaves an option unchanged. -1 with an
 * exception. */
int py_read_options(const char *function, const struct py_option *rows, size_t count,
                    PyObject *dict, void *options);
/* The options as a dict, a new reference; NULL with an exception. */
PyObject *py_options_dict(const struct py_option *rows, size_t count, const void *options);

#endif
