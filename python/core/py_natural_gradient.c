/*
 * py_natural_gradient.c - gram.natural_gradient: that of a small model
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    GRADIENTS,
    V,
    DAMPING,
    INFO,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_gradients, PY_v, PY_damping, PY_info, PY_out};
static const struct py_signature signature = {"gram.natural_gradient", words, COUNT, 3, 3};

static PyObject *solve(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                       bool query)
{
    gram_tensor *gradients, *v_in, *out, *info = NULL;
    gram_scalar damping = gram_number(0);
    struct py_shape shape = {0};
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (!(gradients = py_input(&call, "gradients", v[GRADIENTS])) ||
        !(v_in = py_input(&call, "v", v[V])) || py_scalar(&call, "damping", v[DAMPING], &damping) ||
        py_side_output(&call, "info", v[INFO], &info) || py_place(&call))
        return py_fail(&call);
    shape.dtype = gradients->dtype;
    py_batch(&shape, gradients, 2);
    py_batch(&shape, v_in, 1);
    if (damping.tensor)
        py_batch(&shape, damping.tensor, 0);
    py_append(&shape, v_in->ndim >= 1 ? v_in->shape[v_in->ndim - 1] : 0);
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status = gram_natural_gradient_workspace(call.g, gradients, v_in, damping, out, &call.need);
    else
        PY_WORK(status, gram_natural_gradient(call.g, gradients, v_in, damping, out, info));
    return py_end(&call, status);
}

const char py_natural_gradient_doc[] =
    "natural_gradient" PY_TEXT_natural_gradient
    "(J^T J / N + damping I)^-1 v, where the rows of J = gradients are the gradients of the\n"
    "log likelihoods of N samples with respect to all P parameters of a small model.\n\n"
    "gradients is (..., N, P), and v and the result are (..., P).  All are float32 or all are\n"
    "float64, with any strides, and batches broadcast.  damping > 0 may be an array with one\n"
    "value per item.  The method is a Cholesky factorisation of the smaller of the two Gram\n"
    "matrices.  info, int32 with the shape of the batch, receives 0, or the order at which\n"
    "the factorisation failed.\n\n"
    "Raises gram.LinAlgError if an item fails and info is not given, ValueError for shapes,\n"
    "dtypes and values that do not fit, and TypeError for arguments that are not arrays.\n"
    "After Amari, Natural gradient works efficiently in learning, Neural Computation 10,\n"
    "1998.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.natural_gradient(np.array([[2.0, 0.0]]), np.array([5.0, 1.0]), 1.0).tolist()\n"
    "[1.0, 1.0]\n";

PY_WITH_WORKSPACE(py_natural_gradient, solve)
