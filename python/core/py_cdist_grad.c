/*
 * py_cdist_grad.c - gram.cdist_grad and gram.agop
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    A,
    B,
    C,
    D,
    P,
    OUT,
    GRAD_COUNT,
    DIAGONAL = OUT,
    ACCUMULATE,
    POINTS,
    AGOP_OUT,
    AGOP_COUNT
};

static const unsigned char grad_words[] = {PY_a, PY_b, PY_c, PY_d, PY_p, PY_out};
static const struct py_signature grad_signature = {"gram.cdist_grad", grad_words, GRAD_COUNT, 5, 4};
static const unsigned char agop_words[] = {PY_a,        PY_b,          PY_c,      PY_d,  PY_p,
                                           PY_diagonal, PY_accumulate, PY_points, PY_out};
static const struct py_signature agop_signature = {"gram.agop", agop_words, AGOP_COUNT, 5, 4};

struct inputs {
    gram_tensor *a, *b, *c, *d;
    gram_scalar p;
};

static int64_t size_at(const gram_tensor *t, int from_end)
{
    return t->ndim >= from_end ? t->shape[t->ndim - from_end] : 0;
}

/* Views a, b, c, d and p and joins their batches. */
static int read_inputs(struct py_call *call, PyObject *const *v, struct inputs *in,
                       struct py_shape *shape)
{
    in->p = gram_number(2);
    in->a = py_input(call, "a", v[A]);
    in->b = in->a ? py_input(call, "b", v[B]) : NULL;
    in->c = in->b ? py_input(call, "c", v[C]) : NULL;
    in->d = in->c ? py_input(call, "d", v[D]) : NULL;
    if (!in->d || py_scalar(call, "p", v[P], &in->p) || py_place(call))
        return -1;
    shape->dtype = in->a->dtype;
    py_batch(shape, in->a, 2);
    py_batch(shape, in->b, 2);
    py_batch(shape, in->c, 2);
    py_batch(shape, in->d, 2);
    if (in->p.tensor)
        py_batch(shape, in->p.tensor, 0);
    return 0;
}

static PyObject *gradients(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, bool query)
{
    struct py_shape shape = {0};
    struct inputs in;
    struct py_call call;
    PyObject *v[GRAD_COUNT];
    gram_tensor *out;
    gram_status status;

    if (py_begin(&call, module, &grad_signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (read_inputs(&call, v, &in, &shape))
        return py_fail(&call);
    py_append(&shape, size_at(in.c, 2));
    py_append(&shape, size_at(in.d, 2));
    py_append(&shape, size_at(in.d, 1));
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status = gram_cdist_grad_workspace(call.g, in.a, in.b, in.c, in.d, in.p, out, &call.need);
    else
        PY_WORK(status, gram_cdist_grad(call.g, in.a, in.b, in.c, in.d, in.p, out));
    return py_end(&call, status);
}

static PyObject *products(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    gram_agop_options options = GRAM_AGOP_OPTIONS_INIT;
    struct py_shape shape = {0};
    struct inputs in;
    struct py_call call;
    PyObject *v[AGOP_COUNT];
    gram_tensor *out;
    gram_status status;
    bool diagonal = false, accumulate = false;

    if (py_parse(state, &agop_signature, args, nargs, kwnames, v) ||
        py_bool("gram.agop", "diagonal", v[DIAGONAL], &diagonal) ||
        py_bool("gram.agop", "accumulate", v[ACCUMULATE], &accumulate) ||
        py_int64("gram.agop", "points", v[POINTS], &options.points))
        return NULL;
    if (accumulate && !py_given(v[AGOP_OUT])) {
        PyErr_SetString(PyExc_ValueError, "gram.agop: accumulate needs out, which is added to");
        return NULL;
    }
    if (py_open(&call, state, agop_signature.name))
        return NULL;
    call.query = query;
    options.diagonal = diagonal;
    options.accumulate = accumulate;
    if (read_inputs(&call, v, &in, &shape))
        return py_fail(&call);
    py_append(&shape, size_at(in.d, 2));
    if (!diagonal)
        py_append(&shape, size_at(in.d, 2));
    out = py_output(&call, "out", v[AGOP_OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status =
            gram_agop_workspace(call.g, in.a, in.b, in.c, in.d, in.p, &options, out, &call.need);
    else
        PY_WORK(status, gram_agop(call.g, in.a, in.b, in.c, in.d, in.p, &options, out));
    return py_end(&call, status);
}

const char py_cdist_grad_doc[] =
    "cdist_grad" PY_TEXT_cdist_grad
    "Gradients of kernel expansions:\n"
    "out[..., o, n, m] = sum_k c[o, k] a[k, m] sgn(e) |e|^(p - 1),  e = d[n, m] - b[n, k].\n\n"
    "a (..., K, M) holds the weights of the kernel (gram.kernel with output=\"weight\"), b\n"
    "(..., N, K) the features of the centres, c (..., O, K) the coefficients, d (..., N, M)\n"
    "the features of the points, and out is (..., O, N, M).  All are float32 or all are\n"
    "float64, with any strides, so that x.T can serve as b.  p > 0.  Features with d = b\n"
    "contribute 0 for every p.\n\n"
    "Raises ValueError for shapes, dtypes or p that do not fit, and TypeError for arguments\n"
    "that are not arrays.  After Radhakrishnan et al., Science 383 (2024).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> a, c = np.ones((1, 1)), np.ones((1, 1))\n"
    ">>> gram.cdist_grad(a, np.array([[2.0]]), c, np.array([[5.0]])).item()\n"
    "3.0\n";

const char py_agop_doc[] =
    "agop" PY_TEXT_agop
    "The average gradient outer product, with g = cdist_grad(a, b, c, d, p), which is never\n"
    "stored as a whole:\n"
    "out[..., n, l] = (1 / M) sum_{o, m} g[o, n, m] g[o, l, m].\n\n"
    "out is (..., N, N), or (..., N) with diagonal=True.  accumulate=True adds to out.\n"
    "points is a number by which the sum is divided instead of M, for an average over points\n"
    "that come in parts.  Otherwise the same as gram.cdist_grad.\n\n"
    "Raises ValueError for shapes, dtypes or p that do not fit, and TypeError for arguments\n"
    "that are not arrays.  After Radhakrishnan et al., Science 383 (2024).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> a, c = np.ones((1, 1)), np.ones((1, 1))\n"
    ">>> gram.agop(a, np.array([[2.0]]), c, np.array([[5.0]])).item()\n"
    "9.0\n";

PY_WITH_WORKSPACE(py_cdist_grad, gradients)

PY_WITH_WORKSPACE(py_agop, products)
