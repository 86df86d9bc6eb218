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

/* Views all inputs and makes the output; py_factors.list is to be released in any case. */
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
    /* The library refuses an x that would have to be too large. */
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
    "alpha x K + beta z with the Kronecker product K of the factors, which is never formed; with\n"
    "side=\"left\" alpha K x + beta z.\n\n"
    "factors is a sequence of 1 to 16 matrices (..., p_i, q_i), P and Q the products of these\n"
    "sizes; x is (..., m, P) and the result (..., m, Q), on the left (..., Q, m) and (..., P, m).\n"
    "Pass x.T or a factor's .T for a transposed one: any strides.  Batches broadcast.  float32,\n"
    "float64, float16, bfloat16, int32 or int64, all alike.  out may be x or z itself.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, TypeError for what is no array.\n"
    "After Fernandes, Plateau and Stewart, J. ACM 45 (1998).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.kron_matmul(np.ones((1, 4)), [np.array([[1.0], [2.0]]), np.eye(2)]).tolist()\n"
    "[[3.0, 3.0]]\n";

PY_WITH_WORKSPACE(py_kron_matmul, multiply)

const char py_tune_kron_doc[] =
    "tune_kron" PY_TEXT_tune_kron
    "Measures how gram.kron_matmul(x, factors, **options) is computed fastest where x is, and has\n"
    "all later calls for such problems do it so, in other processes too: the same device, dtype,\n"
    "factors' sizes and directions in memory, numbers of rows and of items to the next power of\n"
    "two.  On a GPU that is which factors a launch applies together, and to what tiles: results\n"
    "then differ by rounding.  On the CPU it is the size of tiles, for the number of threads that\n"
    "calls have now; results keep their bits, and the gain is seldom more than a few percent.\n\n"
    "Returns a dict: candidates, launches (groups of factors), table_launches (of the library's\n"
    "own choice), ms and table_ms (milliseconds of a call), kept.  Arguments, shapes and dtypes\n"
    "as gram.kron_matmul has them; out is overwritten, and may not be x.\n\n"
    "Raises what gram.kron_matmul raises, and ValueError where there is nothing to measure.\n\n"
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
