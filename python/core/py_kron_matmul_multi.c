/*
 * py_kron_matmul_multi.c - gram.kron_matmul_multi: a product with a Kronecker product by several
 * ranks, and gram.kron_matmul_part, the part of each rank
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    FACTORS,
    COMMUNICATOR,
    SIDE,
    SPLIT,
    ALPHA,
    BETA,
    Z,
    OUT,
    COUNT
};

static const unsigned char words[] = {
    PY_x, PY_factors, PY_communicator, PY_side, PY_split, PY_alpha, PY_beta, PY_z, PY_out};
static const struct py_signature signature = {"gram.kron_matmul_multi", words, COUNT, 3, 3};

static const char *const splits[] = {"rows", "columns", "auto", NULL}; /* gram_kron_split */
static const char *const ways[] = {"rows", "columns", NULL};

struct product {
    gram_tensor *x, *out;
    struct py_factors factors;
    gram_kron_options options;
};

static int read_split(const char *function, PyObject *value, const char *const *names,
                      gram_kron_split *out)
{
    int choice = *out;

    if (py_given(value) && py_choice(function, "split", value, names, &choice))
        return -1;
    *out = (gram_kron_split)choice;
    return 0;
}

/* The number of elements of a row of y (on the left: of a column) that this rank has. */
static int size_out(struct py_call *call, const struct product *m, int64_t *out)
{
    gram_kron_part part = {.outs = 0};
    gram_status status;

    if (m->options.split != GRAM_KRON_SPLIT_COLUMNS)
        return 0;
    status = gram_kron_matmul_part(call->g, 0, (const gram_tensor *const *)m->factors.at,
                                   m->factors.count, &m->options, &part);
    if (status != GRAM_OK)
        py_raise(call->state, call->g, status);
    *out = part.outs;
    return status == GRAM_OK ? 0 : -1;
}

/* Views all inputs and creates the output.  The caller releases py_factors.list in any case. */
static int prepare(struct py_call *call, PyObject *const *v, struct product *m)
{
    struct py_shape shape = {0};
    int64_t rows, cols;
    bool left;

    if (py_side(call->function, v[SIDE], &m->options.side) ||
        read_split(call->function, v[SPLIT], ways, &m->options.split) ||
        !(m->x = py_raw_input(call, "x", v[X])) || py_factors(call, v[FACTORS], &m->factors) ||
        py_scalar(call, "alpha", v[ALPHA], &m->options.alpha) ||
        py_scalar(call, "beta", v[BETA], &m->options.beta) ||
        (py_given(v[Z]) && !(m->options.z = py_raw_input(call, "z", v[Z]))) || py_place(call))
        return -1;
    left = m->options.side == GRAM_LEFT;
    py_factors_shape(&m->factors, &shape, &rows, &cols);
    if (size_out(call, m, left ? &rows : &cols))
        return -1;
    shape.dtype = m->x->dtype;
    py_batch(&shape, m->x, 2);
    if (m->options.z)
        py_batch(&shape, m->options.z, 2);
    if (left)
        py_append(&shape, rows);
    py_append(&shape, m->x->ndim >= 2 ? m->x->shape[m->x->ndim - (left ? 1 : 2)] : 0);
    if (!left)
        py_append(&shape, cols);
    m->out = py_output(call, "out", v[OUT], &shape);
    return m->out ? 0 : -1;
}

static gram_status work(const struct py_call *call, const struct product *m,
                        const struct py_communicator *ranks, gram_context *g)
{
    gram_status status = gram_kron_matmul_multi(g, m->x, (const gram_tensor *const *)m->factors.at,
                                                m->factors.count, &m->options, m->out);

    return py_communicator_done(call, ranks, g, status);
}

static PyObject *multiply(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    struct product m = {.options = GRAM_KRON_OPTIONS_INIT};
    struct py_communicator *ranks;
    gram_status status = GRAM_OK;
    gram_context *g = NULL;
    struct py_call call;
    PyObject *v[COUNT];
    bool ready;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    ranks = py_communicator_take(call.state, call.function, v[COMMUNICATOR]);
    if (!ranks)
        return py_fail(&call);
    call.query = query;
    m.options.communicator = ranks->c;
    ready = prepare(&call, v, &m) == 0 && py_communicator_context(&call, ranks, &g) == 0;
    if (ready && query)
        status = gram_kron_matmul_multi_workspace(g, m.x, (const gram_tensor *const *)m.factors.at,
                                                  m.factors.count, &m.options, m.out, &call.need);
    else if (ready)
        PY_WORK(status, work(&call, &m, ranks, g));
    else if (!query)
        py_communicator_fail(ranks);
    ranks->busy = false;
    ready = py_communicator_ended(&call, g, ready, status);
    return py_factors_end(&call, &m.factors, ready, status);
}

const char py_kron_matmul_multi_doc[] =
    "kron_matmul_multi" PY_TEXT_kron_matmul_multi
    "kron_matmul, computed by all ranks of a gram.Communicator.  Each rank calls it with its\n"
    "part of x and z and with all factors, and gets its part of the result.\n\n"
    "split=\"rows\": each rank has any number of rows of x (side=\"left\": columns).  No data\n"
    "are exchanged, and any dtype will do.  split=\"columns\": each rank has all rows, and\n"
    "the columns that kron_matmul_part returns (side=\"left\": the rows).  There are two\n"
    "exchanges, and the dtypes are float32, float64, int32 and int64.  Arrays on CPUs are\n"
    "exchanged over MPI, and arrays on GPUs over NCCL; split=\"rows\" works over either.\n\n"
    "Raises ValueError, MemoryError or RuntimeError on all ranks if one of them fails, and\n"
    "names that rank.  Every rank must make the call.  The formula, shapes, dtypes and other\n"
    "errors are the same as gram.kron_matmul has.  After Jangda and Yadav, PPoPP 2024.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> factors = [np.array([[1.0], [2.0]]), np.eye(2)]\n"
    ">>> try:\n"
    "...     with gram.Communicator() as ranks:  # under mpirun: all of its processes\n"
    "...         part = gram.kron_matmul_part(1, factors, ranks)\n"
    "...         x = np.ones((1, 4))[part.rows, part.columns]\n"
    "...         y = gram.kron_matmul_multi(x, factors, ranks, split=part.split)\n"
    "... except NotImplementedError:  # built without MPI\n"
    "...     y = np.array([[3.0, 3.0]])\n"
    ">>> y.tolist()\n"
    "[[3.0, 3.0]]\n";

PY_WITH_WORKSPACE(py_kron_matmul_multi, multiply)

/* ---- Parts ----------------------------------------------------------------------------------- */

enum {
    P_ROWS,
    P_FACTORS,
    P_COMMUNICATOR,
    P_SIDE,
    P_SPLIT,
    P_COUNT
};

static const unsigned char part_words[] = {PY_rows, PY_factors, PY_communicator, PY_side, PY_split};
static const struct py_signature part_signature = {"gram.kron_matmul_part", part_words, P_COUNT, 3,
                                                   3};

static PyObject *slice_of(int64_t first, int64_t count)
{
    PyObject *start = PyLong_FromLongLong(first), *stop = PyLong_FromLongLong(first + count);
    PyObject *slice = start && stop ? PySlice_New(start, stop, NULL) : NULL;

    Py_XDECREF(start);
    Py_XDECREF(stop);
    return slice;
}

static PyObject *describe(struct py_state *state, const gram_kron_part *part)
{
    PyObject *make = py_helper(state, "KronPart"), *result = NULL;
    PyObject *rows = slice_of(part->first_row, part->rows);
    PyObject *columns = slice_of(part->first_column, part->columns);
    PyObject *outs = slice_of(part->first_out, part->outs);

    if (make && rows && columns && outs)
        result = PyObject_CallFunction(make, "sOOO", splits[part->split], rows, columns, outs);
    Py_XDECREF(make);
    Py_XDECREF(rows);
    Py_XDECREF(columns);
    Py_XDECREF(outs);
    return result;
}

const char py_kron_matmul_part_doc[] =
    "kron_matmul_part(rows, factors, communicator, *, side=\"right\", split=\"auto\")\n--\n\n"
    "The part of x and of the result, which have `rows` rows in total, for this rank.  It is\n"
    "a tuple of split (\"rows\" or \"columns\") and the slices rows, columns (of x) and outs\n"
    "(the columns of the result).  With side=\"left\", rows stand for columns and columns for\n"
    "rows.\n\n"
    "split=\"auto\" splits by rows, unless the largest share of a rank is more than 1.25\n"
    "times the average, as with fewer rows than ranks.  The call does not communicate.\n\n"
    "factors are matrices (..., p, q) with the dtype and on the device of the planned call;\n"
    "their data are not read.  Raises ValueError for a split by columns with a dtype that\n"
    "cannot be exchanged.  Other errors are the same as gram.kron_matmul_multi has.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> try:\n"
    "...     with gram.Communicator() as ranks:\n"
    "...         part = gram.kron_matmul_part(10, [np.eye(2), np.ones((2, 3))], ranks)\n"
    "...     print(part.split, part.rows.stop, part.columns.stop, part.outs.stop)\n"
    "... except NotImplementedError:  # built without MPI\n"
    "...     print(\"rows 10 4 6\")\n"
    "rows 10 4 6\n";

PY_FUNCTION(py_kron_matmul_part)
{
    gram_kron_options options = GRAM_KRON_OPTIONS_INIT;
    gram_kron_part part = {.outs = 0};
    struct py_factors factors = {0};
    struct py_communicator *ranks = NULL;
    PyObject *v[P_COUNT], *result = NULL;
    struct py_call call;
    int64_t rows = 0;
    gram_status status;

    if (py_begin(&call, module, &part_signature, args, nargs, kwnames, v))
        return NULL;
    options.split = GRAM_KRON_SPLIT_AUTO;
    if (!py_int64(call.function, "rows", v[P_ROWS], &rows) &&
        !py_side(call.function, v[P_SIDE], &options.side) &&
        !read_split(call.function, v[P_SPLIT], splits, &options.split) &&
        !py_factors(&call, v[P_FACTORS], &factors))
        ranks = py_communicator_take(call.state, call.function, v[P_COMMUNICATOR]);
    if (ranks) {
        options.communicator = ranks->c;
        status = gram_kron_matmul_part(call.g, rows, (const gram_tensor *const *)factors.at,
                                       factors.count, &options, &part);
        ranks->busy = false;
        if (status == GRAM_OK)
            result = describe(call.state, &part);
        else
            py_raise(call.state, call.g, status);
    }
    if (!result) /* releases everything, with the exception that there is */
        return py_factors_end(&call, &factors, false, GRAM_OK);
    py_factors_end(&call, &factors, false, GRAM_OK);
    return result;
}
