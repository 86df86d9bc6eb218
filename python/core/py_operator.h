/*
 * py_operator.h - matrices that a Python function multiplies by
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_OPERATOR_H
#define PY_OPERATOR_H
#include "py_core.h"

/* The operator of a call, and what its products need. */
struct py_operator {
    gram_operator given; /* what the library takes */
    const char *name;    /* of the argument, for messages */
    PyObject *function;  /* borrowed: called with vectors (n, k) */
    PyObject *like;      /* borrowed: an array of the library that the vectors are to be of */
    const struct py_call *call;
    PyThreadState **saved; /* of the call, while the library works */
};

/* The argument `like`, of 1 or 2 dimensions, which is the call's first array, and py_place; NULL
 * with an exception. */
const gram_tensor *py_operator_like(struct py_call *call, PyObject *value);

/* Prepares an operator of n rows and the dtype of like, after py_place.  The function is callable,
 * or has a product with `@`; -1 with an exception if neither. */
int py_operator_of(struct py_operator *o, const struct py_call *call, const char *name,
                   PyObject *function, PyThreadState **saved, const struct py_array *like,
                   int64_t n);

/* The work of a call that has operators, without the interpreter's lock between their products. */
#define PY_OPERATOR_WORK(saved, status, work) \
  do {                                        \
    (saved) = PyEval_SaveThread();            \
    (status) = (work);                        \
    PyEval_RestoreThread(saved);              \
  } while (0)

#endif
