/*
 * py_type.c - finds the properties of a type of arrays once, and remembers them
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include "py_dlpack.h"
#include <string.h>

int py_drop_exception(void)
{
    if (PyErr_Occurred() &&
        (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)))
        return -1;
    PyErr_Clear();
    return 0;
}

PyObject *py_attribute(PyObject *object, const char *name)
{
    PyObject *found = PyObject_GetAttrString(object, name);

    if (!found)
        (void)py_drop_exception();
    return found;
}

/* The table behind an attribute of the type; NULL if it has none that we can read. */
static const struct py_exchange *exchange_of(PyTypeObject *type)
{
    PyObject *capsule = py_attribute((PyObject *)type, "__dlpack_c_exchange_api__");
    const struct py_exchange *api = NULL;

    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);
    while (api && api->major != PY_DL_MAJOR)
        api = api->previous;
    return api;
}

static bool has(PyTypeObject *type, const char *attribute)
{
    PyObject *found = PyErr_Occurred() ? NULL : py_attribute((PyObject *)type, attribute);

    Py_XDECREF(found);
    return found != NULL;
}

/* Does the type come from a package of that name? */
static bool is_from(PyTypeObject *type, const char *package)
{
    PyObject *module = PyErr_Occurred() ? NULL : py_attribute((PyObject *)type, "__module__");
    bool is_text = module && PyUnicode_Check(module);
    const char *name = is_text ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    size_t length = strlen(package);
    bool found = name && strncmp(name, package, length) == 0 &&
                 (name[length] == '.' || name[length] == '\0');

    Py_XDECREF(module);
    return found;
}

int py_type_of(struct py_state *state, PyObject *object, struct py_type *out)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *old;

    for (int i = 0; i < PY_MOST_TYPES; i++)
        if (state->types[i].type == type) {
            *out = state->types[i];
            return 0;
        }
    *out = (struct py_type){.type = type, .api = exchange_of(type)};
    out->is_torch = has(type, "is_neg") && has(type, "requires_grad");
    out->is_frozen = is_from(type, "jax") || is_from(type, "jaxlib");
    out->is_cuda = has(type, "__cuda_array_interface__");
    out->is_masked = has(type, "filled") && has(type, "mask");
    if (PyErr_Occurred())
        return -1;
    Py_INCREF((PyObject *)type);
    old = (PyObject *)state->types[state->next_type].type;
    state->types[state->next_type] = *out;
    state->next_type = (state->next_type + 1) % PY_MOST_TYPES;
    Py_XDECREF(old);
    return 0;
}
