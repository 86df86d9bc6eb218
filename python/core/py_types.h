/*
 * py_types.h - the types of gram._core
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_TYPES_H
#define PY_TYPES_H
#include "py_core.h"

extern PyType_Spec py_communicator_spec, py_kfac_spec, py_memory_spec, py_module_spec,
    py_pending_spec;

/* Takes a call whose work goes on in the background, and its context; a gram.Pending. */
PyObject *py_pending(struct py_call *call, PyObject *module);
/* A writable memoryview of memory that lives as long as owner, which it keeps; NULL with an
 * exception. */
PyObject *py_memory_view(struct py_state *state, PyObject *owner, void *data, Py_ssize_t bytes);

#endif
