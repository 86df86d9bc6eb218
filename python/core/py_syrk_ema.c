/*
 * py_syrk_ema.c - gram.syrk_ema: running averages of Gram matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    L,
    BETA,
    ALPHA,
    TRANSPOSE,
    PACKED,
    SUM,
    KEEP,
    INFO,
    COUNT
};

static const unsigned char words[] = {PY_x,      PY_l,   PY_beta, PY_alpha, PY_transpose,
                                      PY_packed, PY_sum, PY_keep, PY_info};
static const struct py_signature signature = {"gram.syrk_ema", words, COUNT, 2, 2};

static int read_options(PyObject *const *v, gram_syrk_ema_options *o)
{
    bool transpose = false, packed = false, sum = false, keep = false;

    if (py_bool(signature.name, "transpose", v[TRANSPOSE], &transpose) ||
        py_bool(signature.name, "packed", v[PACKED], &packed) ||
        py_bool(signature.name, "sum", v[SUM], &sum) ||
        py_bool(signature.name, "keep", v[KEEP], &keep))
        return -1;
    o->transpose = transpose, o->packed = packed, o->sum = sum, o->keep = keep;
    return 0;
}

static PyObject *average(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames, bool query)
{
    gram_syrk_ema_options options = GRAM_SYRK_EMA_OPTIONS_INIT;
    gram_tensor *x, *l, *info = NULL;
    struct py_shape shape = {0};
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (!py_given(v[L])) {
        PyErr_Format(PyExc_TypeError, "%s: l is None, expected the array to be updated",
                     signature.name);
        return py_fail(&call);
    }
    x = py_input(&call, "x", v[X]);
    if (!x || read_options(v, &options) || py_scalar(&call, "beta", v[BETA], &options.beta) ||
        py_scalar(&call, "alpha", v[ALPHA], &options.alpha) ||
        py_side_output(&call, "info", v[INFO], &info) || py_place(&call))
        return py_fail(&call);
    l = py_output(&call, "l", v[L], &shape);
    if (!l)
        return py_fail(&call);
    if (query)
        status = gram_syrk_ema_workspace(call.g, x, &options, l, &call.need);
    else
        PY_WORK(status, gram_syrk_ema(call.g, x, &options, l, info));
    return py_end(&call, status);
}

const char py_syrk_ema_doc[] =
    "syrk_ema" PY_TEXT_syrk_ema
    "The running average of a Gram matrix, in place: l <- beta l + (1 - beta) alpha x x^T.\n"
    "With transpose it takes x^T x instead, and with sum it takes alpha without the factor 1\n"
    "- beta.  Returns l.\n\n"
    "x is (..., m, k).  l is (..., n, n), and is exactly symmetric afterwards; with packed it\n"
    "is the upper triangle, row by row, (..., n (n + 1) / 2).  All are float32 or all are\n"
    "float64, with any strides.  x, beta and alpha broadcast over the batch of l.  info,\n"
    "int32 with the shape of that batch, receives 1 where x is not finite; with keep, the l\n"
    "of such an item does not change.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> l = np.eye(2)\n"
    ">>> gram.syrk_ema(np.array([[1.0], [2.0]]), l, beta=0.5).tolist()\n"
    "[[1.0, 1.0], [1.0, 2.5]]\n";

PY_WITH_WORKSPACE(py_syrk_ema, average)
