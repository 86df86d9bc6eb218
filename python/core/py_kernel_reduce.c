/*
 * py_kernel_reduce.c - gram.kernel_reduce: reductions of the rows of a kernel matrix
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    WHAT = PY_K_COUNT,
    V,
    SCALE,
    LOG_WEIGHTS,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_KERNEL_WORDS, PY_what,        PY_v,
                                      PY_scale,        PY_log_weights, PY_out};
static const struct py_signature signature = {"gram.kernel_reduce", words, COUNT, 3, 1};

static const char *const names[] = {"min", "max", "argmin", "argmax", "logsumexp", "softmax", NULL};
static const gram_reduction reductions[] = {GRAM_REDUCE_MIN,       GRAM_REDUCE_MAX,
                                            GRAM_REDUCE_MIN,       GRAM_REDUCE_MAX,
                                            GRAM_REDUCE_LOGSUMEXP, GRAM_REDUCE_SOFTMAX};

struct request {
    gram_kernel_reduce_options options;
    gram_reduction what;
    bool index;                 /* what is wanted is the place of an extreme */
    gram_tensor *v;             /* of GRAM_REDUCE_SOFTMAX */
    bool is_vector;             /* v is one */
    gram_tensor *log_weights;   /* or NULL */
    gram_tensor *out, *indices; /* one of them */
};

static int read_options(PyObject *const *v, struct request *r)
{
    int which = -1;

    *r = (struct request){.options = GRAM_KERNEL_REDUCE_OPTIONS_INIT};
    if (!py_given(v[WHAT])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument 'what'", signature.name);
        return -1;
    }
    if (py_choice(signature.name, "what", v[WHAT], names, &which) ||
        py_double(signature.name, "scale", v[SCALE], &r->options.scale))
        return -1;
    r->what = reductions[which];
    r->index = which == 2 || which == 3;
    if (py_given(v[V]) == (r->what == GRAM_REDUCE_SOFTMAX))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: what='%s' takes %s", signature.name, names[which],
                 py_given(v[V]) ? "no v" : "the argument 'v'");
    return -1;
}

/* The values, or the indices, in an array of the shape that the batch has so far. */
static int make_output(struct py_call *call, PyObject *out, struct py_shape *shape,
                       const gram_tensor *x, struct request *r)
{
    gram_tensor *made;

    shape->dtype = r->index ? GRAM_I64 : py_pair_dtype(x);
    py_append(shape, x->ndim >= 2 ? x->shape[x->ndim - 2] : 0);
    if (r->v && !r->is_vector)
        py_append(shape, r->v->ndim >= 2 ? r->v->shape[r->v->ndim - 1] : 0);
    made = py_output(call, "out", out, shape);
    if (!made)
        return -1;
    if (r->is_vector)
        py_as_column(made);
    *(r->index ? &r->indices : &r->out) = made;
    return 0;
}

static PyObject *reduce(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    struct py_shape shape = {0};
    struct request r;
    struct py_pair pair;
    struct py_kernel k;
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_options(v, &r) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    if (py_pair(&call, v, &pair, &shape) ||
        (py_given(v[V]) && !(r.v = py_input(&call, "v", v[V]))) ||
        (py_given(v[LOG_WEIGHTS]) &&
         !(r.log_weights = py_input(&call, "log_weights", v[LOG_WEIGHTS]))) ||
        py_kernel_options(&call, v, &k) || py_place(&call))
        return py_fail(&call);
    if (r.v) {
        r.is_vector = r.v->ndim == 1;
        if (r.is_vector)
            py_as_column(r.v);
        py_batch(&shape, r.v, 2);
    }
    if (r.log_weights)
        py_batch(&shape, r.log_weights, 1);
    r.options.log_weights = r.log_weights;
    py_kernel_batch(&shape, &k);
    if (make_output(&call, v[OUT], &shape, pair.x, &r))
        return py_fail(&call);
    if (query)
        status = gram_kernel_reduce_workspace(call.g, pair.x, pair.y, &k.options, r.what, r.v,
                                              &r.options, r.out, r.indices, &call.need);
    else
        PY_WORK(status, gram_kernel_reduce(call.g, pair.x, pair.y, &k.options, r.what, r.v,
                                           &r.options, r.out, r.indices));
    return py_end(&call, status);
}

const char py_kernel_reduce_doc[] =
    "kernel_reduce" PY_TEXT_kernel_reduce
    "What is made of the rows of kernel(x, y, kernel, **options), which is never stored.\n\n"
    "what is \"min\" or \"max\" for the extreme values (..., m), \"argmin\" or \"argmax\" for the\n"
    "first column that has them, as int64, or one of the soft ones: \"logsumexp\" is the\n"
    "logarithm of the sum of exp(scale k), and \"softmax\" is the average of the rows of v with\n"
    "the weights softmax(scale k).  v is (..., n, r), or (n,) for one vector, and its averages\n"
    "are (..., m, r).  A negative scale turns a soft maximum into a soft minimum.\n"
    "log_weights (..., n), in the dtype of the result, is added to the exponents of every row of\n"
    "the soft ones: scale k + log_weights stands in the place of scale k.  -inf leaves a column\n"
    "out.\n\n"
    "A row that holds a nan has the result nan, and the index of its first nan.  Without columns,\n"
    "the minimum is inf, the maximum and the logarithm are -inf, an index is -1, and an average\n"
    "is nan.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and TypeError for\n"
    "arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0], [1.0], [5.0]])\n"
    ">>> gram.kernel_reduce(x, x[1:], \"linear\", what=\"argmax\").tolist()\n"
    "[0, 1, 1]\n";

PY_WITH_WORKSPACE(py_kernel_reduce, reduce)
