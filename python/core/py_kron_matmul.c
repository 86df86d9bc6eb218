/*
 * py_kron_matmul.c - gram.kron_matmul and gram.tune_kron: products with a Kronecker product that is
 * never formed
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    FACTORS,
    SIDE,
    ALPHA,
    BETA,
    Z,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_x, PY_factors, PY_side, PY_alpha, PY_beta, PY_z, PY_out};
static const struct py_signature signature = {"gram.kron_matmul", words, COUNT, 2, 2},
                                 tune = {"gram.tune_kron", words, COUNT, 2, 2};

struct product {
    gram_tensor *x, *out;
    struct py_factors factors;
    gram_kron_options options;
};

/* Views all inputs and creates the output.  The caller releases py_factors.list in any case. */
static int prepare(struct py_call *call, PyObject *const *v, struct product *m)
{
    struct py_shape shape = {0};
    int64_t rows, cols;
    bool left;

    if (py_side(call->function, v[SIDE], &m->options.side) ||
        !(m->x = py_raw_input(call, "x", v[X])) || py_factors(call, v[FACTORS], &m->factors) ||
        py_scalar(call, "alpha", v[ALPHA], &m->options.alpha) ||
        py_scalar(call, "beta", v[BETA], &m->options.beta) ||
        (py_given(v[Z]) && !(m->options.z = py_raw_input(call, "z", v[Z]))) || py_place(call))
        return -1;
    left = m->options.side == GRAM_LEFT;
    /* If the required x would be too large, the library refuses the given one. */
    py_factors_shape(&m->factors, &shape, &rows, &cols);
    shape.dtype = m->x->dtype;
    py_batch(&shape, m->x, 2);
    if (m->options.z)
        py_batch(&shape, m->options.z, 2);
    if (m->options.alpha.tensor)
        py_batch(&shape, m->options.alpha.tensor, 0);
    if (m->options.beta.tensor)
        py_batch(&shape, m->options.beta.tensor, 0);
    if (left)
        py_append(&shape, rows);
    py_append(&shape, m->x->ndim >= 2 ? m->x->shape[m->x->ndim - (left ? 1 : 2)] : 0);
    if (!left)
        py_append(&shape, cols);
    m->out = py_output(call, "out", v[OUT], &shape);
    return m->out ? 0 : -1;
}

static PyObject *multiply(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    struct product m = {.options = GRAM_KRON_OPTIONS_INIT};
    const gram_tensor *const *at = (const gram_tensor *const *)m.factors.at;
    gram_status status = GRAM_OK;
    struct py_call call;
    PyObject *v[COUNT];
    bool ready;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    ready = prepare(&call, v, &m) == 0;
    if (ready && query)
        status = gram_kron_matmul_workspace(call.g, m.x, at, m.factors.count, &m.options, m.out,
                                            &call.need);
    else if (ready)
        PY_WORK(status, gram_kron_matmul(call.g, m.x, at, m.factors.count, &m.options, m.out));
    return py_factors_end(&call, &m.factors, ready, status);
}

const char py_kron_matmul_doc[] =
    "kron_matmul" PY_TEXT_kron_matmul
    "alpha x K + beta z with the Kronecker product K of the factors, which is never formed;\n"
    "with side=\"left\", alpha K x + beta z.\n\n"
    "factors is a sequence of 1 to 16 matrices (..., p_i, q_i).  With P and Q the products of\n"
    "these sizes, x is (..., m, P) and the result is (..., m, Q); on the left, x is (..., Q,\n"
    "m) and the result is (..., P, m).  All have any strides, so pass x.T or f.T for a\n"
    "transposed matrix.  Batches broadcast.  All have the same dtype: float32, float64,\n"
    "float16, bfloat16, int32 or int64.  out may be x or z itself.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.  After Fernandes, Plateau and Stewart, J. ACM 45 (1998).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.kron_matmul(np.ones((1, 4)), [np.array([[1.0], [2.0]]), np.eye(2)]).tolist()\n"
    "[[3.0, 3.0]]\n";

PY_WITH_WORKSPACE(py_kron_matmul, multiply)

const char py_tune_kron_doc[] =
    "tune_kron" PY_TEXT_tune_kron
    "Measures the ways in which gram.kron_matmul(x, factors, **options) can be computed on\n"
    "the device of x.  All later calls for similar problems use the fastest, also in other\n"
    "processes: those with the same device, dtype, sizes of factors and directions in memory,\n"
    "and with numbers of rows and of items that are the same when they are rounded up to a\n"
    "power of two.\n\n"
    "On a GPU, the choice is which factors a launch applies together, and the size of tiles;\n"
    "results may then differ by rounding.  On the CPU, it is the size of tiles for the\n"
    "present number of threads; results keep their bits, and the gain is seldom more than a\n"
    "few percent.\n\n"
    "Returns a dict: candidates, launches (groups of factors), table_launches (of the\n"
    "library's own choice), ms and table_ms (milliseconds per call), kept.  Arguments, shapes\n"
    "and dtypes are the same as gram.kron_matmul has.  The call overwrites out, which must\n"
    "not be x.\n\n"
    "Raises the errors of gram.kron_matmul, and ValueError if there is nothing to measure.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.tune_kron(np.ones((0, 4)), [np.eye(2), np.eye(2)])\n"
    "Traceback (most recent call last):\n"
    "ValueError: gram.tune_kron: x or y has no elements: nothing can be measured\n";

PyObject *py_tune_kron(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct product m = {.options = GRAM_KRON_OPTIONS_INIT};
    const gram_tensor *const *at = (const gram_tensor *const *)m.factors.at;
    gram_kron_tuning found = {.size = sizeof found};
    gram_status status = GRAM_OK;
    struct py_call call;
    PyObject *v[COUNT];
    bool ready;

    if (py_begin(&call, module, &tune, args, nargs, kwnames, v))
        return NULL;
    ready = prepare(&call, v, &m) == 0;
    if (ready)
        PY_WORK(status,
                gram_tune_kron(call.g, m.x, at, m.factors.count, &m.options, m.out, &found));
    if (!ready || status != GRAM_OK)
        return py_factors_end(&call, &m.factors, ready, status);
    py_close(&call);
    Py_XDECREF(m.factors.list);
    return Py_BuildValue("{s:i,s:i,s:i,s:d,s:d,s:O}", "candidates", found.candidates, "launches",
                         found.launches, "table_launches", found.table_launches, "ms", found.ms,
                         "table_ms", found.table_ms, "kept", found.kept ? Py_True : Py_False);
}
