/*
 * py_matrix_power.c - gram.matrix_power: powers of symmetric positive semidefinite matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    A,
    NUMERATOR,
    DENOMINATOR,
    METHOD,
    LOWER,
    RIDGE,
    RIDGE_RELATIVE,
    CONDITION,
    ITERATIONS,
    ERROR,
    TOLERANCE,
    KEEP,
    PRECISION,
    POWER,
    FLOOR,
    INFO,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_a,          PY_numerator, PY_denominator,    PY_method,
                                      PY_lower,      PY_ridge,     PY_ridge_relative, PY_condition,
                                      PY_iterations, PY_error,     PY_tolerance,      PY_keep,
                                      PY_precision,  PY_power,     PY_floor,          PY_info,
                                      PY_out};
static const struct py_signature signature = {"gram.matrix_power", words, COUNT, 3, 1};

static int read_int(PyObject *const *v, int at, const char *name, int *out)
{
    int64_t whole = *out;

    if (py_int64(signature.name, name, v[at], &whole))
        return -1;
    if (whole < INT32_MIN || whole > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: %s is %R, expected a whole number of at most 32 bits",
                     signature.name, name, v[at]);
        return -1;
    }
    *out = (int)whole;
    return 0;
}

static int read_options(PyObject *const *v, gram_matrix_power_options *options)
{
    static const char *const methods[] = {"auto",          "eigh",    "coupled-newton",
                                          "newton-schulz", "minimax", NULL};
    static const char *const precisions[] = {"auto", "f64", "f32", "tf32x3", "tf32", NULL};
    bool lower = true, relative = false, keep = false;
    int method = GRAM_POWER_AUTO, precision = GRAM_POWER_PRECISION_AUTO;

    if (py_given(v[POWER])) {
        if (py_double(signature.name, "power", v[POWER], &options->power))
            return -1;
        if (options->power == 0 || v[NUMERATOR] || v[DENOMINATOR]) {
            PyErr_Format(PyExc_ValueError,
                         "%s: power is %R, expected a number that is not 0, without numerator and "
                         "denominator",
                         signature.name, v[POWER]);
            return -1;
        }
    } else {
        options->numerator = -1;
        options->denominator = 4;
    }
    if (py_double(signature.name, "floor", v[FLOOR], &options->floor) ||
        read_int(v, NUMERATOR, "numerator", &options->numerator) ||
        read_int(v, DENOMINATOR, "denominator", &options->denominator) ||
        read_int(v, ITERATIONS, "iterations", &options->iterations) ||
        py_choice(signature.name, "method", v[METHOD], methods, &method) ||
        py_choice(signature.name, "precision", v[PRECISION], precisions, &precision) ||
        py_bool(signature.name, "lower", v[LOWER], &lower) ||
        py_bool(signature.name, "ridge_relative", v[RIDGE_RELATIVE], &relative) ||
        py_bool(signature.name, "keep", v[KEEP], &keep) ||
        py_double(signature.name, "condition", v[CONDITION], &options->condition) ||
        py_double(signature.name, "tolerance", v[TOLERANCE], &options->tolerance))
        return -1;
    options->method = (gram_power_method)method;
    options->precision = (gram_power_precision)precision;
    options->uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    options->ridge_relative = relative;
    options->keep = keep;
    return 0;
}

static PyObject *power(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                       bool query)
{
    struct py_state *state = py_state_of(module);
    gram_matrix_power_options options = GRAM_MATRIX_POWER_OPTIONS_INIT;
    gram_tensor *a, *out, *info = NULL;
    struct py_shape shape = {0};
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;
    int64_t n;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_options(v, &options) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    a = py_input(&call, "a", v[A]);
    if (!a || py_scalar(&call, "ridge", v[RIDGE], &options.ridge) ||
        py_side_output(&call, "error", v[ERROR], &options.error) ||
        py_side_output(&call, "info", v[INFO], &info) || py_place(&call))
        return py_fail(&call);
    n = a->ndim >= 2 ? a->shape[a->ndim - 1] : 0;
    shape.dtype = a->dtype;
    py_batch(&shape, a, 2);
    if (options.ridge.tensor)
        py_batch(&shape, options.ridge.tensor, 0);
    py_append(&shape, n);
    py_append(&shape, n);
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status = gram_matrix_power_workspace(call.g, a, &options, out, &call.need);
    else
        PY_WORK(status, gram_matrix_power(call.g, a, &options, out, info));
    return py_end(&call, status);
}

const char py_matrix_power_doc[] =
    "matrix_power" PY_TEXT_matrix_power
    "Powers of symmetric positive semidefinite matrices, (a + ridge I)^(numerator /\n"
    "denominator); by default the inverse fourth root.\n\n"
    "a is (..., n, n), of which one triangle is read, of float32 or float64, with any\n"
    "strides.  out may be a itself.  With ridge_relative, ridge is a multiple of the largest\n"
    "eigenvalue.  method is \"auto\", \"eigh\", \"coupled-newton\", \"newton-schulz\" or\n"
    "\"minimax\"; for the last one, condition is a bound for the condition number of the\n"
    "matrix.  precision is the arithmetic of the products of an iteration on a GPU: \"f64\",\n"
    "\"f32\", \"tf32x3\" or \"tf32\" (float64 allows only \"f64\").\n\n"
    "error receives an estimate of the error of each item, and tolerance is the largest\n"
    "estimate that is accepted (0: any).  info, int32 with the shape of the batch, receives\n"
    "0; 1 for nan or infinity; 2 if the matrix is not definite; 3 if an iteration does not\n"
    "converge; 4 if the estimate is above tolerance.  With keep, such items keep the previous\n"
    "contents of out.\n\n"
    "power is a number that replaces the fraction.  With floor > 0, eigenvalues of a + ridge\n"
    "I below floor times the largest, including negative ones, are raised to that value.\n"
    "Both need eigenvalues: method is then \"auto\" or \"eigh\", and there is no estimate of\n"
    "the error.\n\n"
    "Raises gram.LinAlgError if an item fails and info is not given, ValueError for shapes,\n"
    "dtypes and values that do not fit, and TypeError for arguments that are not arrays.\n"
    "Sources: Iannazzo 2006, Guo and Higham 2006 (coupled-newton); Higham, Functions of\n"
    "matrices, 2008, 6.35 (newton-schulz). gram/linalg.h has all formulas.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.matrix_power(np.diag([16.0, 81.0])).diagonal().round(3).tolist()\n"
    "[0.5, 0.333]\n"
    ">>> gram.matrix_power(np.array([[4.0, 0.0], [0.0, 9.0]]), 1, 2).round(12).tolist()\n"
    "[[2.0, 0.0], [0.0, 3.0]]\n";

PY_WITH_WORKSPACE(py_matrix_power, power)
