/*
 * py_types.h - the types of gram._core
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_TYPES_H
#define PY_TYPES_H
#include "py_core.h"

extern PyType_Spec py_module_spec;

#endif
