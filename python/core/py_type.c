/*
 * py_type.c - what is known of a type of arrays, found once and remembered
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include "py_dlpack.h"
#include <string.h>

/* The table behind an attribute of the type; NULL if it has none that we can read. */
static const struct py_exchange *exchange_of(PyTypeObject *type)
{
    PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
    const struct py_exchange *api = NULL;

    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_XDECREF(capsule);
    PyErr_Clear();
    while (api && api->major != PY_DL_MAJOR)
        api = api->previous;
    return api;
}

static bool has(PyTypeObject *type, const char *attribute)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, attribute);

    Py_XDECREF(found);
    PyErr_Clear();
    return found != NULL;
}

/* Does the type come from a package of that name? */
static bool is_from(PyTypeObject *type, const char *package)
{
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    const char *name = module ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    size_t length = strlen(package);
    bool found = name && strncmp(name, package, length) == 0 &&
                 (name[length] == '.' || name[length] == '\0');

    Py_XDECREF(module);
    PyErr_Clear();
    return found;
}

void py_type_of(struct py_state *state, PyObject *object, struct py_type *out)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *old;

    for (int i = 0; i < PY_MOST_TYPES; i++)
        if (state->types[i].type == type) {
            *out = state->types[i];
            return;
        }
    *out = (struct py_type){.type = type, .api = exchange_of(type)};
    out->is_torch = has(type, "is_neg") && has(type, "requires_grad");
    out->is_frozen = is_from(type, "jax") || is_from(type, "jaxlib");
    out->is_cuda = has(type, "__cuda_array_interface__");
    out->is_masked = has(type, "filled") && has(type, "mask");
    Py_INCREF((PyObject *)type);
    old = (PyObject *)state->types[state->next_type].type;
    state->types[state->next_type] = *out;
    state->next_type = (state->next_type + 1) % PY_MOST_TYPES;
    Py_XDECREF(old);
}
