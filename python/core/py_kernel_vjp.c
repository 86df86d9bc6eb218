/*
 * py_kernel_vjp.c - gram.kernel_vjp: gradients of a kernel matrix
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"
#include <string.h>

enum {
    GRAD = PY_K_COUNT,
    WRT,
    OUT,
    COUNT,
    LENGTHS = 4, /* among the names of wrt */
    MOST_GRADS = 5
};

static const unsigned char words[] = {PY_KERNEL_WORDS, PY_grad, PY_wrt, PY_out};
static const struct py_signature signature = {"gram.kernel_vjp", words, COUNT, 3, 1};

/* Which gradients are wanted, in which order. */
struct wanted {
    int which[MOST_GRADS];
    int count;
};

static int read_name(PyObject *name, struct wanted *w)
{
    static const char *const names[] = {"x", "y", "bandwidth", "regularization", "lengths", NULL};

    if (w->count == MOST_GRADS) {
        PyErr_Format(PyExc_ValueError, "%s: wrt has more than %d names", signature.name,
                     (int)MOST_GRADS);
        return -1;
    }
    w->which[w->count] = -1;
    if (py_choice(signature.name, "wrt", name, names, &w->which[w->count]))
        return -1;
    for (int i = 0; i < w->count; i++)
        if (w->which[i] == w->which[w->count])
            w->which[w->count] = -1;
    if (w->which[w->count] < 0) {
        PyErr_Format(PyExc_ValueError, "%s: wrt has %R twice", signature.name, name);
        return -1;
    }
    w->count++;
    return 0;
}

static int read_wrt(struct py_call *call, PyObject *value, struct wanted *w)
{
    Py_ssize_t count;
    PyObject *name;
    int failed = 0;

    w->count = 0;
    call->as_tuple = py_given(value) && !PyUnicode_Check(value);
    if (!py_given(value)) {
        w->which[w->count++] = 0;
        return 0;
    }
    if (!call->as_tuple)
        return read_name(value, w);
    count = PySequence_Size(value);
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        name = PySequence_GetItem(value, i);
        failed = name ? read_name(name, w) : -1;
        Py_XDECREF(name);
    }
    if (count == 0)
        PyErr_Format(PyExc_ValueError, "%s: wrt is empty, expected at least one name",
                     signature.name);
    return count > 0 && !failed ? 0 : -1;
}

static bool to_lengths(const struct wanted *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->which[i] == LENGTHS)
            return true;
    return false;
}

/* Makes the outputs, or views those that the caller gave: one, or a tuple as wrt. */
static int make_outputs(struct py_call *call, PyObject *value, const struct wanted *w,
                        const struct py_shape *batch, const struct py_pair *pair,
                        gram_tensor **grads)
{
    bool many = py_given(value) && call->as_tuple;

    if (many && (!PyTuple_Check(value) || PyTuple_Size(value) != w->count)) {
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of %d arrays",
                     signature.name, value, w->count);
        return -1;
    }
    for (int i = 0; i < w->count; i++) {
        const gram_tensor *of = w->which[i] == 0 ? pair->x : pair->y ? pair->y : pair->x;
        struct py_shape shape = *batch;
        if (w->which[i] < 2)
            py_append(&shape, of->ndim >= 2 ? of->shape[of->ndim - 2] : 0);
        if (w->which[i] < 2 || w->which[i] == LENGTHS)
            py_append(&shape, of->ndim >= 2 ? of->shape[of->ndim - 1] : 0);
        grads[w->which[i]] =
            py_output(call, "out", many ? PyTuple_GetItem(value, i) : value, &shape);
        if (!grads[w->which[i]])
            return -1;
    }
    return 0;
}

static PyObject *products(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    gram_tensor *grad, *to[MOST_GRADS] = {NULL};
    struct py_shape shape = {0};
    struct wanted wanted;
    struct py_pair pair;
    struct py_kernel k;
    struct py_call call;
    gram_kernel_grads grads;
    PyObject *v[COUNT];
    gram_status status;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (!py_given(v[GRAD])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument 'grad'", signature.name);
        return py_fail(&call);
    }
    if (read_wrt(&call, v[WRT], &wanted) || py_pair(&call, v, &pair, &shape))
        return py_fail(&call);
    grad = py_input(&call, "grad", v[GRAD]);
    if (!grad || py_kernel_options(&call, v, &k) || py_place(&call))
        return py_fail(&call);
    if (to_lengths(&wanted) && !k.options.lengths) {
        PyErr_Format(PyExc_ValueError, "%s: wrt has 'lengths', but none are given", signature.name);
        return py_fail(&call);
    }
    shape.dtype = py_pair_dtype(pair.x);
    py_batch(&shape, grad, 2);
    py_kernel_batch(&shape, &k);
    if (make_outputs(&call, v[OUT], &wanted, &shape, &pair, to))
        return py_fail(&call);
    grads = (gram_kernel_grads){to[0], to[1], to[2], to[3], to[LENGTHS]};
    if (query)
        status =
            gram_kernel_vjp_workspace(call.g, pair.x, pair.y, &k.options, grad, &grads, &call.need);
    else
        PY_WORK(status, gram_kernel_vjp(call.g, pair.x, pair.y, &k.options, grad, &grads));
    return py_end(&call, status);
}

const char py_kernel_vjp_doc[] =
    "kernel_vjp" PY_TEXT_kernel_vjp
    "Vector-Jacobian products of K = kernel(x, y, kernel, **options) with grad, which is\n"
    "(..., m, n).  For wrt \"x\" the result is sum_j grad[i, j] dK[i, j] / dx[i, k], and\n"
    "likewise for \"y\".  For \"bandwidth\" it is sum_ij grad[i, j] dK[i, j] / dL, for\n"
    "\"regularization\" the sum of grad over the diagonal, and for \"lengths\" the sum of\n"
    "grad[i, j] dK[i, j] / dl[k], which is (..., k).\n\n"
    "wrt is one name, or a tuple of names for a tuple of results (and of out).  The gradients\n"
    "of x and y are (..., m, k) and (..., n, k), and the others have the shape of the batch.\n"
    "If y is not given, \"x\" is the gradient with respect to the first argument of K(x, x),\n"
    "and \"y\" that with respect to the second; the gradient of x is their sum.  Coordinates\n"
    "that are equal contribute 0, and so do points that coincide if the kernel has no\n"
    "derivative there.  No (m, n) matrix is stored.  All arrays are float32, or all are\n"
    "float64.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and for p = 0 and inf,\n"
    "which have no gradient; TypeError for arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, y = np.array([[3.0]]), np.array([[1.0]])\n"
    ">>> gram.kernel_vjp(x, y, \"linear\", grad=np.array([[2.0]])).item()\n"
    "2.0\n";

PY_WITH_WORKSPACE(py_kernel_vjp, products)
