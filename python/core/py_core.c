/*
 * py_core.c - the module gram._core: its functions, types and state
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include "py_functions.h"
#include "py_machine.h"
#include "py_optimizer.h"
#include "py_signatures.h"
#include "py_types.h"
#include <string.h>

struct py_state *py_state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

PyObject *py_helper(struct py_state *state, const char *name)
{
    if (!state->helpers)
        state->helpers = PyImport_ImportModule("gram._arrays");
    return state->helpers ? PyObject_GetAttrString(state->helpers, name) : NULL;
}

#define FAST(function) (PyCFunction)(void (*)(void))(function)
#define KEYWORDS       (METH_FASTCALL | METH_KEYWORDS)

/* The functions with a workspace query. */
static const struct {
    const char *name;
    PyObject *(*query)(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                       PyObject *kwnames);
} queries[] = {
#define PY_QUERY(name) {#name, py_##name##_workspace},
#define PY_CALL(name)
#define PY_INNER(name)
#include "py_functions.def"
};

/* workspace(name, *arguments, **options): the bytes of a call, as (host, device); None where there
 * is no such query. */
static PyObject *workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    for (size_t i = 0; nargs > 0 && i < sizeof queries / sizeof *queries; i++)
        if (PyUnicode_Check(args[0]) &&
            PyUnicode_CompareWithASCIIString(args[0], queries[i].name) == 0)
            return queries[i].query(module, args + 1, nargs - 1, kwnames);
    Py_RETURN_NONE;
}

/* clang-format off */
static PyMethodDef functions[] = {
#define PY_QUERY(name) PY_CALL(name)
#define PY_CALL(name)  {#name, FAST(py_##name), KEYWORDS, py_##name##_doc},
#define PY_INNER(name) {#name, FAST(py_##name), KEYWORDS, NULL},
#include "py_functions.def"
    {"devices",              py_devices,              METH_NOARGS,  py_devices_doc},
    {"best_device",          py_best_device,          METH_NOARGS,  py_best_device_doc},
    {"set_threads",          py_set_threads,          METH_O,       py_set_threads_doc},
    {"get_threads",          py_get_threads,          METH_NOARGS,  py_get_threads_doc},
    {"info",                 py_info,                 METH_NOARGS,  py_info_doc},
    {"workspace",            FAST(workspace),         KEYWORDS,     NULL},
    {"machine_fit",          py_machine_fit,          METH_VARARGS, NULL},
    {"eigh_many",            py_eigh_many,            METH_VARARGS, NULL},
    {"eigh_multi",           py_eigh_multi,           METH_VARARGS, NULL},
    {"eigh_multi_workspace", py_eigh_multi_workspace, METH_VARARGS, NULL},
    {"matrix_power_many",    py_matrix_power_many,    METH_VARARGS, NULL},
    {"machine_load",         py_machine_load,         METH_O,       NULL},
    {"kernel_takes",         py_kernel_takes,         METH_O,       NULL},
    {"xla_handlers",         py_xla_handlers,         METH_NOARGS,  NULL},
    {"optimizer_create",     py_optimizer_create,     METH_VARARGS, NULL},
    {"optimizer_defaults",   py_optimizer_defaults,   METH_O,       NULL},
    {NULL, NULL, 0, NULL},
};
/* clang-format on */

/* A type of the module; *out gets a reference, unless out is NULL. */
static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    int failed = type ? PyModule_AddType(module, type) : -1;

    if (out && !failed)
        *out = type;
    else
        Py_XDECREF((PyObject *)type);
    return failed;
}

static const char linalg_doc[] =
    "LinAlgError(*args)\n--\n\n"
    "A factorisation failed: the matrix is, for example, singular or not positive definite.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> try:\n"
    "...     gram.solve_cholesky(-np.eye(2), np.ones(2))\n"
    "... except gram.LinAlgError as e:\n"
    "...     print(\"not positive definite\" in str(e))\n"
    "True\n";

static int set_doc(PyObject *type, const char *doc)
{
    PyObject *text = PyUnicode_FromString(doc);
    int failed = text ? PyObject_SetAttrString(type, "__doc__", text) : -1;

    Py_XDECREF(text);
    return failed;
}

static int fill(PyObject *module)
{
    static const char *const names[] = {
#define PY_WORD(name) #name,
        PY_WORDS(PY_WORD)
#undef PY_WORD
    };
    struct py_state *state = py_state_of(module);

    for (int i = 0; i < PY_WORD_COUNT; i++)
        if (!(state->word[i] = PyUnicode_InternFromString(names[i])))
            return -1;
    state->requires_grad = PyUnicode_InternFromString("requires_grad");
    state->is_neg = PyUnicode_InternFromString("is_neg");
    if (!state->requires_grad || !state->is_neg)
        return -1;
    state->linalg_error =
        PyErr_NewExceptionWithDoc("gram.LinAlgError", linalg_doc, PyExc_ValueError, NULL);
    /* The type takes its signature from the whole text; __doc__ is the part after the signature. */
    if (!state->linalg_error || set_doc(state->linalg_error, strstr(linalg_doc, "A fact")) ||
        PyModule_AddObjectRef(module, "LinAlgError", state->linalg_error) ||
        PyModule_AddStringConstant(module, "__version__", gram_version()))
        return -1;
    if (add_type(module, &py_machine_spec, &state->machine_type) ||
        add_type(module, &py_pending_spec, &state->pending_type) ||
        add_type(module, &py_communicator_spec, &state->communicator_type) ||
        add_type(module, &py_memory_spec, &state->memory_type) ||
        add_type(module, &py_optimizer_spec, &state->optimizer_type) ||
        add_type(module, &py_optimizer_state_spec, &state->optimizer_state_type))
        return -1;
    if (add_type(module, &py_kfac_spec, NULL))
        return -1;
    return add_type(module, &py_module_spec, NULL);
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct py_state *state = py_state_of(module);

    if (!state)
        return 0;
    Py_VISIT(state->linalg_error);
    Py_VISIT(state->numpy_empty);
    Py_VISIT(state->helpers);
    Py_VISIT(state->machine_type);
    Py_VISIT(state->pending_type);
    Py_VISIT(state->optimizer_type);
    Py_VISIT(state->optimizer_state_type);
    Py_VISIT(state->communicator_type);
    Py_VISIT(state->memory_type);
    for (int i = 0; i < PY_MOST_TYPES; i++)
        Py_VISIT(state->types[i].type);
    return 0;
}

static int clear(PyObject *module)
{
    struct py_state *state = py_state_of(module);

    if (!state)
        return 0;
    Py_CLEAR(state->linalg_error);
    Py_CLEAR(state->numpy_empty);
    Py_CLEAR(state->helpers);
    Py_CLEAR(state->machine_type);
    Py_CLEAR(state->pending_type);
    Py_CLEAR(state->optimizer_type);
    Py_CLEAR(state->optimizer_state_type);
    Py_CLEAR(state->communicator_type);
    Py_CLEAR(state->memory_type);
    for (int i = 0; i < PY_MOST_TYPES; i++)
        Py_CLEAR(state->types[i].type);
    Py_CLEAR(state->requires_grad);
    Py_CLEAR(state->is_neg);
    for (int i = 0; i < PY_WORD_COUNT; i++)
        Py_CLEAR(state->word[i]);
    for (int i = 0; i <= GRAM_I64; i++)
        Py_CLEAR(state->numpy_dtype[i]);
    return 0;
}

static void release(void *module)
{
    struct py_state *state = py_state_of(module);

    if (!state)
        return;
    clear(module);
    py_drop_contexts(state);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill},
    {          0,         NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "gram._core",
    .m_doc = "libgram's functions; see gram.",
    .m_size = sizeof(struct py_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

/* NOLINTBEGIN(readability-identifier-naming): CPython looks for this name */
PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
/* NOLINTEND(readability-identifier-naming) */
