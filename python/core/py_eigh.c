/*
 * py_eigh.c - gram.eigh, gram.eigh_kernel and gram.eigh_operator: eigenpairs of symmetric matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"
#include "py_operator.h"
#include "py_signatures.h"
#include "py_types.h"
#include <math.h>
#include <string.h>

/* The arguments that both functions take, at the end of theirs. */
enum option {
    VECTORS,
    SELECT,
    FIRST,
    COUNT_OF,
    RANGE,
    FOUND,
    DRIVER,
    TOLERANCE,
    PRODUCTS,
    SEED,
    REPORT,
    BACKGROUND,
    INFO,
    OUT,
    OPTIONS
};

#define OPTION_WORDS                                                                      \
  PY_vectors, PY_select, PY_first, PY_count, PY_range, PY_found, PY_driver, PY_tolerance, \
      PY_products, PY_seed, PY_report, PY_background, PY_info, PY_out

enum { /* of eigh */
    A,
    LOWER,
    EIGH_OPTIONS,
    EIGH_COUNT = EIGH_OPTIONS + OPTIONS
};

enum { /* of eigh_kernel, after the points and the kernel; without vectors and background */
    KERNEL_OPTIONS = PY_K_COUNT,
    KERNEL_COMMUNICATOR = KERNEL_OPTIONS + OPTIONS - 2,
    KERNEL_COUNT
};

static const unsigned char eigh_words[] = {PY_a, PY_lower, OPTION_WORDS};
static const struct py_signature eigh = {"gram.eigh", eigh_words, EIGH_COUNT, 1, 1},
                                 tune = {"gram.tune_eigh", eigh_words, EIGH_COUNT, 1, 1};
static const char *const drivers[] = {"auto",      "closed-form", "jacobi",  "divide",
                                      "bisection", "krylov",      "batched", NULL};
/* The argument `vectors` is at the place that y has in functions of two sets of points. */
static const unsigned char kernel_words[] = {
    PY_x,     PY_vectors,     PY_KERNEL_OPTION_WORDS, PY_select,   PY_first, PY_count,  PY_range,
    PY_found, PY_driver,      PY_tolerance,           PY_products, PY_seed,  PY_report, PY_info,
    PY_out,   PY_communicator};
static const struct py_signature of_kernel = {"gram.eigh_kernel", kernel_words, KERNEL_COUNT, 1, 1};

/* The arguments of both functions. */
struct request {
    const char *function;
    gram_eigh_options options;
    gram_eigh_report report;
    gram_tensor *values, *to_vectors, *info;
    bool vectors;
};

/* The pair of numbers of range, an interval that is open below and closed above. */
static int read_range(const char *function, PyObject *value, gram_eigh_options *options)
{
    double *ends[] = {&options->lower, &options->upper};
    int failed = 0;

    if (!py_given(value))
        return 0;
    if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
        PyErr_Format(PyExc_TypeError, "%s: range is %R, expected a tuple of two numbers", function,
                     value);
        return -1;
    }
    for (int i = 0; i < 2 && !failed; i++)
        failed = py_double(function, "range", PyTuple_GetItem(value, i), ends[i]);
    return failed;
}

static int read_numbers(PyObject *const *o, struct request *r)
{
    int64_t seed = 0;

    if (py_int64(r->function, "first", o[FIRST], &r->options.first) ||
        (py_given(o[COUNT_OF]) && py_int64(r->function, "count", o[COUNT_OF], &r->options.count)) ||
        py_double(r->function, "tolerance", o[TOLERANCE], &r->options.tolerance) ||
        py_int64(r->function, "products", o[PRODUCTS], &r->options.products) ||
        py_int64(r->function, "seed", o[SEED], &seed) ||
        read_range(r->function, o[RANGE], &r->options))
        return -1;
    r->options.seed = (uint64_t)seed;
    return 0;
}

static int read_options(PyObject *const *o, struct request *r, int select)
{
    static const char *const selects[] = {"all", "index", "value", "largest", "smallest", NULL};
    bool background = false;
    int driver = GRAM_EIGH_DRIVER_AUTO;

    if (py_bool(r->function, "vectors", o[VECTORS], &r->vectors) ||
        py_bool(r->function, "background", o[BACKGROUND], &background) ||
        py_choice(r->function, "select", o[SELECT], selects, &select) ||
        py_choice(r->function, "driver", o[DRIVER], drivers, &driver) || read_numbers(o, r))
        return -1;
    if (!py_given(o[COUNT_OF]) && select != GRAM_EIGH_ALL && select != GRAM_EIGH_VALUE) {
        PyErr_Format(PyExc_ValueError,
                     "%s: select is '%s', but count, the number of pairs, is not given",
                     r->function, selects[select]);
        return -1;
    }
    r->options.select = (gram_eigh_select)select;
    r->options.driver = (gram_eigh_driver)driver;
    r->options.background = background;
    if (!py_given(o[REPORT]))
        return 0;
    if (py_report_dict(r->function, o[REPORT]))
        return -1;
    r->report.size = sizeof r->report;
    r->options.report = &r->report;
    return 0;
}

/* Creates the values, and the vectors if they are requested, with the batch and dtype of `shape`
 * and the order n. out is one array, or the tuple of both. */
static int make_outputs(struct py_call *call, PyObject *const *o, struct py_shape shape, int64_t n,
                        struct request *r)
{
    int64_t k = r->options.select == GRAM_EIGH_ALL ? n : r->options.count;
    bool given = py_given(o[OUT]);

    call->as_tuple = r->vectors;
    if (given && r->vectors && (!PyTuple_Check(o[OUT]) || PyTuple_Size(o[OUT]) != 2)) {
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of values and vectors",
                     r->function, o[OUT]);
        return -1;
    }
    if (r->options.select == GRAM_EIGH_VALUE && !py_given(o[COUNT_OF]))
        k = n;
    k = k < 0 ? 0 : k;
    py_append(&shape, k);
    r->values = py_output(call, "values", given && r->vectors ? PyTuple_GetItem(o[OUT], 0) : o[OUT],
                          &shape);
    if (!r->values)
        return -1;
    if (r->vectors) {
        shape.size[shape.ndim - 1] = n;
        py_append(&shape, k);
        r->to_vectors =
            py_output(call, "vectors", given ? PyTuple_GetItem(o[OUT], 1) : NULL, &shape);
        if (!r->to_vectors)
            return -1;
    }
    return py_side_output(call, "info", o[INFO], &r->info);
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_eigh_report *report)
{
    PyObject *items = Py_BuildValue("{s:s,s:L,s:d,s:L}", "driver", drivers[report->driver],
                                    "products", (long long)report->products, "residual",
                                    report->residual, "dense", (long long)report->dense);

    return py_tell(dict, items);
}

static PyObject *end(struct py_call *call, PyObject *const *o, const struct request *r,
                     gram_status status)
{
    if (status == GRAM_OK && r->options.report && !call->query && tell(o[REPORT], &r->report))
        return py_fail(call);
    return py_end(call, status);
}

/* The dict that gram.tune_eigh returns. */
static PyObject *measured(const gram_eigh_tuning *t)
{
    PyObject *seconds = PyDict_New(), *number;

    for (int i = 1; seconds && drivers[i]; i++) {
        if (isnan(t->driver_seconds[i]))
            continue;
        number = PyFloat_FromDouble(t->driver_seconds[i]);
        if (!number || PyDict_SetItemString(seconds, drivers[i], number))
            Py_CLEAR(seconds);
        Py_XDECREF(number);
    }
    if (!seconds)
        return NULL;
    return Py_BuildValue("{s:i,s:s,s:s,s:N,s:O}", "candidates", t->candidates, "driver",
                         drivers[t->driver], "table_driver", drivers[t->table_driver], "seconds",
                         seconds, "kept", t->kept ? Py_True : Py_False);
}

enum purpose {
    COMPUTE,
    QUERY,
    TUNE
};

static PyObject *decompose(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, enum purpose purpose)
{
    const struct py_signature *signature = purpose == TUNE ? &tune : &eigh;
    struct request r = {signature->name, GRAM_EIGH_OPTIONS_INIT, .vectors = true};
    gram_eigh_tuning found = {.size = sizeof found};
    struct py_state *state = py_state_of(module);
    struct py_shape shape = {0};
    struct py_call call;
    PyObject *v[EIGH_COUNT], **o = v + EIGH_OPTIONS;
    gram_tensor *a;
    gram_status status;
    bool lower = true;

    if (py_parse(state, signature, args, nargs, kwnames, v) ||
        py_bool(signature->name, "lower", v[LOWER], &lower) || read_options(o, &r, GRAM_EIGH_ALL) ||
        py_open(&call, state, signature->name))
        return NULL;
    call.query = purpose == QUERY;
    r.options.uplo = lower ? GRAM_LOWER : GRAM_UPPER;
    a = py_input(&call, "a", v[A]);
    if (!a || py_side_output(&call, "found", o[FOUND], &r.options.found) || py_place(&call))
        return py_fail(&call);
    shape.dtype = a->dtype;
    py_batch(&shape, a, 2);
    if (make_outputs(&call, o, shape, a->ndim >= 2 ? a->shape[a->ndim - 1] : 0, &r))
        return py_fail(&call);
    if (purpose == TUNE) {
        PY_WORK(status,
                gram_tune_eigh(call.g, a, &r.options, r.values, r.to_vectors, r.info, &found));
        if (status != GRAM_OK)
            return py_end(&call, status);
        py_close(&call);
        return measured(&found);
    }
    if (purpose == QUERY)
        status = gram_eigh_workspace(call.g, a, &r.options, r.values, r.to_vectors, &call.need);
    else
        PY_WORK(status, gram_eigh(call.g, a, &r.options, r.values, r.to_vectors, r.info));
    if (status == GRAM_OK && purpose == COMPUTE && r.options.background) {
        if (r.options.report && tell(o[REPORT], &r.report))
            return py_fail(&call);
        return py_pending(&call, module);
    }
    return end(&call, o, &r, status);
}

/* The arguments of eigh_kernel, and what they come to. */
struct kernel_request {
    PyObject *v[KERNEL_COUNT], *o[OPTIONS];
    struct request r;
    struct py_kernel kernel;
    gram_tensor *x;
    gram_communicator *ranks;
};

static int prepare_kernel(struct py_call *call, struct kernel_request *k)
{
    struct py_shape shape = {0};

    k->x = py_input(call, "x", k->v[0]);
    if (!k->x || py_kernel_options(call, k->v, &k->kernel) ||
        py_side_output(call, "found", k->o[FOUND], &k->r.options.found) || py_place(call))
        return -1;
    shape.dtype = k->x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    py_batch(&shape, k->x, 2);
    py_kernel_batch(&shape, &k->kernel);
    return make_outputs(call, k->o, shape, k->x->ndim >= 2 ? k->x->shape[k->x->ndim - 2] : 0,
                        &k->r);
}

static gram_status work_together(struct py_call *call, void *user, gram_context *g)
{
    const struct kernel_request *k = user;

    (void)call;
    return gram_eigh_kernel_multi(g, k->ranks, k->x, &k->kernel.options, &k->r.options, k->r.values,
                                  k->r.to_vectors, k->r.info);
}

/* All ranks make the call. */
static PyObject *decompose_together(struct py_call *call, struct kernel_request *k)
{
    struct request *r = &k->r;
    struct py_communicator *ranks;
    gram_status status;
    bool ready;

    ranks = py_communicator_take(call->state, call->function, k->v[KERNEL_COMMUNICATOR]);
    if (!ranks)
        return py_fail(call);
    k->ranks = ranks->c;
    ready = prepare_kernel(call, k) == 0;
    if (ready && call->query) {
        PyErr_Format(PyExc_ValueError,
                     "%s: communicator is given to gram.workspace, which has no "
                     "answer for ranks",
                     call->function);
        ready = false;
    }
    return py_communicator_run(call, ranks, ready, work_together, k, &status)
               ? end(call, k->o, r, status)
               : py_fail(call);
}

static PyObject *decompose_kernel(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                  PyObject *kwnames, bool query)
{
    struct kernel_request k = {
        .r = {of_kernel.name, GRAM_EIGH_OPTIONS_INIT, .vectors = true}
    };
    struct py_state *state = py_state_of(module);
    struct request *r = &k.r;
    struct py_call call;
    gram_status status;

    if (py_parse(state, &of_kernel, args, nargs, kwnames, k.v))
        return NULL;
    k.o[VECTORS] = k.v[1];
    for (int i = SELECT; i < BACKGROUND; i++)
        k.o[i] = k.v[KERNEL_OPTIONS + i - SELECT];
    k.o[BACKGROUND] = NULL;
    for (int i = INFO; i < OPTIONS; i++)
        k.o[i] = k.v[KERNEL_OPTIONS + i - SELECT - 1];
    if (read_options(k.o, r, GRAM_EIGH_LARGEST) || py_open(&call, state, of_kernel.name))
        return NULL;
    call.query = query;
    if (py_given(k.v[KERNEL_COMMUNICATOR]))
        return decompose_together(&call, &k);
    if (prepare_kernel(&call, &k))
        return py_fail(&call);
    if (query)
        status = gram_eigh_kernel_workspace(call.g, k.x, &k.kernel.options, &r->options, r->values,
                                            r->to_vectors, &call.need);
    else
        PY_WORK(status, gram_eigh_kernel(call.g, k.x, &k.kernel.options, &r->options, r->values,
                                         r->to_vectors, r->info));
    return end(&call, k.o, r, status);
}

const char py_eigh_doc[] =
    "eigh" PY_TEXT_eigh
    "Eigenvalues, in ascending order, and orthonormal eigenvectors of symmetric matrices.\n"
    "Returns (values, vectors) with a @ vectors = vectors * values, or only the values with\n"
    "vectors=False.\n\n"
    "a is (..., n, n), of which one triangle is read, of float32 or float64, with any\n"
    "strides.  select is \"all\"; \"largest\" or \"smallest\" (count of them); \"index\"\n"
    "(count of them from first on, counted from 0); or \"value\": the values in range=(lower,\n"
    "upper], at most count (default n).  found, int64 with the shape of the batch, receives\n"
    "their number, and the rest of the results is nan.  out is the tuple of both results\n"
    "(only values with vectors=False), and vectors may be a itself.  info, int32 with the\n"
    "shape of the batch, receives 0; 1 if the method does not converge; 2 for nan or\n"
    "infinity.  The results of such an item are nan.\n\n"
    "driver is \"auto\", \"closed-form\", \"jacobi\", \"divide\", \"bisection\", \"batched\"\n"
    "(on a GPU) or \"krylov\" (few pairs at one end of a large matrix).  For \"krylov\",\n"
    "tolerance bounds the residuals (0: the library's choice), products is the most products\n"
    "with blocks of vectors, and seed sets the start.  report, a dict, receives driver,\n"
    "products, residual and dense, which counts the items that krylov gave up.  With\n"
    "background, the call returns a gram.Pending, whose result() waits and returns the\n"
    "results; one large matrix on a GPU is computed meanwhile, and everything else before the\n"
    "call returns.\n\n"
    "Raises gram.LinAlgError if an item fails and info is not given, ValueError for shapes,\n"
    "dtypes and values that do not fit, and TypeError for arguments that are not arrays.\n"
    "Sources: LAPACK, cuSOLVER; Golub and Van Loan, Matrix computations, 8.5 (Jacobi); Wu and\n"
    "Simon, Thick-restart Lanczos, SIAM J. Matrix Anal.  Appl. 22, 2000 (krylov).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> values, vectors = gram.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))\n"
    ">>> values.round(12).tolist()\n"
    "[1.0, 3.0]\n"
    ">>> gram.eigh(np.diag([3.0, 1.0, 2.0]), vectors=False, select=\"largest\", count=1).tolist()\n"
    "[3.0]\n";

PyObject *py_eigh(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return decompose(module, args, nargs, kwnames, COMPUTE);
}

PyObject *py_eigh_workspace(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                            PyObject *kwnames)
{
    return decompose(module, args, nargs, kwnames, QUERY);
}

const char py_tune_eigh_doc[] =
    "tune_eigh" PY_TEXT_tune_eigh
    "Measures every driver that can compute gram.eigh(a, **options), where options has no\n"
    "driver.  From then on, gram.eigh uses the fastest for similar problems, also in other\n"
    "processes: those with the same device and dtype, with vectors or without, with about the\n"
    "same n, and with numbers of items and of pairs that are the same when they are rounded\n"
    "up to a power of two.\n\n"
    "Returns a dict: candidates, driver, table_driver (the library's own choice), seconds\n"
    "(per call, by driver), kept.  The call overwrites out, but not a.\n\n"
    "Raises the errors of gram.eigh, and ValueError if there is nothing to measure.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.tune_eigh(np.ones((0, 9, 9)))\n"
    "Traceback (most recent call last):\n"
    "ValueError: gram.tune_eigh: a has no elements: nothing can be measured\n";

PyObject *py_tune_eigh(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return decompose(module, args, nargs, kwnames, TUNE);
}

const char py_eigh_kernel_doc[] =
    "eigh_kernel" PY_TEXT_eigh_kernel
    "The largest or smallest eigenvalues, in ascending order, and eigenvectors of kernel(x,\n"
    "x, kernel, **options), which is never stored.  count is the number of pairs at one end\n"
    "of the spectrum.\n\n"
    "x is (..., n, d), and options are those of gram.kernel.  The driver is \"krylov\", which\n"
    "works as gram.eigh describes, on the CPU and on a GPU.\n\n"
    "communicator, a gram.Communicator, shares the products among its ranks: each one gives its\n"
    "rows of x, any number of them, and gets all values and its rows of the vectors.  There are\n"
    "no batches then, and every rank must make the call with the same options.\n\n"
    "Raises gram.LinAlgError if an item does not converge and info is not given, ValueError\n"
    "for shapes, dtypes and values that do not fit, and TypeError for arguments that are not\n"
    "arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.linspace(0, 1, 50)[:, None]\n"
    ">>> gram.eigh_kernel(x, kernel=\"gaussian\", count=2, vectors=False).round(2).tolist()\n"
    "[3.73, 46.13]\n";

PY_WITH_WORKSPACE(py_eigh_kernel, decompose_kernel)

/* ---- Operators ------------------------------------------------------------------------------- */

enum {
    O_A,
    O_LIKE,
    O_VECTORS,
    O_SELECT,
    O_COUNT,
    O_TOLERANCE,
    O_PRODUCTS,
    O_SEED,
    O_REPORT,
    O_INFO,
    O_OUT,
    O_WORDS
};

static const unsigned char operator_words[] = {PY_a,      PY_like,      PY_vectors,  PY_select,
                                               PY_count,  PY_tolerance, PY_products, PY_seed,
                                               PY_report, PY_info,      PY_out};
static const struct py_signature of_operator = {"gram.eigh_operator", operator_words, O_WORDS, 2,
                                                2};

const char py_eigh_operator_doc[] =
    "eigh_operator" PY_TEXT_eigh_operator
    "The largest or smallest eigenvalues, in ascending order, and eigenvectors of a symmetric\n"
    "matrix A that is known by its products: (values, vectors), or only the values with\n"
    "vectors=False.  count is the number of pairs at one end of the spectrum.\n\n"
    "a is a function that is given v (n, k), k at most 8, and returns A v, (n, k) of the same\n"
    "dtype; or an object with a product a @ v, such as a sparse matrix.  like is an array (n,) or\n"
    "(n, c) of float32 or float64: v has its n, its dtype, its library and its device, as have\n"
    "the results.  Its elements are not used.  select is \"largest\" or \"smallest\"; tolerance,\n"
    "products (0: 1000), seed, report, info (one int32) and out are those of gram.eigh with the\n"
    "driver \"krylov\".\n\n"
    "What the function raises ends the call.  Raises gram.LinAlgError if a pair does not converge\n"
    "or a product is nan, and info is not given; ValueError for shapes, dtypes and values that do\n"
    "not fit.\n\n"
    "Source: Wu and Simon, Thick-restart Lanczos, SIAM J. Matrix Anal. Appl. 22, 2000.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> d = np.arange(1.0, 1001.0)[:, None]\n"
    ">>> values, vectors = gram.eigh_operator(lambda v: d * v, np.empty(1000), count=2)\n"
    ">>> values.round(6).tolist(), vectors.shape\n"
    "([999.0, 1000.0], (1000, 2))\n";

/* The arguments in the places of those of eigh. */
static int read_operator(PyObject *const *v, PyObject *o[OPTIONS], struct request *r)
{
    for (int i = 0; i < OPTIONS; i++)
        o[i] = NULL;
    o[VECTORS] = v[O_VECTORS];
    o[SELECT] = v[O_SELECT];
    o[COUNT_OF] = v[O_COUNT];
    o[TOLERANCE] = v[O_TOLERANCE];
    o[PRODUCTS] = v[O_PRODUCTS];
    o[SEED] = v[O_SEED];
    o[REPORT] = v[O_REPORT];
    o[INFO] = v[O_INFO];
    o[OUT] = v[O_OUT];
    return read_options(o, r, GRAM_EIGH_LARGEST);
}

PyObject *py_eigh_operator(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    struct request r = {of_operator.name, GRAM_EIGH_OPTIONS_INIT, .vectors = true};
    struct py_state *state = py_state_of(module);
    struct py_shape shape = {0};
    PyThreadState *saved;
    struct py_operator a;
    struct py_call call;
    PyObject *v[O_WORDS], *o[OPTIONS];
    const gram_tensor *like;
    gram_status status;
    int64_t n;

    if (py_parse(state, &of_operator, args, nargs, kwnames, v) || read_operator(v, o, &r) ||
        py_open(&call, state, of_operator.name))
        return NULL;
    like = py_operator_like(&call, v[O_LIKE]);
    if (!like)
        return py_fail(&call);
    shape.dtype = like->dtype;
    n = like->shape[0];
    if (make_outputs(&call, o, shape, n, &r) ||
        py_operator_of(&a, &call, "a", v[O_A], &saved, &call.array[0], n))
        return py_fail(&call);
    PY_OPERATOR_WORK(
        saved, status,
        gram_eigh_operator(call.g, &a.given, &r.options, r.values, r.to_vectors, r.info));
    return end(&call, o, &r, status);
}
