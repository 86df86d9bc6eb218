/*
 * py_krr_path.c - gram.krr_path: leave-one-out residuals of kernel ridge regression
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    K,
    Y,
    RIDGES,
    WEIGHTS,
    INTERCEPT,
    METHOD,
    LOWER,
    ERROR,
    SPREAD,
    ALPHA,
    OFFSET,
    INFO,
    OUT,
    COUNT,
    MOST_RIDGES = 256
};

static const unsigned char words[] = {PY_k,      PY_y,     PY_ridges, PY_weights, PY_intercept,
                                      PY_method, PY_lower, PY_error,  PY_spread,  PY_alpha,
                                      PY_offset, PY_info,  PY_out};
static const struct py_signature signature = {"gram.krr_path", words, COUNT, 3, 3};

struct request {
    gram_krr_path_options options;
    double ridges[MOST_RIDGES];
    int64_t count;
    gram_tensor *k, *y, *weights, *loo, *info;
    bool is_vector; /* y is one column without a dimension for it */
};

static int read_ridges(PyObject *value, struct request *r)
{
    PyObject *list = PySequence_Check(value) ? PySequence_Tuple(value) : NULL;
    Py_ssize_t count = list ? PyTuple_Size(list) : -1;
    int failed = 0;

    if (count < 0 || count > MOST_RIDGES) {
        Py_XDECREF(list);
        PyErr_Format(PyExc_TypeError, "%s: ridges is %R, expected a sequence of at most %d numbers",
                     signature.name, value, (int)MOST_RIDGES);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = py_double(signature.name, "ridges", PyTuple_GetItem(list, i), &r->ridges[i]);
    Py_DECREF(list);
    r->count = count;
    return failed;
}

static int read_options(PyObject *const *v, struct request *r)
{
    static const char *const methods[] = {"auto", "eigh", "cholesky", NULL};
    static const char *const intercepts[] = {"none", "mean", "fitted", NULL};
    int method = GRAM_KRR_PATH_AUTO, intercept = GRAM_KRR_INTERCEPT_NONE;
    bool lower = true;

    r->options = (gram_krr_path_options)GRAM_KRR_PATH_OPTIONS_INIT;
    if (py_choice(signature.name, "method", v[METHOD], methods, &method) ||
        py_choice(signature.name, "intercept", v[INTERCEPT], intercepts, &intercept) ||
        py_bool(signature.name, "lower", v[LOWER], &lower))
        return -1;
    r->options.method = (gram_krr_path_method)method;
    r->options.intercept = (gram_krr_intercept)intercept;
    r->options.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    return read_ridges(v[RIDGES], r);
}

static int read_arrays(struct py_call *call, PyObject *const *v, struct request *r)
{
    gram_krr_path_options *o = &r->options;

    r->k = py_input(call, "k", v[K]);
    r->y = r->k ? py_input(call, "y", v[Y]) : NULL;
    if (!r->y || (py_given(v[WEIGHTS]) && !(r->weights = py_input(call, "weights", v[WEIGHTS]))) ||
        py_side_output(call, "error", v[ERROR], &o->error) ||
        py_side_output(call, "spread", v[SPREAD], &o->spread) ||
        py_side_output(call, "alpha", v[ALPHA], &o->alpha) ||
        py_side_output(call, "offset", v[OFFSET], &o->offset) ||
        py_side_output(call, "info", v[INFO], &r->info) || py_place(call))
        return -1;
    o->weights = r->weights;
    r->is_vector = r->y->ndim == 1;
    if (!r->is_vector)
        return 0;
    py_as_column(r->y);
    gram_tensor *const further[] = {o->error, o->spread, o->alpha, o->offset};
    for (size_t i = 0; i < sizeof further / sizeof *further; i++)
        if (further[i])
            py_as_column(further[i]);
    return 0;
}

/* The residuals: (..., ridges, n), and c for a y of columns. */
static int make_output(struct py_call *call, PyObject *out, struct request *r)
{
    struct py_shape shape = {.dtype = r->k->dtype};

    py_batch(&shape, r->k, 2);
    py_batch(&shape, r->y, 2);
    if (r->weights)
        py_batch(&shape, r->weights, 1);
    py_append(&shape, r->count);
    py_append(&shape, r->y->ndim >= 2 ? r->y->shape[r->y->ndim - 2] : 0);
    if (!r->is_vector)
        py_append(&shape, r->y->ndim >= 2 ? r->y->shape[r->y->ndim - 1] : 0);
    r->loo = py_output(call, "out", out, &shape);
    if (!r->loo)
        return -1;
    if (r->is_vector)
        py_as_column(r->loo);
    return 0;
}

static PyObject *path(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                      bool query)
{
    struct py_state *state = py_state_of(module);
    struct request r = {.count = 0};
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_options(v, &r) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    if (read_arrays(&call, v, &r) || make_output(&call, v[OUT], &r))
        return py_fail(&call);
    if (query)
        status = gram_krr_path_workspace(call.g, r.k, r.y, r.ridges, r.count, &r.options, r.loo,
                                         &call.need);
    else
        PY_WORK(status,
                gram_krr_path(call.g, r.k, r.y, r.ridges, r.count, &r.options, r.loo, r.info));
    return py_end(&call, status);
}

const char py_krr_path_doc[] =
    "krr_path" PY_TEXT_krr_path
    "Exact leave-one-out residuals of kernel ridge regression, for every ridge of a list.\n\n"
    "k is the kernel matrix (..., n, n), of which one triangle is read, and y is (..., n, c), or\n"
    "(n,) for one target; both are float32 or float64, and the work is done in float64.  ridges\n"
    "has at most 256 numbers of at least 0.  The result is (..., ridges, n, c), or (ridges, n):\n"
    "each target less what the fit with this ridge to all other rows predicts for its row.\n"
    "No fit is repeated: one eigendecomposition serves all ridges (method=\"eigh\"), or one\n"
    "factorisation each ridge (\"cholesky\"), whichever is faster (\"auto\").\n\n"
    "weights (..., n), above 0, are those of the rows: row i counts as weights[i] equal rows, and\n"
    "its ridge is divided by them.  intercept is \"none\", \"mean\" (of y, without weights) or\n"
    "\"fitted\", and is learned again without the row.\n\n"
    "error (..., ridges, c) receives the weighted mean of the squared residuals, and spread the\n"
    "standard error of that mean; alpha (..., ridges, n, c) and offset (..., ridges, c) receive\n"
    "the coefficients and the intercept of the fit to all rows; all without c where y is (n,).\n"
    "info, int32 with the shape of the batch, receives the number of ridges for which the matrix\n"
    "is not positive definite; their results are nan.\n\n"
    "Raises gram.LinAlgError for such a ridge if info is not given; ValueError for shapes, dtypes\n"
    "and values that do not fit, among them nan in k, y or weights; and TypeError for arguments\n"
    "that are not arrays.  After Allen 1974; Cawley and Talbot, Neural Networks 17, 2004.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.linspace(0, 6, 40)[:, None]\n"
    ">>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(0, 0.3, 40)\n"
    ">>> ridges = [1e-4, 1e-2, 1, 100]\n"
    ">>> loo = gram.krr_path(gram.kernel(x, kernel=\"gaussian\"), y, ridges)\n"
    ">>> ridges[np.argmin((loo**2).mean(axis=1))]\n"
    "0.01\n";

PY_WITH_WORKSPACE(py_krr_path, path)
