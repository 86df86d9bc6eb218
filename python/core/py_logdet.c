/*
 * py_logdet.c - gram.kernel_logdet and gram.logdet_operator: log-determinants of matrices that are
 * never stored
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_operator.h"
#include "py_signatures.h"

enum { /* after the points, `probes` at the place of y, and the kernel */
    STEPS = PY_K_COUNT,
    SEED,
    TOLERANCE,
    RANK,
    LEFT,
    RIGHT,
    REPORT,
    COUNT
};

static const unsigned char words[] = {
    PY_x,     PY_probes, PY_KERNEL_OPTION_WORDS, PY_steps, PY_seed, PY_tolerance, PY_rank, PY_left,
    PY_right, PY_report};
static const struct py_signature signature = {"gram.kernel_logdet", words, COUNT, 1, 1};

/* The arguments that both functions have. */
struct arguments {
    PyObject *probes, *steps, *seed, *tolerance, *rank, *left, *right, *report;
};

static int read_options(const char *function, const struct arguments *v,
                        gram_logdet_options *options)
{
    int64_t seed = 0, rank = 0;

    if (py_int64(function, "probes", v->probes, &options->probes) ||
        py_int64(function, "steps", v->steps, &options->steps) ||
        py_int64(function, "seed", v->seed, &seed) ||
        (py_given(v->tolerance) &&
         py_double(function, "tolerance", v->tolerance, &options->tolerance)) ||
        (py_given(v->rank) && py_int64(function, "rank", v->rank, &rank)))
        return -1;
    if (rank < 0) {
        PyErr_Format(PyExc_ValueError, "%s: rank is %R, expected 0 or more", function, v->rank);
        return -1;
    }
    options->seed = (uint64_t)seed;
    options->rank = py_given(v->rank) && rank == 0 ? -1 : rank;
    return py_report_dict(function, v->report);
}

/* After py_place. */
static int read_sides(struct py_call *call, const struct arguments *v, gram_logdet_options *options)
{
    return py_side_output(call, "left", v->left, &options->left) ||
                   py_side_output(call, "right", v->right, &options->right)
               ? -1
               : 0;
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_logdet_report *report)
{
    PyObject *items =
        Py_BuildValue("{s:L,s:L,s:d,s:L,s:d}", "steps", (long long)report->steps, "products",
                      (long long)report->products, "residual", report->residual, "rank",
                      (long long)report->rank, "of_preconditioner", report->of_preconditioner);

    return py_tell(dict, items);
}

static PyObject *end(struct py_call *call, gram_status status, PyObject *dict,
                     const gram_logdet_report *report)
{
    if (status != GRAM_OK)
        return py_end(call, status);
    if (py_given(dict) && tell(dict, report))
        return py_fail(call);
    py_close(call);
    return Py_BuildValue("dd", report->value, report->standard_error);
}

const char py_kernel_logdet_doc[] =
    "kernel_logdet" PY_TEXT_kernel_logdet
    "The log-determinant of kernel(x, x, kernel, **options), which is never stored, as\n"
    "(value, standard_error), two floats.  The matrix must be positive definite: give it a\n"
    "regularization.\n\n"
    "x is (n, d), of float32 or float64 (or a half type), with any strides, on the CPU or on\n"
    "a GPU.  options are those of gram.kernel.  The estimate is a mean over probes, random\n"
    "vectors that depend on seed, with each of which a Lanczos process takes at most so many\n"
    "steps, until its residual is below tolerance (None: 1e-6).  The truth lies within twice\n"
    "standard_error in about 95 of 100 cases, and four times as many probes halve it.  With too\n"
    "few steps the estimate is too large: report, a dict, receives residual, which should be\n"
    "below 0.01, the steps and the products that were taken, rank, and of_preconditioner.\n\n"
    "rank is that of a preconditioner P, a randomly pivoted Cholesky factorisation of the kernel\n"
    "matrix and a multiple of the identity (None: about 8 sqrt(n); 0: none).  Its determinant is\n"
    "exact, and only the rest is estimated.  Memory: n rank numbers.\n\n"
    "left and right, arrays (n, probes) of the dtype, receive P^-1 z and A^-1 z of the probes z,\n"
    "one per column, to tolerance: for every symmetric dA, (left * (dA @ right)).sum() / probes\n"
    "estimates the trace of A^-1 dA, the derivative of the log-determinant.  So\n"
    "gram.kernel_matmul_vjp(x, v=right, grad=left) gives its gradients.\n\n"
    "Raises gram.LinAlgError if the matrix is not positive definite or a product is nan,\n"
    "ValueError for shapes, dtypes and values that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    "Source: Ubaru, Chen and Saad, Fast estimation of tr(f(A)) via stochastic Lanczos\n"
    "quadrature, SIAM J. Matrix Anal. Appl. 38, 2017; Wenger et al., Preconditioning for\n"
    "scalable Gaussian process hyperparameter optimization, ICML 2022.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.linspace(0, 1, 50)[:, None]\n"
    ">>> value, standard_error = gram.kernel_logdet(x, kernel=\"gaussian\", regularization=1.0)\n"
    ">>> exact = np.linalg.slogdet(gram.kernel(x, kernel=\"gaussian\", regularization=1.0))[1]\n"
    ">>> bool(abs(value - exact) < 3 * standard_error)\n"
    "True\n";

PyObject *py_kernel_logdet(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    struct py_state *state = py_state_of(module);
    gram_logdet_options options = GRAM_LOGDET_OPTIONS_INIT;
    gram_logdet_report report = {.size = sizeof report};
    struct py_kernel kernel;
    struct py_call call;
    struct arguments given;
    PyObject *v[COUNT];
    gram_tensor *x;
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v))
        return NULL;
    given = (struct arguments){v[1],    v[STEPS], v[SEED],  v[TOLERANCE],
                               v[RANK], v[LEFT],  v[RIGHT], v[REPORT]};
    if (read_options(signature.name, &given, &options) || py_open(&call, state, signature.name))
        return NULL;
    x = py_input(&call, "x", v[0]);
    if (!x || py_kernel_options(&call, v, &kernel) || py_place(&call) ||
        read_sides(&call, &given, &options))
        return py_fail(&call);
    PY_WORK(status, gram_kernel_logdet(call.g, x, &kernel.options, &options, &report));
    return end(&call, status, v[REPORT], &report);
}

/* ---- Operators ------------------------------------------------------------------------------- */

enum {
    O_A,
    O_LIKE,
    O_PROBES,
    O_STEPS,
    O_SEED,
    O_TOLERANCE,
    O_LEFT,
    O_RIGHT,
    O_REPORT,
    O_COUNT
};

static const unsigned char operator_words[] = {PY_a,         PY_like, PY_probes, PY_steps, PY_seed,
                                               PY_tolerance, PY_left, PY_right,  PY_report};
static const struct py_signature of_operator = {"gram.logdet_operator", operator_words, O_COUNT, 2,
                                                2};

const char py_logdet_operator_doc[] =
    "logdet_operator" PY_TEXT_logdet_operator
    "The log-determinant of a symmetric positive definite matrix A that is known by its\n"
    "products, as (value, standard_error), two floats.\n\n"
    "a is a function that is given v (n, k), k at most 8, and returns A v, (n, k) of the same\n"
    "dtype; or an object with a product a @ v, such as a sparse matrix.  like is an array (n,) or\n"
    "(n, c) of float32 or float64: v has its n, its dtype, its library and its device.  Its\n"
    "elements are not used.  probes, steps, seed, tolerance, left (here z itself), right and\n"
    "report are those of gram.kernel_logdet.  Memory: 48 n numbers, and left and right.\n\n"
    "What the function raises ends the call.  Raises gram.LinAlgError if A is not positive\n"
    "definite or a product is nan, and ValueError for shapes, dtypes and values that do not\n"
    "fit.\n\n"
    "Source: Ubaru, Chen and Saad, Fast estimation of tr(f(A)) via stochastic Lanczos\n"
    "quadrature, SIAM J. Matrix Anal. Appl. 38, 2017.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> d = np.linspace(1, 9, 50)[:, None]\n"
    ">>> value, standard_error = gram.logdet_operator(lambda v: d * v, np.empty(50))\n"
    ">>> bool(abs(value - np.log(d).sum()) < 1e-8)  # a diagonal matrix needs no luck\n"
    "True\n";

PyObject *py_logdet_operator(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    struct py_state *state = py_state_of(module);
    gram_logdet_options options = GRAM_LOGDET_OPTIONS_INIT;
    gram_logdet_report report = {.size = sizeof report};
    PyThreadState *saved;
    struct py_operator a;
    struct py_call call;
    struct arguments given;
    PyObject *v[O_COUNT];
    const gram_tensor *like;
    gram_status status;

    if (py_parse(state, &of_operator, args, nargs, kwnames, v))
        return NULL;
    given = (struct arguments){v[O_PROBES], v[O_STEPS], v[O_SEED],  v[O_TOLERANCE],
                               NULL,        v[O_LEFT],  v[O_RIGHT], v[O_REPORT]};
    if (read_options(of_operator.name, &given, &options) || py_open(&call, state, of_operator.name))
        return NULL;
    like = py_operator_like(&call, v[O_LIKE]);
    if (!like)
        return py_fail(&call);
    if (read_sides(&call, &given, &options) ||
        py_operator_of(&a, &call, "a", v[O_A], &saved, &call.array[0], like->shape[0]))
        return py_fail(&call);
    PY_OPERATOR_WORK(saved, status, gram_logdet_operator(call.g, &a.given, &options, &report));
    return end(&call, status, v[O_REPORT], &report);
}
