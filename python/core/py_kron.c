/*
 * py_kron.c - gram.kron, kron_diagonal, kron_trace and kron_logdet, and the code that all functions
 * of a list of factors share
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    FACTORS,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_factors, PY_out};
static const struct py_signature kron = {"gram.kron", words, COUNT, 1, 1};
static const struct py_signature diagonal = {"gram.kron_diagonal", words, COUNT, 1, 1};
static const struct py_signature trace = {"gram.kron_trace", words, COUNT, 1, 1};
static const struct py_signature logdet = {"gram.kron_logdet", words, COUNT, 1, 1};

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
        f->at[i] = py_raw_input(call, "a factor", PyTuple_GetItem(list, i));
        if (!f->at[i])
            return -1;
    }
    return 0;
}

void py_factors_shape(const struct py_factors *f, struct py_shape *shape, int64_t *rows,
                      int64_t *cols)
{
    int64_t all[2] = {1, 1};

    shape->dtype = f->at[0]->dtype;
    for (int i = 0; i < f->count; i++) {
        const gram_tensor *t = f->at[i];
        py_batch(shape, t, 2);
        for (int side = 0; side < 2 && t->ndim >= 2; side++)
            if (__builtin_mul_overflow(all[side], t->shape[t->ndim - 2 + side], &all[side]))
                all[side] = INT64_MAX;
    }
    if (rows)
        *rows = all[0];
    if (cols)
        *cols = all[1];
}

int py_side(const char *function, PyObject *value, gram_side *side)
{
    static const char *const sides[] = {"right", "left", NULL};
    int found = *side;

    if (py_choice(function, "side", value, sides, &found))
        return -1;
    *side = (gram_side)found;
    return 0;
}

PyObject *py_factors_end(struct py_call *call, struct py_factors *f, bool done, gram_status status)
{
    PyObject *answer = done ? py_end(call, status) : py_fail(call);

    Py_XDECREF(f->list);
    return answer;
}

/* Views the factors of a call, and begins the shape of its results; 0 on success. */
static int read_factors(struct py_call *call, PyObject *const *v, struct py_factors *f,
                        struct py_shape *shape, int64_t *rows, int64_t *cols)
{
    if (py_factors(call, v[FACTORS], f) || py_place(call))
        return -1;
    py_factors_shape(f, shape, rows, cols);
    return 0;
}

static PyObject *product(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames, const struct py_signature *signature, bool query)
{
    struct py_state *state = py_state_of(module);
    bool whole = signature == &kron;
    struct py_shape shape = {0};
    struct py_factors f = {0};
    const gram_tensor *const *at = (const gram_tensor *const *)f.at;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *out = NULL;
    gram_status status = GRAM_OK;
    int64_t rows, cols;

    if (py_parse(state, signature, args, nargs, kwnames, v) ||
        py_open(&call, state, signature->name))
        return NULL;
    call.query = query;
    if (!read_factors(&call, v, &f, &shape, &rows, &cols)) {
        py_append(&shape, rows);
        if (whole)
            py_append(&shape, cols);
        if (rows == INT64_MAX || cols == INT64_MAX)
            PyErr_Format(PyExc_ValueError, "%s: the size of the product overflows",
                         signature->name);
        else
            out = py_output(&call, "out", v[OUT], &shape);
    }
    if (out && query)
        status = (whole ? gram_kron_workspace : gram_kron_diagonal_workspace)(call.g, at, f.count,
                                                                              out, &call.need);
    else if (out)
        PY_WORK(status, (whole ? gram_kron : gram_kron_diagonal)(call.g, at, f.count, out));
    return py_factors_end(&call, &f, out, status);
}

const char py_kron_doc[] =
    "kron" PY_TEXT_kron
    "The Kronecker product of 1 to 16 matrices, written out.\n\n"
    "factors is a sequence of matrices (..., p_i, q_i), whose batches broadcast.  The result\n"
    "is (..., p_1 p_2 ..., q_1 q_2 ...).  All have the same dtype: float32, float64, float16,\n"
    "bfloat16, int32 or int64.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.kron([np.array([[1.0, 2.0]]), np.eye(2)]).tolist()\n"
    "[[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0]]\n";

PyObject *py_kron(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return product(module, args, nargs, kwnames, &kron, false);
}

PyObject *py_kron_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    return product(module, args, nargs, kwnames, &kron, true);
}

const char py_kron_diagonal_doc[] =
    "kron_diagonal" PY_TEXT_kron_diagonal
    "The diagonal of the Kronecker product of square matrices.\n\n"
    "factors is a sequence of 1 to 16 matrices (..., n_i, n_i), whose batches broadcast.  The\n"
    "result is (..., n_1 n_2 ...).  dtypes and errors are those of gram.kron.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.kron_diagonal([np.diag([1.0, 2.0]), np.diag([3.0, 5.0])]).tolist()\n"
    "[3.0, 5.0, 6.0, 10.0]\n";

PyObject *py_kron_diagonal(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    return product(module, args, nargs, kwnames, &diagonal, false);
}

PyObject *py_kron_diagonal_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                     PyObject *kwnames)
{
    return product(module, args, nargs, kwnames, &diagonal, true);
}

const char py_kron_trace_doc[] =
    "kron_trace(factors, *, out=None)\n--\n\n"
    "The trace of the Kronecker product of square matrices, with one number per item of the\n"
    "batch.\n\n"
    "The dtype is float32, float64 (both summed in float64), int32 or int64 (which wrap\n"
    "around).  Otherwise the same as gram.kron_diagonal.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.kron_trace([np.diag([1.0, 2.0]), np.diag([3.0, 5.0])]).item()\n"
    "24.0\n";

PyObject *py_kron_trace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames)
{
    struct py_shape shape = {0};
    struct py_factors f = {0};
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *out = NULL;
    gram_status status = GRAM_OK;

    if (py_begin(&call, module, &trace, args, nargs, kwnames, v))
        return NULL;
    if (!read_factors(&call, v, &f, &shape, NULL, NULL))
        out = py_output(&call, "out", v[OUT], &shape);
    if (out)
        PY_WORK(status, gram_kron_trace(call.g, (const gram_tensor *const *)f.at, f.count, out));
    return py_factors_end(&call, &f, out, status);
}

const char py_kron_logdet_doc[] =
    "kron_logdet" PY_TEXT_kron_logdet
    "The sign, and the logarithm of the absolute value, of the determinant of the Kronecker\n"
    "product of square matrices, with one number per item of the batch, like\n"
    "numpy.linalg.slogdet.\n\n"
    "sign is 1, -1, or 0 where the product is singular and the logarithm is -inf.  The method\n"
    "is an LU factorisation of each factor in float64.  All factors are float32, or all are\n"
    "float64.  out is the tuple of both results.  Otherwise the same as gram.kron_diagonal.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> sign, log = gram.kron_logdet([np.diag([1.0, -2.0]), np.eye(3)])\n"
    ">>> sign.item(), log.round(3).item()\n"
    "(-1.0, 2.079)\n";

static PyObject *determinant(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames, bool query)
{
    struct py_shape shape = {0};
    struct py_factors f = {0};
    const gram_tensor *const *at = (const gram_tensor *const *)f.at;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *sign = NULL, *out = NULL;
    gram_status status = GRAM_OK;

    if (py_begin(&call, module, &logdet, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    call.as_tuple = true;
    if (py_given(v[OUT]) && (!PyTuple_Check(v[OUT]) || PyTuple_Size(v[OUT]) != 2))
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of sign and logarithm",
                     logdet.name, v[OUT]);
    else if (!read_factors(&call, v, &f, &shape, NULL, NULL)) {
        bool given = py_given(v[OUT]);
        sign = py_output(&call, "sign", given ? PyTuple_GetItem(v[OUT], 0) : NULL, &shape);
        out = sign ? py_output(&call, "out", given ? PyTuple_GetItem(v[OUT], 1) : NULL, &shape)
                   : NULL;
    }
    if (out && query)
        status = gram_kron_logdet_workspace(call.g, at, f.count, sign, out, &call.need);
    else if (out)
        PY_WORK(status, gram_kron_logdet(call.g, at, f.count, sign, out));
    return py_factors_end(&call, &f, out, status);
}

PY_WITH_WORKSPACE(py_kron_logdet, determinant)
