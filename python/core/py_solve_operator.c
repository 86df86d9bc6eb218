/*
 * py_solve_operator.c - gram.solve_operator: linear systems of matrices known by their products
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_operator.h"
#include "py_signatures.h"
#include <math.h>
#include <string.h>

enum {
    A,
    B,
    PRECONDITIONER,
    TOLERANCE,
    ITERATIONS,
    TIME_LIMIT,
    WARM_START,
    REPORT,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_a,          PY_b,          PY_preconditioner,
                                      PY_tolerance,  PY_iterations, PY_time_limit,
                                      PY_warm_start, PY_report,     PY_out};
static const struct py_signature signature = {"gram.solve_operator", words, COUNT, 2, 2};

static int read_options(PyObject *const *v, gram_solve_operator_options *o)
{
    bool warm_start = false;

    if (py_double(signature.name, "tolerance", v[TOLERANCE], &o->tolerance) ||
        py_int64(signature.name, "iterations", v[ITERATIONS], &o->iterations) ||
        py_double(signature.name, "time_limit", v[TIME_LIMIT], &o->time_limit) ||
        py_bool(signature.name, "warm_start", v[WARM_START], &warm_start))
        return -1;
    o->warm_start = warm_start;
    if (warm_start && !py_given(v[OUT])) {
        PyErr_Format(PyExc_TypeError, "%s: warm_start is True without out, the first guess",
                     signature.name);
        return -1;
    }
    if (py_report_dict(signature.name, v[REPORT]))
        return -1;
    return 0;
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_solve_operator_report *report, const char *message)
{
    const char *why = strstr(message, ": ");
    PyObject *items =
        Py_BuildValue("{s:s,s:O,s:L,s:L,s:d,s:L}", "message", why ? why + 2 : "", "reached",
                      report->reached ? Py_True : Py_False, "iterations",
                      (long long)report->iterations, "products", (long long)report->products,
                      "residual", report->residual, "column", (long long)report->column);

    return py_tell(dict, items);
}

const char py_solve_operator_doc[] =
    "solve_operator" PY_TEXT_solve_operator
    "The x of A x = b, for a symmetric positive definite A that is known by its products, by\n"
    "preconditioned conjugate gradients.\n\n"
    "a is a function that is given v (n, k), k at most 8, and returns A v, (n, k) of the same\n"
    "dtype; or an object with a product a @ v, such as a sparse matrix.  b is (n,) or (n, c), of\n"
    "float32 or float64, on the CPU or on a GPU, and v is an array of the same library on the\n"
    "same device.  x has the shape of b.  preconditioner is a function or an object of the same\n"
    "kind, whose product is P^-1 v, for a positive definite P that is close to A.  The columns of\n"
    "b share the products, and each leaves when it has converged.\n\n"
    "The call ends when |b - A x| / |b| of every column, which is computed afresh, is at most\n"
    "tolerance (0: 1e-5 in float32, 1e-10 in float64), after so many iterations (0: 1000), or\n"
    "after time_limit seconds (0: none).  With warm_start=True, out holds a first guess.  report,\n"
    "a dict, receives reached, iterations, products (columns that A was multiplied by), residual,\n"
    "the largest of a column, with that column, and message, which says why the tolerance was not\n"
    "reached, and is empty if it was.\n\n"
    "Memory: six arrays of the size of b, and 16 n numbers.  What a function raises ends the\n"
    "call.  Raises gram.LinAlgError if b or a product holds nan; and if the tolerance is not\n"
    "reached, or A turns out not to be positive definite, and report is not given: with report,\n"
    "the last x is returned, and report[\"reached\"] is False.  A given out holds it in both\n"
    "cases.  Raises ValueError for shapes, dtypes and values that do not fit.\n\n"
    "Source: Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems,\n"
    "J. Res. Nat. Bur. Standards 49, 1952.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> d = np.linspace(1, 9, 50)[:, None]\n"
    ">>> x = gram.solve_operator(lambda v: d * v, np.ones(50))\n"
    ">>> bool(np.abs(d[:, 0] * x - 1).max() < 1e-8)\n"
    "True\n";

PyObject *py_solve_operator(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    struct py_state *state = py_state_of(module);
    gram_solve_operator_options options = GRAM_SOLVE_OPERATOR_OPTIONS_INIT;
    gram_solve_operator_report report = {.size = sizeof report};
    struct py_operator a, preconditioner;
    struct py_shape shape = {.ndim = 0};
    PyThreadState *saved;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *b, *x;
    gram_status status;
    int64_t n;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_options(v, &options) ||
        py_open(&call, state, signature.name))
        return NULL;
    b = py_input(&call, "b", v[B]);
    if (!b || py_place(&call))
        return py_fail(&call);
    shape.dtype = b->dtype;
    for (int i = 0; i < b->ndim; i++)
        py_append(&shape, b->shape[i]);
    n = b->ndim > 0 ? b->shape[0] : 0;
    x = py_output(&call, "out", v[OUT], &shape);
    if (!x)
        return py_fail(&call);
    if (py_operator_of(&a, &call, "a", v[A], &saved, &call.array[0], n) ||
        (py_given(v[PRECONDITIONER]) &&
         py_operator_of(&preconditioner, &call, "preconditioner", v[PRECONDITIONER], &saved,
                        &call.array[0], n)))
        return py_fail(&call);
    PY_OPERATOR_WORK(saved, status,
                     gram_solve_operator(call.g, &a.given,
                                         py_given(v[PRECONDITIONER]) ? &preconditioner.given : NULL,
                                         b, &options, x, &report));
    if (py_given(v[REPORT]) && !PyErr_Occurred() &&
        (status == GRAM_OK || (status == GRAM_NUMERICAL && isfinite(report.residual)))) {
        if (tell(v[REPORT], &report, gram_message(call.g)))
            return py_fail(&call);
        status = GRAM_OK;
    }
    return py_end(&call, status);
}
