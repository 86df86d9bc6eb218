/*
 * py_machine.h - kernel machines in Python
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_MACHINE_H
#define PY_MACHINE_H
#include "py_core.h"

/* An object that owns the machine; NULL with an exception, the machine destroyed. */
PyObject *py_machine_wrap(PyObject *module, gram_machine *machine);
extern PyType_Spec py_machine_spec;

#endif
