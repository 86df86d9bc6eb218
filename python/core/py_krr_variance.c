/*
 * py_krr_variance.c - gram.krr_variance: predictive variances of Gaussian processes
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"
#include "py_waiting.h"

enum { /* after the points, z at the place of y, and the kernel */
    RIDGE = PY_K_COUNT,
    TOLERANCE,
    METHOD,
    RANK,
    PRODUCTS,
    TIME_LIMIT,
    SEED,
    ROW_WEIGHTS,
    BOUND,
    REPORT,
    OUT,
    COUNT
};

static const unsigned char words[] = {
    PY_x,      PY_z,        PY_KERNEL_OPTION_WORDS, PY_ridge, PY_tolerance,   PY_method,
    PY_rank,   PY_products, PY_time_limit,          PY_seed,  PY_row_weights, PY_bound,
    PY_report, PY_out};
static const struct py_signature signature = {"gram.krr_variance", words, COUNT, 3, 2};

struct request {
    struct py_call call;
    struct py_kernel kernel;
    gram_krr_variance_options options;
    gram_krr_variance_report report;
    gram_tensor *x, *z, *variance;
};

static int read_numbers(PyObject *const *v, gram_krr_variance_options *o)
{
    static const char *const methods[] = {"auto", "cholesky", "cg", NULL};
    int method = GRAM_KRR_AUTO;
    int64_t rank = 0, seed = 0;

    if (!py_given(v[RIDGE])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument 'ridge'", signature.name);
        return -1;
    }
    if (py_double(signature.name, "ridge", v[RIDGE], &o->ridge) ||
        (py_given(v[TOLERANCE]) &&
         py_double(signature.name, "tolerance", v[TOLERANCE], &o->tolerance)) ||
        py_choice(signature.name, "method", v[METHOD], methods, &method) ||
        (py_given(v[RANK]) && py_int64(signature.name, "rank", v[RANK], &rank)) ||
        (py_given(v[PRODUCTS]) &&
         py_int64(signature.name, "products", v[PRODUCTS], &o->products)) ||
        (py_given(v[TIME_LIMIT]) &&
         py_double(signature.name, "time_limit", v[TIME_LIMIT], &o->time_limit)) ||
        py_int64(signature.name, "seed", v[SEED], &seed))
        return -1;
    if (rank < 0) {
        PyErr_Format(PyExc_ValueError, "%s: rank is %R, expected 0 or more", signature.name,
                     v[RANK]);
        return -1;
    }
    if (py_report_dict(signature.name, v[REPORT]))
        return -1;
    o->method = (gram_krr_method)method;
    o->rank = py_given(v[RANK]) && rank == 0 ? -1 : rank;
    o->seed = (uint64_t)seed;
    return 0;
}

static int read_arrays(struct request *r, PyObject *const *v)
{
    struct py_call *call = &r->call;
    struct py_shape shape = {.ndim = 0};
    gram_tensor *weights = NULL;

    r->x = py_input(call, "x", v[0]);
    r->z = r->x ? py_input(call, "z", v[1]) : NULL;
    if (!r->z ||
        (py_given(v[ROW_WEIGHTS]) && !(weights = py_input(call, "row_weights", v[ROW_WEIGHTS]))) ||
        py_kernel_options(call, v, &r->kernel) || py_place(call) ||
        py_side_output(call, "bound", v[BOUND], &r->options.bound))
        return -1;
    r->options.weights = weights;
    shape.dtype = r->x->dtype;
    py_append(&shape, r->z->ndim > 0 ? r->z->shape[0] : 0);
    r->variance = py_output(call, "out", v[OUT], &shape);
    return r->variance ? 0 : -1;
}

static gram_status work(void *argument)
{
    struct request *r = argument;

    return gram_krr_variance(r->call.g, r->x, &r->kernel.options, r->z, &r->options, r->variance);
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_krr_variance_report *report)
{
    static const char *const methods[] = {"auto", "cholesky", "cg"};
    static const char *const ends[] = {"reached", "rounding", "products", "time", "indefinite"};
    PyObject *items =
        Py_BuildValue("{s:s,s:O,s:s,s:L,s:L,s:d,s:d}", "method", methods[report->method], "reached",
                      report->reached ? Py_True : Py_False, "end", ends[report->end], "rank",
                      (long long)report->rank, "products", (long long)report->products, "bound",
                      report->bound, "seconds", report->seconds);

    return py_tell(dict, items);
}

const char py_krr_variance_doc[] =
    "krr_variance" PY_TEXT_krr_variance
    "The variances of a Gaussian process at new points z, given noisy values at points x:\n"
    "kernel(z_j, z_j) - k_j^T (kernel(x, x) + diag(ridge / row_weights))^-1 k_j, where k_j is\n"
    "kernel(x, z_j).  They are those of the function; the variance of the noise is not added.\n\n"
    "x is (n, d), z is (m, d), and the result is (m,); all are float32 or float64 (a given out\n"
    "may be float64 in any case).  kernel, its options, ridge, which must be above 0, and\n"
    "row_weights are those of gram.krr_solve, as are method (\"auto\", \"cholesky\" or \"cg\"),\n"
    "rank, products, which count for a block of up to 256 points, and time_limit.  The mean at z\n"
    "is kernel_matmul(z, x, v=krr_solve(x, y)).\n\n"
    "bound, an array like the result, receives by how much each variance may be wrong: in exact\n"
    "arithmetic it is too large by r^T A^-1 r, r the residual of its solve in float64 and A the\n"
    "matrix, and never too small.  The rows of the preconditioner bound this form, to about twice\n"
    "its value; an allowance for rounding is added.  The call ends when every bound is at most\n"
    "tolerance (None: 1e-4) times kernel(z_j, z_j).  report, a dict, receives method, reached,\n"
    "end, rank, products, seconds and bound, the largest one over kernel(z_j, z_j).\n\n"
    "Memory: that of gram.krr_solve for a block of points; nothing of n by m is stored.\n\n"
    "Raises gram.LinAlgError if the tolerance is not reached and report is not given: with\n"
    "report, the best variances are returned, and report[\"reached\"] is False; they are nan\n"
    "where the matrix is not positive definite.  Raises ValueError for shapes, dtypes and values\n"
    "that do not fit, among them nan, and TypeError for arguments that are not arrays.\n\n"
    "Source: Rasmussen and Williams, Gaussian processes for machine learning, equation (2.26).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, z = np.linspace(0, 6, 300)[:, None], np.array([[1.5], [20.0]])\n"
    ">>> bound = np.empty(2)\n"
    ">>> v = gram.krr_variance(x, z, \"gaussian\", ridge=0.01, method=\"cg\", bound=bound)\n"
    ">>> bool(v[0] < 0.01), float(v[1]), bool((bound <= 1e-4).all())\n"
    "(True, 1.0, True)\n";

PyObject *py_krr_variance(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames)
{
    struct py_state *state = py_state_of(module);
    struct request r = {.options = GRAM_KRR_VARIANCE_OPTIONS_INIT,
                        .report = {.size = sizeof r.report}};
    PyObject *v[COUNT];
    gram_status status = GRAM_OK;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_numbers(v, &r.options) ||
        py_open(&r.call, state, signature.name))
        return NULL;
    r.options.report = &r.report;
    if (read_arrays(&r, v) || py_call_wait(&r.call, work, &r, &status))
        return py_fail(&r.call);
    if (py_given(v[REPORT]) && (status == GRAM_OK || status == GRAM_NUMERICAL)) {
        if (tell(v[REPORT], &r.report))
            return py_fail(&r.call);
        status = GRAM_OK;
    }
    return py_end(&r.call, status);
}
