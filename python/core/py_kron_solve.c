/*
 * py_kron_solve.c - gram.kron_solve: systems with a Kronecker product that is never formed
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    FACTORS,
    B,
    SIDE,
    METHOD,
    LOWER,
    SHIFT,
    INFO,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_factors, PY_b,     PY_side, PY_method,
                                      PY_lower,   PY_shift, PY_info, PY_out};
static const struct py_signature signature = {"gram.kron_solve", words, COUNT, 2, 2};

struct system {
    struct py_factors factors;
    gram_tensor *b, *info, *x;
    gram_kron_solve_options options;
};

/* Views all inputs and makes the output; factors.list is to be released in any case. */
static int prepare(struct py_call *call, PyObject *const *v, struct system *s)
{
    static const char *const methods[] = {"lu", "cholesky", "eigen", NULL};
    struct py_shape shape = {0};
    int method = GRAM_KRON_LU;
    bool lower = true;

    if (py_side(call->function, v[SIDE], &s->options.side) ||
        py_choice(call->function, "method", v[METHOD], methods, &method) ||
        py_bool(call->function, "lower", v[LOWER], &lower) ||
        py_factors(call, v[FACTORS], &s->factors) || !(s->b = py_input(call, "b", v[B])) ||
        py_scalar(call, "shift", v[SHIFT], &s->options.shift) ||
        py_side_output(call, "info", v[INFO], &s->info) || py_place(call))
        return -1;
    s->options.method = (gram_kron_method)method;
    s->options.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    py_factors_shape(&s->factors, &shape, NULL, NULL);
    py_batch(&shape, s->b, 2);
    if (s->options.shift.tensor)
        py_batch(&shape, s->options.shift.tensor, 0);
    for (int i = 2; i > 0; i--)
        py_append(&shape, s->b->ndim >= 2 ? s->b->shape[s->b->ndim - i] : 0);
    s->x = py_output(call, "out", v[OUT], &shape);
    return s->x ? 0 : -1;
}

static PyObject *solve(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                       bool query)
{
    struct system s = {.options = GRAM_KRON_SOLVE_OPTIONS_INIT};
    const gram_tensor *const *at = (const gram_tensor *const *)s.factors.at;
    gram_status status = GRAM_OK;
    struct py_call call;
    PyObject *v[COUNT];
    bool ready;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    ready = prepare(&call, v, &s) == 0;
    if (ready && query)
        status = gram_kron_solve_workspace(call.g, at, s.factors.count, s.b, &s.options, s.x,
                                           &call.need);
    else if (ready)
        PY_WORK(status, gram_kron_solve(call.g, at, s.factors.count, s.b, &s.options, s.x, s.info));
    return py_factors_end(&call, &s.factors, ready, status);
}

const char py_kron_solve_doc[] =
    "kron_solve" PY_TEXT_kron_solve
    "Solves x (K + shift I) = b with the Kronecker product K of square factors, which is\n"
    "never formed; with side=\"left\", (K + shift I) x = b.\n\n"
    "factors is a sequence of 1 to 16 matrices (..., n_i, n_i).  With n the product of their\n"
    "orders, b and x are (..., m, n), and on the left (..., n, m).  method is \"lu\";\n"
    "\"cholesky\" for symmetric positive definite factors; or \"eigen\" for symmetric\n"
    "factors, which is the only one that takes a shift.  Only one triangle of symmetric\n"
    "factors is read.  Batches broadcast.  All are float32, or all are float64.  out may be b\n"
    "itself.  info, int32 with the shape of the batch, receives 0; i > 0 if factor i failed;\n"
    "or one more than the number of factors if an eigenvalue of K + shift I is 0.  The x of\n"
    "such an item is nan.\n\n"
    "Raises gram.LinAlgError if an item fails and info is not given, ValueError for shapes\n"
    "and dtypes that do not fit, and TypeError for arguments that are not arrays.  After\n"
    "Saatci, Scalable inference for structured Gaussian process models, 2011 (eigen).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> factors = [np.diag([1.0, 2.0]), np.diag([4.0, 5.0])]\n"
    ">>> gram.kron_solve(factors, np.array([[4.0, 5.0, 8.0, 10.0]])).tolist()\n"
    "[[1.0, 1.0, 1.0, 1.0]]\n";

PY_WITH_WORKSPACE(py_kron_solve, solve)
