/*
 * py_core.c - the module gram._core: its functions, types and state
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_core.h"
#include "py_functions.h"
#include "py_machine.h"
#include "py_optimizer.h"
#include "py_types.h"

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
#define NEED                                                             \
  "Bytes of scratch, as (host, device), that the function of this name " \
  "takes for the same arguments; the data are not read."

static PyMethodDef functions[] = {
    {                     "cdist",                      FAST(py_cdist),     KEYWORDS,            py_cdist_doc},
    {           "cdist_workspace",            FAST(py_cdist_workspace),     KEYWORDS,                    NEED},
    {           "median_distance",            FAST(py_median_distance),     KEYWORDS,  py_median_distance_doc},
    { "median_distance_workspace",  FAST(py_median_distance_workspace),     KEYWORDS,                    NEED},
    {                    "kernel",                     FAST(py_kernel),     KEYWORDS,           py_kernel_doc},
    {          "kernel_workspace",           FAST(py_kernel_workspace),     KEYWORDS,                    NEED},
    {                "kernel_vjp",                 FAST(py_kernel_vjp),     KEYWORDS,       py_kernel_vjp_doc},
    {      "kernel_vjp_workspace",       FAST(py_kernel_vjp_workspace),     KEYWORDS,                    NEED},
    {                "cdist_grad",                 FAST(py_cdist_grad),     KEYWORDS,       py_cdist_grad_doc},
    {      "cdist_grad_workspace",       FAST(py_cdist_grad_workspace),     KEYWORDS,                    NEED},
    {                      "agop",                       FAST(py_agop),     KEYWORDS,             py_agop_doc},
    {            "agop_workspace",             FAST(py_agop_workspace),     KEYWORDS,                    NEED},
    {            "solve_cholesky",             FAST(py_solve_cholesky),     KEYWORDS,   py_solve_cholesky_doc},
    {  "solve_cholesky_workspace",   FAST(py_solve_cholesky_workspace),     KEYWORDS,                    NEED},
    {                  "solve_lu",                   FAST(py_solve_lu),     KEYWORDS,         py_solve_lu_doc},
    {        "solve_lu_workspace",         FAST(py_solve_lu_workspace),     KEYWORDS,                    NEED},
    {                      "eigh",                       FAST(py_eigh),     KEYWORDS,             py_eigh_doc},
    {            "eigh_workspace",             FAST(py_eigh_workspace),     KEYWORDS,                    NEED},
    {             "kernel_matmul",              FAST(py_kernel_matmul),     KEYWORDS,    py_kernel_matmul_doc},
    {   "kernel_matmul_workspace",    FAST(py_kernel_matmul_workspace),     KEYWORDS,                    NEED},
    {               "eigh_kernel",                FAST(py_eigh_kernel),     KEYWORDS,      py_eigh_kernel_doc},
    {     "eigh_kernel_workspace",      FAST(py_eigh_kernel_workspace),     KEYWORDS,                    NEED},
    {                      "kron",                       FAST(py_kron),     KEYWORDS,             py_kron_doc},
    {            "kron_workspace",             FAST(py_kron_workspace),     KEYWORDS,                    NEED},
    {               "kron_matmul",                FAST(py_kron_matmul),     KEYWORDS,      py_kron_matmul_doc},
    {     "kron_matmul_workspace",      FAST(py_kron_matmul_workspace),     KEYWORDS,                    NEED},
    {           "kron_matmul_vjp",            FAST(py_kron_matmul_vjp),     KEYWORDS,  py_kron_matmul_vjp_doc},
    { "kron_matmul_vjp_workspace",  FAST(py_kron_matmul_vjp_workspace),     KEYWORDS,                    NEED},
    {                "kron_solve",                 FAST(py_kron_solve),     KEYWORDS,       py_kron_solve_doc},
    {      "kron_solve_workspace",       FAST(py_kron_solve_workspace),     KEYWORDS,                    NEED},
    {               "kron_logdet",                FAST(py_kron_logdet),     KEYWORDS,      py_kron_logdet_doc},
    {     "kron_logdet_workspace",      FAST(py_kron_logdet_workspace),     KEYWORDS,                    NEED},
    {                "kron_trace",                 FAST(py_kron_trace),     KEYWORDS,       py_kron_trace_doc},
    {             "kron_diagonal",              FAST(py_kron_diagonal),     KEYWORDS,    py_kron_diagonal_doc},
    {   "kron_diagonal_workspace",    FAST(py_kron_diagonal_workspace),     KEYWORDS,                    NEED},
    {              "matrix_power",               FAST(py_matrix_power),     KEYWORDS,     py_matrix_power_doc},
    {    "matrix_power_workspace",     FAST(py_matrix_power_workspace),     KEYWORDS,                    NEED},
    {            "matmul_batched",             FAST(py_matmul_batched),     KEYWORDS,   py_matmul_batched_doc},
    {  "matmul_batched_workspace",   FAST(py_matmul_batched_workspace),     KEYWORDS,                    NEED},
    {            "matmul_chunked",             FAST(py_matmul_chunked),     KEYWORDS,   py_matmul_chunked_doc},
    {  "matmul_chunked_workspace",   FAST(py_matmul_chunked_workspace),     KEYWORDS,                    NEED},
    {                  "syrk_ema",                   FAST(py_syrk_ema),     KEYWORDS,         py_syrk_ema_doc},
    {        "syrk_ema_workspace",         FAST(py_syrk_ema_workspace),     KEYWORDS,                    NEED},
    {               "sample_grad",                FAST(py_sample_grad),     KEYWORDS,      py_sample_grad_doc},
    {     "sample_grad_workspace",      FAST(py_sample_grad_workspace),     KEYWORDS,                    NEED},
    {              "kfac_factors",               FAST(py_kfac_factors),     KEYWORDS,     py_kfac_factors_doc},
    {    "kfac_factors_workspace",     FAST(py_kfac_factors_workspace),     KEYWORDS,                    NEED},
    {          "natural_gradient",           FAST(py_natural_gradient),     KEYWORDS, py_natural_gradient_doc},
    {"natural_gradient_workspace", FAST(py_natural_gradient_workspace),     KEYWORDS,                    NEED},
    {                      "tune",                       FAST(py_tune),     KEYWORDS,             py_tune_doc},
    {                 "tune_eigh",                  FAST(py_tune_eigh),     KEYWORDS,        py_tune_eigh_doc},
    {                   "devices",                          py_devices,  METH_NOARGS,          py_devices_doc},
    {               "best_device",                      py_best_device,  METH_NOARGS,      py_best_device_doc},
    {               "memory_info",                FAST(py_memory_info),     KEYWORDS,      py_memory_info_doc},
    {               "set_threads",                      py_set_threads,       METH_O,      py_set_threads_doc},
    {               "get_threads",                      py_get_threads,  METH_NOARGS,      py_get_threads_doc},
    {                      "info",                             py_info,  METH_NOARGS,             py_info_doc},
    {                "cache_info",                 FAST(py_cache_info),     KEYWORDS,                    NULL},
    {                "cache_list",                 FAST(py_cache_list),     KEYWORDS,                    NULL},
    {               "cache_clear",                FAST(py_cache_clear),     KEYWORDS,                    NULL},
    {                "cache_warm",                 FAST(py_cache_warm),     KEYWORDS,                    NULL},
    {               "machine_fit",                      py_machine_fit, METH_VARARGS,                    NULL},
    {                 "eigh_many",                        py_eigh_many, METH_VARARGS,                    NULL},
    {                "eigh_multi",                       py_eigh_multi, METH_VARARGS,                    NULL},
    {         "matrix_power_many",                py_matrix_power_many, METH_VARARGS,                    NULL},
    {              "machine_load",                     py_machine_load,       METH_O,                    NULL},
    {            "kernel_numbers",             FAST(py_kernel_numbers),     KEYWORDS,                    NULL},
    {              "xla_handlers",                     py_xla_handlers,  METH_NOARGS,                    NULL},
    {          "optimizer_create",                 py_optimizer_create, METH_VARARGS,                    NULL},
    {        "optimizer_defaults",               py_optimizer_defaults,       METH_O,                    NULL},
    {                        NULL,                                NULL,            0,                    NULL},
};

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
    state->linalg_error = PyErr_NewExceptionWithDoc(
        "gram.LinAlgError", "A factorisation broke down: the matrix is not what it should be.",
        PyExc_ValueError, NULL);
    if (!state->linalg_error || PyModule_AddObjectRef(module, "LinAlgError", state->linalg_error) ||
        PyModule_AddStringConstant(module, "__version__", gram_version()))
        return -1;
    if (add_type(module, &py_machine_spec, &state->machine_type) ||
        add_type(module, &py_pending_spec, &state->pending_type) ||
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
