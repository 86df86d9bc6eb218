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
    "(J^T J / N + damping I)^-1 v, with J = gradients of N samples' log likelihoods with respect\n"
    "to all P parameters of a small model.\n\n"
    "gradients is (..., N, P), v and the result (..., P); float32 or float64, any strides,\n"
    "batches broadcast, damping > 0 too.  By Cholesky's factorisation of the smaller of the two\n"
    "Gram matrices.  info, int32 of the batch's shape, gets 0, or where it broke down.\n\n"
    "Raises gram.LinAlgError where an item fails and there is no info, ValueError for shapes,\n"
    "dtypes and values that do not fit, TypeError for what is no array.\n"
    "After Amari, Natural gradient works efficiently in learning, Neural Computation 10, 1998.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.natural_gradient(np.array([[2.0, 0.0]]), np.array([5.0, 1.0]), 1.0).tolist()\n"
    "[1.0, 1.0]\n";

PY_WITH_WORKSPACE(py_natural_gradient, solve)
