/*
 * py_eigh.c - gram.eigh: eigenvalues and eigenvectors of symmetric matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include <string.h>

enum {
    A,
    LOWER,
    VECTORS,
    SELECT,
    FIRST,
    COUNT_OF,
    RANGE,
    FOUND,
    DRIVER,
    INFO,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_a,     PY_lower, PY_vectors, PY_select, PY_first, PY_count,
                                      PY_range, PY_found, PY_driver,  PY_info,   PY_out};
static const struct py_signature signature = {"gram.eigh", words, COUNT, 1, 1};

/* The pair of numbers of range, an interval that is open below and closed above. */
static int read_range(PyObject *value, gram_eigh_options *options)
{
    PyObject *item;
    double *ends[] = {&options->lower, &options->upper};
    int failed = 0;

    if (!py_given(value))
        return 0;
    if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
        PyErr_Format(PyExc_TypeError, "%s: range is %R, expected a tuple of two numbers",
                     signature.name, value);
        return -1;
    }
    for (int i = 0; i < 2 && !failed; i++) {
        item = PyTuple_GetItem(value, i);
        failed = py_double(signature.name, "range", item, ends[i]);
    }
    return failed;
}

static int read_options(PyObject *const *v, gram_eigh_options *options, bool *vectors)
{
    static const char *const selects[] = {"all", "index", "value", "largest", "smallest", NULL};
    static const char *const drivers[] = {"auto",      "closed-form", "jacobi", "divide",
                                          "bisection", "krylov",      NULL};
    int select = GRAM_EIGH_ALL, driver = GRAM_EIGH_DRIVER_AUTO;
    bool lower = true;

    *vectors = true;
    if (py_bool(signature.name, "lower", v[LOWER], &lower) ||
        py_bool(signature.name, "vectors", v[VECTORS], vectors) ||
        py_choice(signature.name, "select", v[SELECT], selects, &select) ||
        py_choice(signature.name, "driver", v[DRIVER], drivers, &driver) ||
        py_int64(signature.name, "first", v[FIRST], &options->first) ||
        py_int64(signature.name, "count", v[COUNT_OF], &options->count) ||
        read_range(v[RANGE], options))
        return -1;
    options->uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    options->select = (gram_eigh_select)select;
    options->driver = (gram_eigh_driver)driver;
    return 0;
}

struct outputs {
    gram_tensor *values, *vectors, *info;
};

/* Makes values, and vectors if they are wanted; out is one array or the tuple of both. */
static int make_outputs(struct py_call *call, PyObject *const *v, const gram_tensor *a,
                        const gram_eigh_options *options, bool vectors, struct outputs *to)
{
    int64_t n = a->ndim >= 2 ? a->shape[a->ndim - 1] : 0;
    int64_t k = options->select == GRAM_EIGH_ALL ? n : options->count;
    struct py_shape shape = {.dtype = a->dtype};
    bool given = py_given(v[OUT]);

    *to = (struct outputs){NULL};
    call->as_tuple = vectors;
    if (given && vectors && (!PyTuple_Check(v[OUT]) || PyTuple_Size(v[OUT]) != 2)) {
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of values and vectors",
                     signature.name, v[OUT]);
        return -1;
    }
    if (options->select == GRAM_EIGH_VALUE && !v[COUNT_OF])
        k = n;
    py_batch(&shape, a, 2);
    py_append(&shape, k < 0 ? 0 : k);
    to->values =
        py_output(call, "values", given && vectors ? PyTuple_GetItem(v[OUT], 0) : v[OUT], &shape);
    if (!to->values)
        return -1;
    if (vectors) {
        shape.size[shape.ndim - 1] = n;
        py_append(&shape, k < 0 ? 0 : k);
        to->vectors = py_output(call, "vectors", given ? PyTuple_GetItem(v[OUT], 1) : NULL, &shape);
        if (!to->vectors)
            return -1;
    }
    if (py_given(v[INFO]) && !(to->info = py_inout(call, "info", v[INFO])))
        return -1;
    return 0;
}

static PyObject *decompose(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    struct outputs to;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *a;
    gram_status status;
    bool vectors;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        read_options(v, &options, &vectors) || py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    a = py_input(&call, "a", v[A]);
    if (!a || py_place(&call) ||
        (py_given(v[FOUND]) && !(options.found = py_inout(&call, "found", v[FOUND]))) ||
        make_outputs(&call, v, a, &options, vectors, &to))
        return py_fail(&call);
    if (query)
        status = gram_eigh_workspace(call.g, a, &options, to.values, to.vectors, &call.need);
    else
        PY_WORK(status, gram_eigh(call.g, a, &options, to.values, to.vectors, to.info));
    return py_end(&call, status);
}

const char py_eigh_doc[] =
    "eigh(a, *, lower=True, vectors=True, select=\"all\", first=0, count=0, range=None,\n"
    "     found=None, driver=\"auto\", info=None, out=None)\n\n"
    "Eigenvalues, ascending, and orthonormal eigenvectors of symmetric matrices: (values,\n"
    "vectors) with a @ vectors = vectors * values, or values alone with vectors=False.\n\n"
    "a is (..., n, n), of which one triangle is read; float32 or float64; any strides.  select is\n"
    "\"all\"; \"largest\" or \"smallest\" (count of them); \"index\" (count from first, counted\n"
    "from 0); or \"value\": those in range=(lower, upper), at most count (default n), whose\n"
    "number goes to found, int64 of the batch's shape; what is left is nan.  out is the tuple\n"
    "of both results (values alone with vectors=False), and vectors may be a itself.  info,\n"
    "int32 of the batch's shape, gets 0; 1: no convergence; 2: nan or infinity; that item is\n"
    "nan then.  driver is \"auto\", \"closed-form\", \"jacobi\", \"divide\", \"bisection\" or\n"
    "\"krylov\".\n\n"
    "Raises gram.LinAlgError if an item fails and there is no info, ValueError for shapes, dtypes\n"
    "and values that do not fit, TypeError for what is no array.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> values, vectors = gram.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))\n"
    ">>> values.round(12).tolist()\n"
    "[1.0, 3.0]\n"
    ">>> gram.eigh(np.diag([3.0, 1.0, 2.0]), vectors=False, select=\"largest\", count=1).tolist()\n"
    "[3.0]\n";

PyObject *py_eigh(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return decompose(module, args, nargs, kwnames, false);
}

PyObject *py_eigh_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    return decompose(module, args, nargs, kwnames, true);
}
