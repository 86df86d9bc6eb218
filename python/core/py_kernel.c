/*
 * py_kernel.c - gram.kernel, gram.tune and what gram.cache.warm does for a call of gram.kernel
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    OUT = PY_K_COUNT,
    COUNT
};

static const unsigned char words[] = {PY_KERNEL_WORDS, PY_out};
static const struct py_signature kernel_signature = {"gram.kernel", words, COUNT, 3, 1};
static const struct py_signature tune_signature = {"gram.tune", words, COUNT, 3, 1};

/* A call of either function, ready for the work. */
struct request {
    struct py_call call;
    struct py_pair pair;
    struct py_kernel kernel;
    gram_tensor *out;
};

/* Everything but the work: the arguments read, the output there; -1 with an exception, and nothing
 * is open. */
static int prepare(struct request *r, const struct py_signature *signature, PyObject *module,
                   PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    struct py_shape shape = {0};
    PyObject *v[COUNT];

    if (py_parse(state, signature, args, nargs, kwnames, v) ||
        py_open(&r->call, state, signature->name))
        return -1;
    r->call.query = query;
    r->out = NULL;
    if (!py_pair(&r->call, v, &r->pair, &shape) && !py_kernel_options(&r->call, v, &r->kernel) &&
        !py_place(&r->call)) {
        py_kernel_batch(&shape, &r->kernel);
        py_pair_shape(&shape, r->pair.x, r->pair.y ? r->pair.y : r->pair.x);
        r->out = py_output(&r->call, "out", v[OUT], &shape);
    }
    if (!r->out)
        py_close(&r->call);
    return r->out ? 0 : -1;
}

static PyObject *kernel(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames, bool query)
{
    struct request r;
    gram_status status;

    if (prepare(&r, &kernel_signature, module, args, nargs, kwnames, query))
        return NULL;
    if (query)
        status = gram_kernel_workspace(r.call.g, r.pair.x, r.pair.y, &r.kernel.options, r.out,
                                       &r.call.need);
    else
        PY_WORK(status, gram_kernel(r.call.g, r.pair.x, r.pair.y, &r.kernel.options, r.out));
    return py_end(&r.call, status);
}

const char py_kernel_doc[] =
    "kernel" PY_TEXT_kernel
    "A kernel matrix in one pass: out[..., i, j] = f(s) + regularization where\n"
    "row_offset + i == column_offset + j.  With d the distance of x[i] and y[j] in the p-norm and\n"
    "L the bandwidth:\n\n"
    "laplace              exp(-d / L)\n"
    "lpq-laplace          exp(-d^exponent / L^exponent)\n"
    "product-laplace      exp(-sum_k |x_k - y_k|^exponent / L^exponent)\n"
    "gaussian             exp(-d^2 / (2 L^2)), p = 2\n"
    "matern32, matern52   (1 + t) exp(-t), t = sqrt(3) d / L; (1 + t + t^2 / 3) exp(-t),\n"
    "                     t = sqrt(5) d / L\n"
    "rational-quadratic   (1 + d^2 / (2 alpha L^2))^-alpha, p = 2\n"
    "linear, cosine       x.y; x.y / (|x| |y|)\n"
    "polynomial, sigmoid  (gamma x.y + coef0)^degree; tanh(gamma x.y + coef0)\n"
    "distance             d; with outer_power, the sum of |x_k - y_k|^p to that power\n\n"
    "expression is a formula of s instead, as in C (\"exp(-s / a) * (1 + b * s)\"), of the\n"
    "distance, the sum or the product (of=), with numbers by name in the dict parameters. \n"
    "outer_power replaces the power 1 / p that makes a distance of the sum.  output=\"weight\"\n"
    "gives what cdist_grad takes as a, \"bandwidth-derivative\" d k / d L, and\n"
    "\"parameter-derivative\" the derivative of an expression by its parameter of the name\n"
    "`parameter`.\n\n"
    "Shapes, dtypes, batches and out are those of cdist; every number may be an array that\n"
    "broadcasts over the batch: see gram.cdist.  An array of bandwidths is one for each item, not\n"
    "one for each coordinate: divide x and y by such lengthscales.  Numbers that the kernel does\n"
    "not have, as a Gaussian's gamma, are refused.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, TypeError for what is no\n"
    "array.  Sources: Rasmussen and Williams, Gaussian processes for machine learning, 2006; lpq:\n"
    "Beaglehole et al., xRFM, arXiv:2508.10053.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0], [1.0]])\n"
    ">>> gram.kernel(x, None, \"gaussian\", bandwidth=2.0).round(3).tolist()\n"
    "[[1.0, 0.882], [0.882, 1.0]]\n"
    ">>> gram.kernel(x, expression=\"1 / (1 + c * s)\", parameters={\"c\": 3}).tolist()\n"
    "[[1.0, 0.25], [0.25, 1.0]]\n";

PY_WITH_WORKSPACE(py_kernel, kernel)

const char py_tune_doc[] =
    "tune" PY_TEXT_tune
    "Measures how the GPU of x computes gram.kernel(x, y, kernel, **options) fastest, and has all\n"
    "later calls for such problems do it so, in other processes too.  Returns a dict: candidates,\n"
    "tile, table_tile, tile_ms, table_ms (milliseconds of a call), kept.  Arguments, shapes and\n"
    "dtypes as gram.kernel has them; out is overwritten.\n\n"
    "Raises NotImplementedError on the CPU, where there is no choice.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.tune(np.ones((4, 2)))\n"
    "Traceback (most recent call last):\n"
    "NotImplementedError: gram.tune: cpu has nothing to tune\n";

PyObject *py_tune(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    gram_tuning found = {.size = sizeof found};
    struct request r;
    gram_status status;

    if (prepare(&r, &tune_signature, module, args, nargs, kwnames, false))
        return NULL;
    PY_WORK(status, gram_tune(r.call.g, r.pair.x, r.pair.y, &r.kernel.options, r.out, &found));
    if (status != GRAM_OK)
        return py_end(&r.call, status);
    py_close(&r.call);
    return Py_BuildValue("{s:i,s:i,s:i,s:d,s:d,s:O}", "candidates", found.candidates, "tile",
                         found.tile, "table_tile", found.table_tile, "tile_ms", found.tile_ms,
                         "table_ms", found.table_ms, "kept", found.kept ? Py_True : Py_False);
}

/* (chips, x, y, kernel, **options): the arguments of gram.kernel after the first. */
PyObject *py_cache_warm_kernel(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames)
{
    static const struct py_signature signature = {"gram.cache.warm", words, COUNT, 3, 1};
    struct py_warming w;
    struct request r;
    gram_status status;

    if (nargs < 1) {
        PyErr_Format(PyExc_TypeError, "%s: chips are missing", signature.name);
        return NULL;
    }
    if (prepare(&r, &signature, module, args + 1, nargs - 1, kwnames, true))
        return NULL;
    if (py_warming_begin(&w, args[0]))
        return py_fail(&r.call);
    PY_WORK(status, gram_cache_warm_kernel(r.call.g, r.pair.x, r.pair.y, &r.kernel.options, r.out,
                                           &w.options));
    return py_warming_end(&w, &r.call, status);
}
