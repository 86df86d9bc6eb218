/*
 * py_kron.c - gram.kron: Kronecker products written out
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"

enum {
    FACTORS,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_factors, PY_out};
static const struct py_signature signature = {"gram.kron", words, COUNT, 1, 1};

int py_factors(struct py_call *call, PyObject *value, struct py_factors *f)
{
    PyObject *list = PySequence_Check(value) ? PySequence_Tuple(value) : NULL;

    f->list = list;
    f->count = list ? (int)PyTuple_Size(list) : 0;
    if (!list || f->count < 1 || f->count > GRAM_MAX_FACTORS) {
        PyErr_Format(PyExc_TypeError, "%s: factors is %R, expected a sequence of 1 to %d matrices",
                     call->function, value, GRAM_MAX_FACTORS);
        return -1;
    }
    for (int i = 0; i < f->count; i++) {
        f->at[i] = py_input(call, "a factor", PyTuple_GetItem(list, i));
        if (!f->at[i])
            return -1;
    }
    return 0;
}

static PyObject *product(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    struct py_shape shape = {0};
    int64_t rows = 1, cols = 1;
    struct py_factors f = {0};
    struct py_call call;
    PyObject *v[COUNT], *answer;
    gram_tensor *out = NULL;
    gram_status status;
    bool big = false;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    if (py_factors(&call, v[FACTORS], &f) == 0 && py_place(&call) == 0) {
        shape.dtype = f.at[0]->dtype;
        for (int i = 0; i < f.count; i++) {
            const gram_tensor *t = f.at[i];
            py_batch(&shape, t, 2);
            big |= t->ndim >= 2 && (__builtin_mul_overflow(rows, t->shape[t->ndim - 2], &rows) ||
                                    __builtin_mul_overflow(cols, t->shape[t->ndim - 1], &cols));
        }
        py_append(&shape, rows);
        py_append(&shape, cols);
        if (big)
            PyErr_Format(PyExc_ValueError, "%s: the size of the product overflows", signature.name);
        else
            out = py_output(&call, "out", v[OUT], &shape);
    }
    if (!out) {
        Py_XDECREF(f.list);
        return py_fail(&call);
    }
    if (query)
        status =
            gram_kron_workspace(call.g, (const gram_tensor *const *)f.at, f.count, out, &call.need);
    else
        PY_WORK(status, gram_kron(call.g, (const gram_tensor *const *)f.at, f.count, out));
    answer = py_end(&call, status);
    Py_DECREF(f.list);
    return answer;
}

const char py_kron_doc[] =
    "kron(factors, *, out=None)\n--\n\n"
    "The Kronecker product of 1 to 16 matrices, written out.\n\n"
    "factors is a sequence of matrices (..., p_i, q_i), whose batches broadcast; the result is\n"
    "(..., p_1 p_2 ..., q_1 q_2 ...).  float32, float64, float16, bfloat16, int32 or int64, all\n"
    "alike.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, TypeError for what is no array.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.kron([np.array([[1.0, 2.0]]), np.eye(2)]).tolist()\n"
    "[[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0]]\n";

PyObject *py_kron(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return product(module, args, nargs, kwnames, false);
}

PyObject *py_kron_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    return product(module, args, nargs, kwnames, true);
}
