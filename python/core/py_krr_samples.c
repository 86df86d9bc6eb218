/*
 * py_krr_samples.c - gram.krr_samples: draws of Gaussian processes by Matheron's rule
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"
#include "py_waiting.h"

enum { /* after the points, y and the kernel */
    Z = PY_K_COUNT,
    RIDGE,
    DRAWS,
    TOLERANCE,
    METHOD,
    RANK,
    PRODUCTS,
    TIME_LIMIT,
    SEED,
    PRIOR,
    FEATURES,
    ROW_WEIGHTS,
    REPORT,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_x,     PY_y,        PY_KERNEL_OPTION_WORDS, PY_z,
                                      PY_ridge, PY_count,    PY_tolerance,           PY_method,
                                      PY_rank,  PY_products, PY_time_limit,          PY_seed,
                                      PY_prior, PY_features, PY_row_weights,         PY_report,
                                      PY_out};
static const struct py_signature signature = {"gram.krr_samples", words, COUNT, 3, 2};

struct request {
    struct py_call call;
    struct py_kernel kernel;
    gram_krr_samples_options options;
    gram_krr_samples_report report;
    int64_t draws;
    gram_tensor *x, *y, *z, *samples;
};

static int read_choices(PyObject *const *v, gram_krr_samples_options *o)
{
    static const char *const methods[] = {"auto", "cholesky", "cg", NULL};
    static const char *const priors[] = {"auto", "joint", "features", NULL};
    int method = GRAM_KRR_AUTO, prior = GRAM_KRR_PRIOR_AUTO;

    if (py_choice(signature.name, "method", v[METHOD], methods, &method) ||
        py_choice(signature.name, "prior", v[PRIOR], priors, &prior) ||
        py_report_dict(signature.name, v[REPORT]))
        return -1;
    o->method = (gram_krr_method)method;
    o->prior = (gram_krr_prior)prior;
    return 0;
}

static int read_numbers(PyObject *const *v, struct request *r)
{
    gram_krr_samples_options *o = &r->options;
    int64_t rank = 0, seed = 0;

    r->draws = 1;
    if (!py_given(v[Z]) || !py_given(v[RIDGE])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", signature.name,
                     py_given(v[Z]) ? "ridge" : "z");
        return -1;
    }
    if (py_double(signature.name, "ridge", v[RIDGE], &o->ridge) ||
        (py_given(v[TOLERANCE]) &&
         py_double(signature.name, "tolerance", v[TOLERANCE], &o->tolerance)) ||
        (py_given(v[DRAWS]) && py_int64(signature.name, "count", v[DRAWS], &r->draws)) ||
        (py_given(v[RANK]) && py_int64(signature.name, "rank", v[RANK], &rank)) ||
        (py_given(v[PRODUCTS]) &&
         py_int64(signature.name, "products", v[PRODUCTS], &o->products)) ||
        (py_given(v[TIME_LIMIT]) &&
         py_double(signature.name, "time_limit", v[TIME_LIMIT], &o->time_limit)) ||
        (py_given(v[FEATURES]) &&
         py_int64(signature.name, "features", v[FEATURES], &o->features)) ||
        py_int64(signature.name, "seed", v[SEED], &seed))
        return -1;
    if (rank < 0 || r->draws < 0) {
        PyErr_Format(PyExc_ValueError, "%s: %s is %R, expected 0 or more", signature.name,
                     rank < 0 ? "rank" : "count", v[rank < 0 ? RANK : DRAWS]);
        return -1;
    }
    o->rank = py_given(v[RANK]) && rank == 0 ? -1 : rank;
    o->seed = (uint64_t)seed;
    return read_choices(v, o);
}

static int read_arrays(struct request *r, PyObject *const *v)
{
    struct py_call *call = &r->call;
    struct py_shape shape = {.ndim = 0};
    gram_tensor *weights = NULL;

    r->x = py_input(call, "x", v[0]);
    r->y = r->x ? py_input(call, "y", v[1]) : NULL;
    r->z = r->y ? py_input(call, "z", v[Z]) : NULL;
    if (!r->z ||
        (py_given(v[ROW_WEIGHTS]) && !(weights = py_input(call, "row_weights", v[ROW_WEIGHTS]))) ||
        py_kernel_options(call, v, &r->kernel) || py_place(call))
        return -1;
    r->options.weights = weights;
    shape.dtype = r->x->dtype;
    py_append(&shape, r->z->ndim > 0 ? r->z->shape[0] : 0);
    py_append(&shape, r->draws);
    r->samples = py_output(call, "out", v[OUT], &shape);
    return r->samples ? 0 : -1;
}

static gram_status work(void *argument)
{
    struct request *r = argument;

    return gram_krr_samples(r->call.g, r->x, &r->kernel.options, r->y, r->z, &r->options,
                            r->samples);
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_krr_samples_report *report)
{
    static const char *const methods[] = {"auto", "cholesky", "cg"};
    static const char *const priors[] = {"auto", "joint", "features"};
    static const char *const ends[] = {"reached", "rounding", "products", "time", "indefinite"};
    PyObject *items = Py_BuildValue(
        "{s:s,s:s,s:O,s:s,s:L,s:L,s:d,s:d,s:d}", "method", methods[report->method], "prior",
        priors[report->prior], "reached", report->reached ? Py_True : Py_False, "end",
        ends[report->end], "rank", (long long)report->rank, "products", (long long)report->products,
        "residual", report->residual, "floor", report->floor, "seconds", report->seconds);

    return py_tell(dict, items);
}

const char py_krr_samples_doc[] =
    "krr_samples" PY_TEXT_krr_samples
    "Draws of a Gaussian process at new points z, given noisy values y at points x:\n"
    "f(z) + kernel(z, x) (kernel(x, x) + diag(ridge / row_weights))^-1 (y - f(x) - e), where f\n"
    "is a draw of the process that has seen nothing and e one of the noise.  They are draws of\n"
    "the function; the noise of new observations is not added.\n\n"
    "x is (n, d), y is (n,), z is (m, d), and the result is (m, count); all are float32 or\n"
    "float64 (a given out may be float64 in any case).  kernel, its options, ridge, which must be\n"
    "above 0, and row_weights are those of gram.krr_solve, as are method (\"auto\", \"cholesky\"\n"
    "or \"cg\"), rank, products, which count for a block of up to 256 draws, and time_limit.  The\n"
    "solve for each draw ends at the relative residual tolerance (None: 1e-3).\n\n"
    "prior=\"joint\" draws f by a Cholesky factor of the matrix of all n + m points, for any\n"
    "kernel.  \"features\" sums so many random Fourier features (None: 2048) for each draw, for\n"
    "Laplace, Gaussian, exponential power, Matern and rational quadratic kernels of p <= 2:\n"
    "means and covariances over draws are exact, and one draw is as of a kernel that differs\n"
    "with a standard error of at most 0.75 / sqrt(features).  With it the same seed gives the\n"
    "same functions at other z.  \"auto\" takes the former up to 6,000 points, or 16,000 on a\n"
    "GPU.  With no rows in x, draws are those of the process that has seen nothing.\n\n"
    "report, a dict, receives method, prior, reached, end, rank, products, residual (the largest\n"
    "of a draw), floor (what \"joint\" has added to the diagonal of the matrix) and seconds.\n\n"
    "Memory: that of gram.krr_solve for a block of draws; (n + m)^2 numbers (\"joint\").\n\n"
    "Raises gram.LinAlgError if the tolerance is not reached and report is not given: with\n"
    "report, the best draws are returned, and report[\"reached\"] is False.  Raises ValueError\n"
    "for shapes, dtypes and values that do not fit, among them nan, NotImplementedError for a\n"
    "kernel without features, and TypeError for arguments that are not arrays.\n\n"
    "Source: Wilson et al., Efficiently sampling functions from Gaussian process posteriors,\n"
    "arXiv:2002.09309.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, z = np.linspace(0, 6, 300)[:, None], np.array([[1.5], [20.0]])\n"
    ">>> y = np.sin(x[:, 0])\n"
    ">>> f = gram.krr_samples(x, y, \"gaussian\", z=z, count=500, ridge=0.01)\n"
    ">>> f.shape, bool(abs(f[0].mean() - np.sin(1.5)) < 0.02)\n"
    "((2, 500), True)\n"
    ">>> bool(f[0].std() < 0.1 < f[1].std())\n"
    "True\n";

PyObject *py_krr_samples(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames)
{
    struct py_state *state = py_state_of(module);
    struct request r = {.options = GRAM_KRR_SAMPLES_OPTIONS_INIT,
                        .report = {.size = sizeof r.report}};
    PyObject *v[COUNT];
    gram_status status = GRAM_OK;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_numbers(v, &r) ||
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
