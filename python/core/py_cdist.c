/*
 * py_cdist.c - gram.cdist, and the code that all functions of two sets of points share
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    Y,
    P,
    ROOT,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_x, PY_y, PY_p, PY_root, PY_out};
static const struct py_signature signature = {"gram.cdist", words, COUNT, COUNT, 1};

gram_dtype py_pair_dtype(const gram_tensor *x)
{
    return x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
}

void py_pair_shape(struct py_shape *shape, const gram_tensor *x, const gram_tensor *y)
{
    shape->dtype = py_pair_dtype(x);
    py_append(shape, x->ndim >= 2 ? x->shape[x->ndim - 2] : 0);
    py_append(shape, y->ndim >= 2 ? y->shape[y->ndim - 2] : 0);
}

int py_pair(struct py_call *call, PyObject *const *v, struct py_pair *pair, struct py_shape *shape)
{
    pair->x = py_input(call, "x", v[0]);
    pair->y = pair->x && py_given(v[1]) ? py_input(call, "y", v[1]) : NULL;
    if (!pair->x || (py_given(v[1]) && !pair->y) || py_promote(call))
        return -1;
    shape->dtype = py_pair_dtype(pair->x);
    py_batch(shape, pair->x, 2);
    py_batch(shape, pair->y ? pair->y : pair->x, 2);
    return 0;
}

static PyObject *distances(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    gram_cdist_options options = GRAM_CDIST_OPTIONS_INIT;
    gram_scalar p = gram_number(2);
    struct py_shape shape = {0};
    struct py_pair pair;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *out;
    gram_status status;
    bool root = true;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_bool(signature.name, "root", v[ROOT], &root) || py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    options.no_root = !root;
    if (py_pair(&call, v, &pair, &shape) || py_scalar(&call, "p", v[P], &p) || py_place(&call))
        return py_fail(&call);
    if (p.tensor)
        py_batch(&shape, p.tensor, 0);
    py_pair_shape(&shape, pair.x, pair.y ? pair.y : pair.x);
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status = gram_cdist_workspace(call.g, pair.x, pair.y, p, &options, out, &call.need);
    else
        PY_WORK(status, gram_cdist(call.g, pair.x, pair.y, p, &options, out));
    return py_end(&call, status);
}

const char py_cdist_doc[] =
    "cdist" PY_TEXT_cdist
    "Pairwise distances: out[..., i, j] = (sum_k |x[..., i, k] - y[..., j, k]|^p)^(1/p).\n\n"
    "x is (..., m, k) and y is (..., n, k).  Without y, the distances between the rows of x\n"
    "are computed, in half the time.  p is positive, 0 (the number of coordinates that\n"
    "differ) or inf (the largest difference), and may be an array that broadcasts over the\n"
    "batch.  root=False returns the sum without the power 1/p.\n\n"
    "x and y are both float32 or both float64; or both are float16 or bfloat16, and the\n"
    "result is float32.  They have any strides, and batches broadcast as in NumPy.  out, if\n"
    "given, is (..., m, n), and is returned.  For p = 2 the result is as accurate as with\n"
    "differences, also for points that are close to each other.\n\n"
    "Raises ValueError for shapes, dtypes or p that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0, 0.0], [3.0, 4.0]])\n"
    ">>> gram.cdist(x)\n"
    "array([[0., 5.],\n"
    "       [5., 0.]])\n"
    ">>> gram.cdist(x, np.ones((1, 2)), p=1).tolist()\n"
    "[[2.0], [5.0]]\n";

PY_WITH_WORKSPACE(py_cdist, distances)
