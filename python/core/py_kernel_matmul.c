/*
 * py_kernel_matmul.c - gram.kernel_matmul: products with a kernel matrix that is never stored
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    V = PY_K_COUNT,
    ACCUMULATE,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_KERNEL_WORDS, PY_v, PY_accumulate, PY_out};
static const struct py_signature signature = {"gram.kernel_matmul", words, COUNT, 3, 1};

static PyObject *multiply(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    struct py_shape shape = {0};
    struct py_pair pair;
    struct py_kernel k;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *right, *out;
    gram_status status;
    bool accumulate = false, is_vector;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_bool(signature.name, "accumulate", v[ACCUMULATE], &accumulate))
        return NULL;
    if (!py_given(v[V]) || (accumulate && !py_given(v[OUT]))) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", signature.name,
                     py_given(v[V]) ? "out" : "v");
        return NULL;
    }
    if (py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    options.accumulate = accumulate;
    if (py_pair(&call, v, &pair, &shape) || !(right = py_input(&call, "v", v[V])) ||
        py_kernel_options(&call, v, &k) || py_place(&call))
        return py_fail(&call);
    shape.dtype = py_pair_dtype(pair.x);
    is_vector = right->ndim == 1;
    if (is_vector)
        py_as_column(right);
    py_batch(&shape, right, 2);
    py_kernel_batch(&shape, &k);
    py_append(&shape, pair.x->ndim >= 2 ? pair.x->shape[pair.x->ndim - 2] : 0);
    if (!is_vector)
        py_append(&shape, right->ndim >= 2 ? right->shape[right->ndim - 1] : 0);
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (is_vector)
        py_as_column(out);
    if (query)
        status = gram_kernel_matmul_workspace(call.g, pair.x, pair.y, &k.options, right, &options,
                                              out, &call.need);
    else
        PY_WORK(status,
                gram_kernel_matmul(call.g, pair.x, pair.y, &k.options, right, &options, out));
    return py_end(&call, status);
}

const char py_kernel_matmul_doc[] =
    "kernel_matmul" PY_TEXT_kernel_matmul
    "kernel(x, y, kernel, **options) @ v, without storing the kernel matrix.\n\n"
    "v is (..., n, r), or (n,) for one vector, with the dtype that the matrix would have, and\n"
    "out is (..., m, r).  accumulate=True adds to out.  Without y, the call does half of the\n"
    "work.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and TypeError for\n"
    "arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0], [1.0], [2.0]])\n"
    ">>> gram.kernel_matmul(x, kernel=\"linear\", v=np.ones(3)).tolist()\n"
    "[0.0, 3.0, 6.0]\n";

PY_WITH_WORKSPACE(py_kernel_matmul, multiply)
