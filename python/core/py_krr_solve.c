/*
 * py_krr_solve.c - gram.krr_solve: certified solves of kernel ridge regression
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"
#include "py_signatures.h"
#include "py_waiting.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { /* after the points, the targets at the place of y, and the kernel */
    RIDGE = PY_K_COUNT,
    TOLERANCE,
    HELD_OUT_RMSE,
    METHOD,
    RANK,
    PRODUCTS,
    TIME_LIMIT,
    REFINE,
    WARM_START,
    SEED,
    ROW_WEIGHTS,
    CENTRES,
    ROWS,
    MEMORY,
    CHECKPOINT,
    RESUME,
    CHECKPOINT_SECONDS,
    CHECKPOINT_ITERATIONS,
    COMMUNICATOR,
    DEVICE,
    REPORT,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_KERNEL_WORDS,
                                      PY_ridge,
                                      PY_tolerance,
                                      PY_held_out_rmse,
                                      PY_method,
                                      PY_rank,
                                      PY_products,
                                      PY_time_limit,
                                      PY_refine,
                                      PY_warm_start,
                                      PY_seed,
                                      PY_row_weights,
                                      PY_centres,
                                      PY_rows,
                                      PY_memory,
                                      PY_checkpoint,
                                      PY_resume,
                                      PY_checkpoint_seconds,
                                      PY_checkpoint_iterations,
                                      PY_communicator,
                                      PY_device,
                                      PY_report,
                                      PY_out};
static const struct py_signature signature = {"gram.krr_solve", words, COUNT, 3, 2};

/* An array on the CPU, of which the GPU of the call has a copy. */
struct lent {
    gram_tensor *tensor, home; /* what the library is given; what the caller has */
    size_t bytes;
};

/* Rows that a function of Python reads, and what it has raised; or those of an Arrow stream. */
struct source {
    PyObject *read; /* or NULL: there are none, or they are a stream's */
    gram_rows rows;
    PyObject *raised[3];
};

struct request {
    struct py_call call;
    struct source source;
    struct py_kernel kernel;
    gram_krr_options options;
    gram_krr_report report;
    gram_tensor *x, *y, *alpha, *centres, *chosen;
    PyObject *path; /* bytes, of the checkpoint; or NULL */
    gram_device asked;
    struct py_communicator *ranks; /* or NULL */
    gram_context *g;               /* of the solve: the call's, or that of the ranks */
    struct lent lent[PY_MOST_ARRAYS];
    int lent_count;
};

/* ---- Arguments ----------------------------------------------------------------------------- */

/* None is the default. */
static int read_double(const char *name, PyObject *value, double *out)
{
    return py_given(value) ? py_double(signature.name, name, value, out) : 0;
}

static int read_int64(const char *name, PyObject *value, int64_t *out)
{
    return py_given(value) ? py_int64(signature.name, name, value, out) : 0;
}

static int read_limits(PyObject *const *v, struct request *r)
{
    gram_krr_options *o = &r->options;
    int64_t rank = 0, seed = 0;

    if (!py_given(v[RIDGE])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument 'ridge'", signature.name);
        return -1;
    }
    if (py_double(signature.name, "ridge", v[RIDGE], &o->ridge) ||
        read_double("tolerance", v[TOLERANCE], &o->tolerance) ||
        read_double("held_out_rmse", v[HELD_OUT_RMSE], &o->held_out_rmse) ||
        read_int64("rank", v[RANK], &rank) || read_int64("products", v[PRODUCTS], &o->products) ||
        read_double("time_limit", v[TIME_LIMIT], &o->time_limit) ||
        read_int64("seed", v[SEED], &seed) || read_int64("memory", v[MEMORY], &o->memory))
        return -1;
    if (rank < 0) {
        PyErr_Format(PyExc_ValueError, "%s: rank is %R, expected 0 or more", signature.name,
                     v[RANK]);
        return -1;
    }
    o->rank = py_given(v[RANK]) && rank == 0 ? -1 : rank;
    o->seed = (uint64_t)seed;
    return 0;
}

static int read_checkpoint(PyObject *const *v, struct request *r)
{
    gram_krr_options *o = &r->options;
    bool resume = false;

    if (py_bool(signature.name, "resume", v[RESUME], &resume) ||
        read_double("checkpoint_seconds", v[CHECKPOINT_SECONDS], &o->checkpoint_seconds) ||
        read_int64("checkpoint_iterations", v[CHECKPOINT_ITERATIONS], &o->checkpoint_iterations))
        return -1;
    o->resume = resume;
    if (!py_given(v[CHECKPOINT]))
        return 0;
    if (!PyUnicode_FSConverter(v[CHECKPOINT], &r->path))
        return -1;
    o->checkpoint = PyBytes_AsString(r->path);
    return o->checkpoint ? 0 : -1;
}

static int read_choices(PyObject *const *v, struct request *r)
{
    static const char *const methods[] = {"auto", "cholesky", "cg", "centres", "blocks", NULL};
    int method = GRAM_KRR_AUTO;
    bool refine = false, warm_start = false;

    if (py_choice(signature.name, "method", v[METHOD], methods, &method) ||
        py_bool(signature.name, "refine", v[REFINE], &refine) ||
        py_bool(signature.name, "warm_start", v[WARM_START], &warm_start) ||
        py_device(signature.name, v[DEVICE], &r->asked))
        return -1;
    if (warm_start && !py_given(v[OUT])) {
        PyErr_Format(PyExc_TypeError, "%s: warm_start is True without out, the first guess",
                     signature.name);
        return -1;
    }
    if (py_report_dict(signature.name, v[REPORT]))
        return -1;
    if (py_given(v[CENTRES]) && PyLong_Check(v[CENTRES])) {
        if (py_int64(signature.name, "centres", v[CENTRES], &r->options.centre_count))
            return -1;
        if (r->options.centre_count < 1) {
            PyErr_Format(PyExc_ValueError, "%s: centres is %R, expected 1 or more, or points",
                         signature.name, v[CENTRES]);
            return -1;
        }
    }
    r->options.method = (gram_krr_method)method;
    r->options.refine = refine;
    r->options.warm_start = warm_start;
    return 0;
}

/* Of the rows, on the thread that works: memory is only lent. */
static int read_block(struct source *s, int64_t first, int64_t count, void *out)
{
    const int64_t bytes = count * s->rows.columns * (int64_t)gram_dtype_size(s->rows.dtype);
    PyObject *memory, *done = NULL, *released;

    memory = PyMemoryView_FromMemory(out, (Py_ssize_t)bytes, PyBUF_WRITE);
    if (!memory)
        return -1;
    done = PyObject_CallFunction(s->read, "LLO", (long long)first, (long long)count, memory);
    if (done) {
        released = PyObject_CallMethod(memory, "release", NULL);
        Py_XDECREF(done);
        done = released;
    }
    Py_DECREF(memory);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int read_rows(void *user, int64_t first, int64_t count, void *out,
                     char message[GRAM_ROWS_MESSAGE])
{
    struct source *s = user;
    PyGILState_STATE lock = PyGILState_Ensure();
    int failed = read_block(s, first, count, out);

    if (failed) {
        (void)snprintf(message, GRAM_ROWS_MESSAGE, "the function has raised an exception");
        PyErr_Fetch(&s->raised[0], &s->raised[1], &s->raised[2]);
    }
    PyGILState_Release(lock);
    return failed;
}

/* Rows of what gives an Arrow stream: tables of pyarrow and polars, readers of batches. */
static int open_stream(struct request *r, PyObject *rows)
{
    struct source *s = &r->source;
    const long long count = r->y->ndim > 0 ? r->y->shape[0] : 0;
    PyObject *capsule = PyObject_CallMethod(rows, "__arrow_c_stream__", NULL);
    void *stream = capsule ? PyCapsule_GetPointer(capsule, "arrow_array_stream") : NULL;
    gram_status status;

    s->rows = (gram_rows)GRAM_ROWS_INIT;
    if (!stream) {
        Py_XDECREF(capsule);
        return -1;
    }
    status = gram_rows_from_arrow(r->call.g, stream, r->y->dtype, &s->rows);
    Py_DECREF(capsule);
    if (status != GRAM_OK) {
        py_raise(r->call.state, r->call.g, status);
        return -1;
    }
    r->options.rows = &s->rows;
    if (s->rows.rows == count)
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: rows has %lld rows, expected %lld as y", signature.name,
                 (long long)s->rows.rows, count);
    return -1;
}

/* options.rows of the argument, of the dtype of y. */
static int open_rows(struct request *r, PyObject *rows)
{
    struct source *s = &r->source;
    PyObject *function = py_helper(r->call.state, "open_rows"), *made = NULL;
    long long count = r->y->ndim > 0 ? r->y->shape[0] : 0, columns = 0;

    if (function)
        made = PyObject_CallFunction(function, "sOsL", signature.name, rows,
                                     py_dtype_name(r->y->dtype), count);
    Py_XDECREF(function);
    if (!made || !PyArg_ParseTuple(made, "LLO", &count, &columns, &s->read)) {
        Py_XDECREF(made);
        s->read = NULL;
        return -1;
    }
    Py_INCREF(s->read);
    Py_DECREF(made);
    s->rows = (gram_rows)GRAM_ROWS_INIT;
    s->rows.rows = count;
    s->rows.columns = columns;
    s->rows.dtype = r->y->dtype;
    s->rows.read = read_rows;
    s->rows.user = s;
    r->options.rows = &s->rows;
    return 0;
}

/* x, or the rows in its place, and y. */
static int read_points(struct request *r, PyObject *const *v)
{
    const bool by_rows = py_given(v[ROWS]);

    if (by_rows && py_given(v[0])) {
        PyErr_Format(PyExc_TypeError, "%s: x and rows are given, expected None for x",
                     signature.name);
        return -1;
    }
    if (!by_rows && !(r->x = py_input(&r->call, "x", v[0])))
        return -1;
    r->y = py_input(&r->call, "y", v[1]);
    if (!r->y)
        return -1;
    if (!by_rows)
        return 0;
    return PyObject_HasAttrString(v[ROWS], "__arrow_c_stream__") ? open_stream(r, v[ROWS])
                                                                 : open_rows(r, v[ROWS]);
}

/* Views all arrays, and makes alpha, which has the shape of y and is on its device. */
static int read_arrays(struct request *r, PyObject *const *v)
{
    struct py_call *call = &r->call;
    struct py_shape shape = {.ndim = 0};
    gram_tensor *weights = NULL;
    gram_device place;

    if (read_points(r, v))
        return -1;
    if (py_given(v[CENTRES]) && r->options.centre_count == 0 &&
        !(r->centres = py_input(call, "centres", v[CENTRES])))
        return -1;
    if ((py_given(v[ROW_WEIGHTS]) && !(weights = py_input(call, "row_weights", v[ROW_WEIGHTS]))) ||
        py_kernel_options(call, v, &r->kernel) ||
        (py_given(v[DEVICE]) ? py_place_most(call, r->asked) : py_place(call)))
        return -1;
    r->options.weights = weights;
    r->options.centres = r->centres;
    shape.dtype = r->options.refine ? GRAM_F64 : r->y->dtype;
    for (int i = 0; i < r->y->ndim; i++)
        py_append(&shape, r->y->shape[i]);
    if (r->y->ndim > 0 && py_given(v[CENTRES]))
        shape.size[0] = r->centres ? r->centres->shape[0] : r->options.centre_count;
    place = call->device;
    call->device = r->x ? r->x->device : r->y->device;
    r->alpha = py_output(call, "out", v[OUT], &shape);
    if (r->alpha && r->options.centre_count > 0) {
        struct py_shape numbers = {.dtype = GRAM_I64};

        py_append(&numbers, r->options.centre_count);
        r->chosen = r->options.chosen = py_output(call, "centres", NULL, &numbers);
    }
    call->device = place;
    return r->alpha && (r->options.centre_count == 0 || r->chosen) ? 0 : -1;
}

/* ---- Arrays of the CPU on a GPU -------------------------------------------------------------- */

static int64_t elements(const gram_tensor *t)
{
    int64_t count = 1;

    for (int d = 0; d < t->ndim; d++)
        count *= t->shape[d];
    return count;
}

/* Copies between a tensor of any strides and a row-major array, on the CPU. */
static void pack(const gram_tensor *t, char *packed, bool back)
{
    size_t size = gram_dtype_size(t->dtype);
    int64_t at[GRAM_MAX_DIMS] = {0}, count = elements(t);
    char *one = t->data;

    for (int64_t i = 0; i < count; i++, packed += size) {
        memcpy(back ? one : packed, back ? packed : one, size);
        for (int d = t->ndim - 1; d >= 0; d--) {
            one += t->stride[d] * (int64_t)size;
            if (++at[d] < t->shape[d])
                break;
            one -= t->stride[d] * t->shape[d] * (int64_t)size;
            at[d] = 0;
        }
    }
}

static bool is_row_major(const gram_tensor *t)
{
    int64_t stride = 1;

    for (int d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] > 1 && t->stride[d] != stride)
            return false;
        stride *= t->shape[d] > 1 ? t->shape[d] : 1;
    }
    return true;
}

/* Moves bytes to the GPU, or back, and waits for them. */
static gram_status move(gram_context *g, const struct lent *l, bool back)
{
    void *there = l->tensor->data, *here = l->home.data, *packed = NULL;
    gram_status status;

    if (!is_row_major(&l->home)) {
        here = packed = malloc(l->bytes ? l->bytes : 1);
        if (!packed)
            return GRAM_OUT_OF_MEMORY;
        if (!back)
            pack(&l->home, packed, false);
    }
    status = gram_memory_copy(g, back ? here : there, back ? there : here, l->bytes);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g);
    if (status == GRAM_OK && back && packed)
        pack(&l->home, packed, true);
    free(packed);
    return status;
}

/* Gives the GPU of the call a copy of each array of the CPU. */
static gram_status lend(struct request *r)
{
    struct py_call *call = &r->call;
    gram_status status = GRAM_OK;

    for (int i = 0; i < call->count && call->device.type != GRAM_CPU && status == GRAM_OK; i++) {
        gram_tensor *t = &call->array[i].tensor;
        struct lent *l = &r->lent[r->lent_count];
        int64_t stride = 1;

        if (t->device.type != GRAM_CPU)
            continue;
        *l = (struct lent){t, *t, (size_t)elements(t) * gram_dtype_size(t->dtype)};
        status = gram_memory_allocate(call->g, l->bytes, &t->data);
        if (status != GRAM_OK) {
            t->data = l->home.data;
            break;
        }
        t->device = call->device;
        for (int d = t->ndim - 1; d >= 0; stride *= t->shape[d] > 1 ? t->shape[d] : 1, d--)
            t->stride[d] = stride;
        r->lent_count++;
        status = move(call->g, l, false);
    }
    return status;
}

static void take_back(struct request *r)
{
    while (r->lent_count > 0) {
        const struct lent *l = &r->lent[--r->lent_count];
        gram_memory_free(r->call.g, l->tensor->data, l->bytes);
        *l->tensor = l->home;
    }
}

/* ---- The work -------------------------------------------------------------------------------- */

static gram_status work(void *argument)
{
    struct request *r = argument;
    gram_status status = lend(r), copied = GRAM_OK;

    if (status == GRAM_OK)
        status = gram_krr_solve(r->g, r->x, &r->kernel.options, r->y, &r->options, r->alpha);
    else if (r->ranks) /* which wait for this one */
        status = gram_communicator_agree(r->ranks->context.g, r->ranks->c, status);
    if (r->ranks && status != GRAM_NUMERICAL)
        status = py_communicator_done(&r->call, r->ranks, r->g, status);
    for (int i = 0; i < r->lent_count; i++)
        if ((r->lent[i].tensor == r->alpha || r->lent[i].tensor == r->chosen) &&
            copied == GRAM_OK && (status == GRAM_OK || status == GRAM_NUMERICAL))
            copied = move(r->call.g, &r->lent[i], true);
    take_back(r);
    return copied == GRAM_OK ? status : copied;
}

/* Writes the report into the caller's dict. */
static int tell(PyObject *dict, const gram_krr_report *report)
{
    static const char *const methods[] = {"auto", "cholesky", "cg", "centres", "blocks"};
    static const char *const ends[] = {"reached", "rounding", "products", "time", "indefinite"};
    PyObject *items = Py_BuildValue(
        "{s:s,s:O,s:s,s:L,s:L,s:d,s:d,s:d,s:d,s:d,s:d}", "method", methods[report->method],
        "reached", report->reached ? Py_True : Py_False, "end", ends[report->end], "rank",
        (long long)report->rank, "products", (long long)report->products, "residual",
        report->residual, "residual_rms", report->residual_rms, "prediction_rms",
        report->prediction_rms, "prediction_sup", report->prediction_sup, "seconds",
        report->seconds, "floor", report->floor);

    return py_tell(dict, items);
}

const char py_krr_solve_doc[] =
    "krr_solve" PY_TEXT_krr_solve
    "The alpha of kernel ridge regression, with a certificate of how wrong it is:\n"
    "(kernel(x, x, kernel, **options) + diag(ridge / row_weights)) alpha = y.\n\n"
    "x is (n, d), y is (n, c) or (n,), and alpha has the shape of y; all are float32 or\n"
    "float64.  Predictions at z are kernel_matmul(z, x, kernel, v=alpha, **options).  kernel\n"
    "and its options are those of gram.kernel, and must give a positive definite matrix; their\n"
    "weights are those of the metric.  row_weights (n,), above 0, are those of the rows.\n\n"
    "method=\"cholesky\" stores the matrix in float64.  \"cg\" stores none: conjugate gradients\n"
    "with products as of gram.kernel_matmul, and a randomly pivoted Cholesky preconditioner of\n"
    "rank columns (None: by n, and more while it iterates, where a count of operations says\n"
    "that they pay, up to memory bytes, by default a quarter of what is there; 0: without),\n"
    "n * rank numbers of memory.  \"auto\" takes the former up to 6,000 rows, or 16,000 on a\n"
    "GPU.  \"blocks\" solves for some rows after the others, while time_limit lasts: an answer is\n"
    "there early, but \"cg\" is quicker to a small residual.\n\n"
    "The call ends when the relative residual of every column is at most tolerance (None:\n"
    "0.01); with held_out_rmse, the root mean squared error of predictions on rows that were\n"
    "held out, when predictions would change by at most tolerance (None: 0.03) times as much.\n"
    "It ends too after so many products (None: 1000) or after time_limit seconds.\n"
    "refine=True repeats float32 iterations for residuals in float64, with alpha in float64,\n"
    "as a small ridge wants it.  With warm_start=True, out\n"
    "holds a first guess.\n\n"
    "With centres, points (m, d), or a number of rows of x that are drawn, alpha is (m, c) or\n"
    "(m,), and predicts kernel_matmul(z, points, v=alpha).  It minimizes the weighted sum of\n"
    "squared errors plus ridge times the square of the norm of the function, which approaches\n"
    "the answer without centres as m grows.  The time is that of 2 n m elements a step, the\n"
    "memory 5 m^2 numbers.  With a number of rows the result is (alpha, rows).\n\n"
    "With rows, x is None, and the points, which may be more than the memory holds, are read in\n"
    "blocks: with centres once for each two products; without, by \"cg\", which \"auto\" is then,\n"
    "about b / 2 times for each product, b blocks of memory / 8 bytes (None: 64 MiB) in f64 being\n"
    "all rows.  y is of the dtype to compute in.\n"
    "rows is the path of a .npy file, which is mapped; an object with shape, dtype and slices of\n"
    "NumPy arrays, as numpy.memmap and the data sets of h5py and zarr are; what has\n"
    "__arrow_c_stream__, as tables of pyarrow and polars, with columns of numbers without nulls,\n"
    "whose batches stay where they are; or a function whose results are iterators of blocks of\n"
    "rows, in the same order each time.  Numbers that y's dtype can hold are converted.  The\n"
    "function is called on another thread, and what it raises is raised here.\n\n"
    "checkpoint, a path, is a file with the state of \"cg\", \"centres\" or \"blocks\", written\n"
    "every checkpoint_seconds or checkpoint_iterations (None: 60 seconds; of \"blocks\": blocks),\n"
    "at Ctrl-C, at a limit and at the end: aside, flushed and renamed.  resume=True goes on from\n"
    "it, if it is there, by the steps of a call that was never interrupted.  One of other data,\n"
    "kernel, ridge or method, and one that is damaged, raises ValueError; one that cannot be\n"
    "written raises OSError.\n\n"
    "report, a dict, receives method, reached, end (\"reached\", \"rounding\", \"products\",\n"
    "\"time\" or \"indefinite\"), rank, products, seconds and, computed afresh in float64 for the\n"
    "alpha that is returned, residual (the largest |r| / |y| of a column), residual_rms\n"
    "(|r| / sqrt(n)) and two bounds of what the exact alpha would change: prediction_rms, the\n"
    "root mean square of predictions at x, and prediction_sup, that at any point.\n\n"
    "communicator, a gram.Communicator, shares the products among its ranks: each one gives its\n"
    "rows of x, y and row_weights, any number of them, and gets its rows of alpha and the same\n"
    "report.  Every rank must make the call, and holds all rows and the preconditioner.  There\n"
    "are no centres, rows and checkpoint then, and an error on one rank is raised on all.\n\n"
    "device, as \"cuda\", copies arrays of the CPU to a GPU for the call; else it computes\n"
    "where they are.  Ctrl-C ends the call.\n\n"
    "Raises gram.LinAlgError if the tolerance is not reached and report is not given: with\n"
    "report, the best alpha is returned, and report[\"reached\"] is False.  A given out holds it\n"
    "in both cases.  Raises ValueError for shapes, dtypes and values that do not fit, among\n"
    "them nan, and TypeError for arguments that are not arrays.  After Diaz, Epperly,\n"
    "Frangella, Tropp and Webber, arXiv:2304.12465, and Rudi, Carratino and Rosasco,\n"
    "arXiv:1705.10958.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.linspace(0, 6, 300)[:, None]\n"
    ">>> y, told = np.sin(x[:, 0]), {}\n"
    ">>> alpha = gram.krr_solve(x, y, \"gaussian\", ridge=1e-3, method=\"cg\", report=told)\n"
    ">>> told[\"reached\"], told[\"residual\"] <= 0.01\n"
    "(True, True)\n"
    ">>> gram.kernel_matmul([[1.5]], x, \"gaussian\", v=alpha).round(2).tolist()\n"
    "[1.0]\n";

/* Alone, or with the ranks of a communicator, which wait for each other. */
static int solve_together(struct request *r, PyObject *const *v, gram_status *status)
{
    bool ready;

    if (!py_given(v[COMMUNICATOR])) {
        if (read_arrays(r, v))
            return -1;
        r->g = r->call.g;
        return py_call_wait(&r->call, work, r, status);
    }
    r->ranks = py_communicator_take(r->call.state, r->call.function, v[COMMUNICATOR]);
    if (!r->ranks)
        return -1;
    r->options.communicator = r->ranks->c;
    ready = read_arrays(r, v) == 0 && py_communicator_context(&r->call, r->ranks, &r->g) == 0;
    if (!ready)
        py_communicator_fail(r->ranks);
    else
        ready = py_call_wait(&r->call, work, r, status) == 0;
    r->ranks->busy = false;
    if (!ready)
        return -1;
    if (*status == GRAM_NUMERICAL && py_given(v[REPORT]))
        return 0;
    return py_communicator_ended(&r->call, r->g, ready, *status) ? 0 : -1;
}

static PyObject *solve(struct request *r, PyObject *const *v)
{
    gram_status status = GRAM_OK;

    r->options.report = &r->report;
    if (solve_together(r, v, &status))
        return py_fail(&r->call);
    if (r->source.raised[0] && status != GRAM_OK) {
        PyErr_Restore(r->source.raised[0], r->source.raised[1], r->source.raised[2]);
        memset(r->source.raised, 0, sizeof r->source.raised);
        return py_fail(&r->call);
    }
    if (py_given(v[REPORT]) && (status == GRAM_OK || status == GRAM_NUMERICAL)) {
        if (tell(v[REPORT], &r->report))
            return py_fail(&r->call);
        status = GRAM_OK;
    }
    return py_end(&r->call, status);
}

/* A producer whose batches are released here may be of Python, and wants no exception to be set. */
static void close_request(struct request *r)
{
    PyObject *raised[3];

    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    Py_XDECREF(r->path);
    Py_XDECREF(r->source.read);
    gram_rows_close(&r->source.rows);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(r->source.raised[i]);
    PyErr_Restore(raised[0], raised[1], raised[2]);
}

PyObject *py_krr_solve(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct py_state *state = py_state_of(module);
    struct request r = {.options = GRAM_KRR_OPTIONS_INIT, .report = {.size = sizeof r.report}};
    PyObject *v[COUNT], *result = NULL;

    if (!py_parse(state, &signature, args, nargs, kwnames, v) && !read_limits(v, &r) &&
        !read_choices(v, &r) && !read_checkpoint(v, &r) && !py_open(&r.call, state, signature.name))
        result = solve(&r, v);
    close_request(&r);
    return result;
}
