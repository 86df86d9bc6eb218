/*
 * py_kernel_vjp.c - gram.kernel_vjp, gram.kernel_matmul_vjp and gram.kernel_reduce_vjp: gradients
 * of a kernel matrix, of products with it, and of soft reductions of its rows
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
    V = COUNT, /* of a product */
    ALL,
    WHAT = ALL, /* of a reduction */
    SCALE,
    LOG_WEIGHTS,
    REDUCED,
    /* Among the names of wrt. */
    LENGTHS = 4,
    TO_V = 5,
    TO_LOGS = 6,
    MOST_GRADS = 7
};

static const unsigned char words[] = {PY_KERNEL_WORDS, PY_grad,  PY_wrt,        PY_out, PY_v,
                                      PY_what,         PY_scale, PY_log_weights};
static const struct py_signature signature = {"gram.kernel_vjp", words, COUNT, 3, 1},
                                 product_signature = {"gram.kernel_matmul_vjp", words, ALL, 3, 1},
                                 reduce_signature = {"gram.kernel_reduce_vjp", words, REDUCED, 3,
                                                     1};

/* Which gradients are wanted, in which order. */
struct wanted {
    const char *call;
    int which[MOST_GRADS];
    int count, most; /* most: of names, the first of the list */
};

static int read_name(PyObject *name, struct wanted *w)
{
    const char *names[MOST_GRADS + 1] = {"x",       "y", "bandwidth",   "regularization",
                                         "lengths", "v", "log_weights", NULL};

    names[w->most] = NULL;
    if (w->count == w->most) {
        PyErr_Format(PyExc_ValueError, "%s: wrt has more than %d names", w->call, w->most);
        return -1;
    }
    w->which[w->count] = -1;
    if (py_choice(w->call, "wrt", name, names, &w->which[w->count]))
        return -1;
    for (int i = 0; i < w->count; i++)
        if (w->which[i] == w->which[w->count])
            w->which[w->count] = -1;
    if (w->which[w->count] < 0) {
        PyErr_Format(PyExc_ValueError, "%s: wrt has %R twice", w->call, name);
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
        PyErr_Format(PyExc_ValueError, "%s: wrt is empty, expected at least one name", w->call);
    return count > 0 && !failed ? 0 : -1;
}

static bool has(const struct wanted *w, int which)
{
    for (int i = 0; i < w->count; i++)
        if (w->which[i] == which)
            return true;
    return false;
}

/* 0 if there are lengths where their gradient is wanted. */
static int check_lengths(const struct wanted *w, const struct py_kernel *k)
{
    if (!has(w, LENGTHS) || k->options.lengths)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: wrt has 'lengths', but none are given", w->call);
    return -1;
}

/* The last dimensions of a gradient, behind the batch: points like t, rows of columns of v. */
static void add_shape(struct py_shape *shape, int which, const gram_tensor *points,
                      const gram_tensor *v, bool is_vector)
{
    if (which == TO_LOGS)
        py_append(shape, points->ndim >= 2 ? points->shape[points->ndim - 2] : 0);
    if (which == TO_V) {
        py_append(shape, v->ndim >= 2 ? v->shape[v->ndim - 2] : 0);
        if (!is_vector)
            py_append(shape, v->ndim >= 2 ? v->shape[v->ndim - 1] : 0);
        return;
    }
    if (which < 2)
        py_append(shape, points->ndim >= 2 ? points->shape[points->ndim - 2] : 0);
    if (which < 2 || which == LENGTHS)
        py_append(shape, points->ndim >= 2 ? points->shape[points->ndim - 1] : 0);
}

/* What the shapes of the gradients come from; v: NULL without a product. */
struct shapes {
    struct py_shape batch;
    struct py_pair pair;
    gram_tensor *v;
    bool is_vector; /* v is a vector, seen as a column */
};

/* Makes the outputs, or views those that the caller gave: one, or a tuple as wrt. */
static int make_outputs(struct py_call *call, PyObject *value, const struct wanted *w,
                        const struct shapes *of, gram_tensor **grads)
{
    bool many = py_given(value) && call->as_tuple;

    if (many && (!PyTuple_Check(value) || PyTuple_Size(value) != w->count)) {
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of %d arrays", w->call,
                     value, w->count);
        return -1;
    }
    for (int i = 0; i < w->count; i++) {
        const struct py_pair *pair = &of->pair;
        const gram_tensor *points = w->which[i] == 0 || !pair->y ? pair->x : pair->y;
        struct py_shape shape = of->batch;
        add_shape(&shape, w->which[i], points, of->v, of->is_vector);
        gram_tensor *out = py_output(call, "out", many ? PyTuple_GetItem(value, i) : value, &shape);
        if (!out)
            return -1;
        if (w->which[i] == TO_V && of->is_vector)
            py_as_column(out);
        grads[w->which[i]] = out;
    }
    return 0;
}

static PyObject *products(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    gram_tensor *grad, *to[MOST_GRADS] = {NULL};
    struct wanted wanted = {.call = signature.name, .most = TO_V};
    struct shapes of = {.v = NULL};
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
    if (read_wrt(&call, v[WRT], &wanted) || py_pair(&call, v, &of.pair, &of.batch))
        return py_fail(&call);
    grad = py_input(&call, "grad", v[GRAD]);
    if (!grad || py_kernel_options(&call, v, &k) || py_place(&call) || check_lengths(&wanted, &k))
        return py_fail(&call);
    of.batch.dtype = py_pair_dtype(of.pair.x);
    py_batch(&of.batch, grad, 2);
    py_kernel_batch(&of.batch, &k);
    if (make_outputs(&call, v[OUT], &wanted, &of, to))
        return py_fail(&call);
    grads = (gram_kernel_grads){to[0], to[1], to[2], to[3], to[LENGTHS]};
    if (query)
        status = gram_kernel_vjp_workspace(call.g, of.pair.x, of.pair.y, &k.options, grad, &grads,
                                           &call.need);
    else
        PY_WORK(status, gram_kernel_vjp(call.g, of.pair.x, of.pair.y, &k.options, grad, &grads));
    return py_end(&call, status);
}

/* The arguments v and grad: matrices, or both vectors. */
static int read_factors(struct py_call *call, PyObject *const *v, struct shapes *of,
                        gram_tensor **grad)
{
    if (!py_given(v[V]) || !py_given(v[GRAD])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", product_signature.name,
                     py_given(v[V]) ? "grad" : "v");
        return -1;
    }
    of->v = py_input(call, "v", v[V]);
    if (!of->v)
        return -1;
    *grad = py_input(call, "grad", v[GRAD]);
    return *grad ? 0 : -1;
}

static void see_columns(struct shapes *of, gram_tensor *grad)
{
    of->is_vector = of->v->ndim == 1;
    if (of->is_vector)
        py_as_column(of->v);
    if (of->is_vector && grad->ndim == 1)
        py_as_column(grad);
    py_batch(&of->batch, of->v, 2);
    py_batch(&of->batch, grad, 2);
}

static PyObject *product_gradients(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                   PyObject *kwnames, bool query)
{
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    struct wanted wanted = {.call = product_signature.name, .most = TO_LOGS};
    gram_tensor *grad, *to[MOST_GRADS] = {NULL};
    struct shapes of = {.v = NULL};
    struct py_kernel k;
    struct py_call call;
    PyObject *v[ALL];
    gram_status status;

    if (py_begin(&call, module, &product_signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (read_wrt(&call, v[WRT], &wanted) || py_pair(&call, v, &of.pair, &of.batch) ||
        read_factors(&call, v, &of, &grad) || py_kernel_options(&call, v, &k) || py_place(&call) ||
        check_lengths(&wanted, &k))
        return py_fail(&call);
    of.batch.dtype = py_pair_dtype(of.pair.x);
    see_columns(&of, grad);
    py_kernel_batch(&of.batch, &k);
    if (make_outputs(&call, v[OUT], &wanted, &of, to))
        return py_fail(&call);
    grads.x = to[0], grads.y = to[1], grads.bandwidth = to[2], grads.regularization = to[3];
    grads.lengths = to[LENGTHS], grads.v = to[TO_V];
    if (query)
        status = gram_kernel_matmul_vjp_workspace(call.g, of.pair.x, of.pair.y, &k.options, of.v,
                                                  grad, &grads, &call.need);
    else
        PY_WORK(status, gram_kernel_matmul_vjp(call.g, of.pair.x, of.pair.y, &k.options, of.v, grad,
                                               &grads));
    return py_end(&call, status);
}

/* What a reduction is asked for, beside points and v. */
struct reduction {
    gram_kernel_reduce_options options;
    gram_reduction what;
    gram_tensor *log_weights, *grad;
};

static int read_reduction(PyObject *const *v, struct reduction *r)
{
    static const char *const names[] = {"logsumexp", "softmax", NULL};
    int which = -1;

    *r = (struct reduction){.options = GRAM_KERNEL_REDUCE_OPTIONS_INIT};
    if (!py_given(v[WHAT]) || !py_given(v[GRAD])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", reduce_signature.name,
                     py_given(v[WHAT]) ? "grad" : "what");
        return -1;
    }
    if (py_choice(reduce_signature.name, "what", v[WHAT], names, &which) ||
        py_double(reduce_signature.name, "scale", v[SCALE], &r->options.scale))
        return -1;
    r->what = which ? GRAM_REDUCE_SOFTMAX : GRAM_REDUCE_LOGSUMEXP;
    if (py_given(v[V]) == (which == 1))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: what='%s' takes %s", reduce_signature.name, names[which],
                 py_given(v[V]) ? "no v" : "the argument 'v'");
    return -1;
}

/* The arrays of a reduction, and what they add to the batch. */
static int read_arrays(struct py_call *call, PyObject *const *v, struct shapes *of,
                       struct reduction *r)
{
    if (py_given(v[V]) && !(of->v = py_input(call, "v", v[V])))
        return -1;
    r->grad = py_input(call, "grad", v[GRAD]);
    if (!r->grad)
        return -1;
    if (py_given(v[LOG_WEIGHTS])) {
        r->log_weights = py_input(call, "log_weights", v[LOG_WEIGHTS]);
        if (!r->log_weights)
            return -1;
        py_batch(&of->batch, r->log_weights, 1);
    }
    r->options.log_weights = r->log_weights;
    if (of->v)
        see_columns(of, r->grad);
    else
        py_batch(&of->batch, r->grad, 1);
    return 0;
}

static PyObject *reduction_gradients(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                     PyObject *kwnames, bool query)
{
    gram_kernel_reduce_grads grads = GRAM_KERNEL_REDUCE_GRADS_INIT;
    struct wanted wanted = {.call = reduce_signature.name, .most = MOST_GRADS};
    gram_tensor *to[MOST_GRADS] = {NULL};
    struct py_state *state = py_state_of(module);
    struct shapes of = {.v = NULL};
    struct reduction r;
    struct py_kernel k;
    struct py_call call;
    PyObject *v[REDUCED];
    gram_status status;

    if (py_parse(state, &reduce_signature, args, nargs, kwnames, v) || read_reduction(v, &r) ||
        py_open(&call, state, reduce_signature.name))
        return NULL;
    call.query = query;
    if (read_wrt(&call, v[WRT], &wanted) || py_pair(&call, v, &of.pair, &of.batch) ||
        read_arrays(&call, v, &of, &r) || py_kernel_options(&call, v, &k) || py_place(&call) ||
        check_lengths(&wanted, &k))
        return py_fail(&call);
    of.batch.dtype = py_pair_dtype(of.pair.x);
    py_kernel_batch(&of.batch, &k);
    if (has(&wanted, TO_V) && !of.v) {
        PyErr_Format(PyExc_ValueError, "%s: wrt has 'v', but there is none", wanted.call);
        return py_fail(&call);
    }
    if (make_outputs(&call, v[OUT], &wanted, &of, to))
        return py_fail(&call);
    grads.x = to[0], grads.y = to[1], grads.bandwidth = to[2], grads.regularization = to[3];
    grads.lengths = to[LENGTHS], grads.v = to[TO_V], grads.log_weights = to[TO_LOGS];
    if (query)
        status = gram_kernel_reduce_vjp_workspace(call.g, of.pair.x, of.pair.y, &k.options, r.what,
                                                  of.v, &r.options, r.grad, &grads, &call.need);
    else
        PY_WORK(status, gram_kernel_reduce_vjp(call.g, of.pair.x, of.pair.y, &k.options, r.what,
                                               of.v, &r.options, r.grad, &grads));
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
    "float64; or x and y are float16 or bfloat16, and the others float32.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and for p = 0 and inf,\n"
    "which have no gradient; TypeError for arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, y = np.array([[3.0]]), np.array([[1.0]])\n"
    ">>> gram.kernel_vjp(x, y, \"linear\", grad=np.array([[2.0]])).item()\n"
    "2.0\n";

PY_WITH_WORKSPACE(py_kernel_vjp, products)

const char py_kernel_matmul_vjp_doc[] =
    "kernel_matmul_vjp" PY_TEXT_kernel_matmul_vjp
    "Vector-Jacobian products of kernel_matmul(x, y, kernel, v=v, **options), which is K v, with\n"
    "grad, which is (..., m, r) as the product, or (m,) where v is (n,).  They are those of\n"
    "kernel_vjp with the cotangent grad @ v.T, of which no (m, n) matrix is stored, nor of K.\n\n"
    "wrt is one of \"x\", \"y\", \"v\", \"bandwidth\", \"regularization\" and \"lengths\", or\n"
    "a tuple of these for a tuple of results (and of out).  The gradients have the shapes of x,\n"
    "y, v and lengths, and for numbers that of the batch.  If y is not given, \"x\" is the whole\n"
    "gradient of x, and there is none for \"y\".  Ties and points that coincide contribute as in\n"
    "kernel_vjp.  All arrays are float32, or all are float64; or x and y are float16 or bfloat16,\n"
    "and the others float32.  Memory does not grow with m n; on a GPU the call only enqueues its\n"
    "work.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and for p = 0, which has no\n"
    "gradient; TypeError for arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, y = np.array([[3.0]]), np.array([[1.0], [2.0]])\n"
    ">>> v, grad = np.array([1.0, 10.0]), np.array([2.0])\n"
    ">>> gram.kernel_matmul_vjp(x, y, \"linear\", v=v, grad=grad).tolist()\n"
    "[[42.0]]\n";

PY_WITH_WORKSPACE(py_kernel_matmul_vjp, product_gradients)

const char py_kernel_reduce_vjp_doc[] =
    "kernel_reduce_vjp" PY_TEXT_kernel_reduce_vjp
    "Vector-Jacobian products of kernel_reduce(x, y, kernel, what=what, ...) with grad, for the\n"
    "soft reductions.  grad has the shape of the result: (..., m) for what=\"logsumexp\", and\n"
    "(..., m, r) for what=\"softmax\", or (m,) where v is (n,).\n\n"
    "wrt is one of \"x\", \"y\", \"v\", \"log_weights\", \"bandwidth\", \"regularization\" and\n"
    "\"lengths\", or a tuple of these for a tuple of results (and of out).  The gradients have\n"
    "the shapes of x, y, v, (..., n) and lengths, and for numbers that of the batch.  If y is\n"
    "not given, \"x\" is the whole gradient of x, and there is none for \"y\".  Where\n"
    "log_weights is not given, its numbers are 0.  Ties and points that coincide contribute as\n"
    "in kernel_vjp.  All arrays are float32, or all are float64; or x and y are float16 or\n"
    "bfloat16, and the others float32.  Memory does not grow with m n; on a GPU the call only\n"
    "enqueues its work.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and for p = 0, which has no\n"
    "gradient; TypeError for arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, y = np.array([[1.0]]), np.array([[2.0]])\n"
    ">>> options = {\"what\": \"logsumexp\", \"grad\": np.array([3.0])}\n"
    ">>> gram.kernel_reduce_vjp(x, y, \"linear\", **options).tolist()\n"
    "[[6.0]]\n";

PY_WITH_WORKSPACE(py_kernel_reduce_vjp, reduction_gradients)
