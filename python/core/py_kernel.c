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

/* Does everything before the work: reads the arguments and creates the output.  On -1 there is an
 * exception, and nothing is open. */
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
    "A kernel matrix in one pass: out[..., i, j] = f(s), plus regularization where row_offset\n"
    "+ i == column_offset + j.  With d the distance of x[i] and y[j] in the p-norm, and L the\n"
    "bandwidth, the kernels are:\n\n"
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
    "expression is a formula of s that replaces the kernel, written as in C, for example\n"
    "\"exp(-s / a) * (1 + b * s)\".  of says whether s is the distance, the sum or the\n"
    "product, and the dict parameters has the named numbers of the formula.  norm_x, norm_y\n"
    "and dot are |x|, |y| and x.y (beside a distance: for p = 2 alone), and d1 and d2 are the\n"
    "distances of p = 1 and p = 2, whatever s is: \"exp(-d1 / a - d2 * d2 / b)\".  outer_power\n"
    "replaces the power 1 / p that makes a distance of the sum.  output=\"weight\" gives the\n"
    "argument a of gram.cdist_grad, \"bandwidth-derivative\" gives d k / d L, and\n"
    "\"parameter-derivative\" gives the derivative of an expression with respect to the\n"
    "parameter that `parameter` names.  An expression of norms has \"norm-x-weight\" and\n"
    "\"norm-y-weight\" too: what multiplies x, or y, in the gradient, beside the weight; one of\n"
    "d1 or d2 beside s has \"d1-weight\" and \"d2-weight\": what multiplies sgn(x - y), x - y.\n\n"
    "Shapes, dtypes, batches and out are as in gram.cdist.  Every number may be an array that\n"
    "broadcasts over the batch.  An array of bandwidths has one value per item of the batch,\n"
    "not one per coordinate: that is lengths, an array (..., k) of positive numbers, by which\n"
    "the columns of x and y are divided before anything else.  It has the dtype of x (float32\n"
    "for halves), and each quotient is rounded once.\n"
    "metric and weights are those of gram.cdist: d is then the distance of the metric, so that\n"
    "a laplace kernel of metric=\"chi2\" is exp(-chi2 / L), and s = d^outer_power if outer_power\n"
    "is given.  Such kernels have no gradients, and lengths must be None.\n"
    "Options that the kernel does not have, such as the gamma of a Gaussian, are refused.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and TypeError for\n"
    "arguments that are not arrays.  Sources: Rasmussen and Williams, Gaussian processes for\n"
    "machine learning, 2006; lpq: Beaglehole et al., xRFM, arXiv:2508.10053.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0], [1.0]])\n"
    ">>> gram.kernel(x, None, \"gaussian\", bandwidth=2.0).round(3).tolist()\n"
    "[[1.0, 0.882], [0.882, 1.0]]\n"
    ">>> gram.kernel(x, expression=\"1 / (1 + c * s)\", parameters={\"c\": 3}).tolist()\n"
    "[[1.0, 0.25], [0.25, 1.0]]\n"
    ">>> points = np.array([[0.0, 0.0], [3.0, 8.0]])\n"
    ">>> gram.kernel(points, kernel=\"distance\", lengths=np.array([1.0, 2.0]))[0, 1].item()\n"
    "5.0\n"
    ">>> counts = np.array([[1.0, 3.0], [3.0, 1.0]])\n"
    ">>> gram.kernel(counts, kernel=\"laplace\", metric=\"chi2\")[0, 1].round(3).item()\n"
    "0.135\n";

PY_WITH_WORKSPACE(py_kernel, kernel)

const char py_tune_doc[] =
    "tune" PY_TEXT_tune
    "Measures the ways in which the GPU of x can compute gram.kernel(x, y, kernel,\n"
    "**options).  All later calls for similar problems use the fastest, also in other\n"
    "processes.\n\n"
    "Returns a dict: candidates, tile, table_tile, tile_ms and table_ms (milliseconds per\n"
    "call), kept.  Arguments, shapes and dtypes are as in gram.kernel; the call overwrites\n"
    "out.\n\n"
    "Raises NotImplementedError on the CPU, which has only one way.  Other errors are the\n"
    "same as gram.kernel has.\n\n"
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
