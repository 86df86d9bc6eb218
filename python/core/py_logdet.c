/*
 * py_logdet.c - gram.kernel_logdet: log-determinants of kernel matrices that are never stored
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum { /* after the points, `probes` at the place of y, and the kernel */
    STEPS = PY_K_COUNT,
    SEED,
    REPORT,
    COUNT
};

static const unsigned char words[] = {PY_x,     PY_probes, PY_KERNEL_OPTION_WORDS,
                                      PY_steps, PY_seed,   PY_report};
static const struct py_signature signature = {"gram.kernel_logdet", words, COUNT, 1, 1};

static int read_options(PyObject *const *v, gram_logdet_options *options)
{
    int64_t seed = 0;

    if (py_int64(signature.name, "probes", v[1], &options->probes) ||
        py_int64(signature.name, "steps", v[STEPS], &options->steps) ||
        py_int64(signature.name, "seed", v[SEED], &seed))
        return -1;
    options->seed = (uint64_t)seed;
    if (py_given(v[REPORT]) && !PyDict_Check(v[REPORT])) {
        PyErr_Format(PyExc_TypeError, "%s: report is %R, expected a dict", signature.name,
                     v[REPORT]);
        return -1;
    }
    return 0;
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_logdet_report *report)
{
    PyObject *items = Py_BuildValue("{s:L,s:L,s:d}", "steps", (long long)report->steps, "products",
                                    (long long)report->products, "residual", report->residual);
    int failed = items ? PyDict_Update(dict, items) : -1;

    Py_XDECREF(items);
    return failed;
}

const char py_kernel_logdet_doc[] =
    "kernel_logdet" PY_TEXT_kernel_logdet
    "The log-determinant of kernel(x, x, kernel, **options), which is never stored, as\n"
    "(value, standard_error), two floats.  The matrix must be positive definite: give it a\n"
    "regularization.\n\n"
    "x is (n, d), of float32 or float64 (or a half type), with any strides, on the CPU or on\n"
    "a GPU.  options are those of gram.kernel.  The estimate is a mean over probes, random\n"
    "vectors that depend on seed, with each of which a Lanczos process takes at most so many\n"
    "steps.  The truth lies within twice standard_error in about 95 of 100 cases, and four\n"
    "times as many probes halve it.  With too few steps the estimate is too large: report, a\n"
    "dict, receives residual, which should be below 0.01, the steps and the products that\n"
    "were taken.\n\n"
    "Raises gram.LinAlgError if the matrix is not positive definite or a product is nan,\n"
    "ValueError for shapes, dtypes and values that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    "Source: Ubaru, Chen and Saad, Fast estimation of tr(f(A)) via stochastic Lanczos\n"
    "quadrature, SIAM J. Matrix Anal. Appl. 38, 2017.\n\n"
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
    PyObject *v[COUNT];
    gram_tensor *x;
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_options(v, &options) ||
        py_open(&call, state, signature.name))
        return NULL;
    x = py_input(&call, "x", v[0]);
    if (!x || py_kernel_options(&call, v, &kernel) || py_place(&call))
        return py_fail(&call);
    PY_WORK(status, gram_kernel_logdet(call.g, x, &kernel.options, &options, &report));
    if (status != GRAM_OK)
        return py_end(&call, status);
    if (py_given(v[REPORT]) && tell(v[REPORT], &report))
        return py_fail(&call);
    py_close(&call);
    return Py_BuildValue("dd", report.value, report.standard_error);
}
