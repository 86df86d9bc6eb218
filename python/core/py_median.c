/*
 * py_median.c - gram.median_distance
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    P,
    ROOT,
    ROWS,
    SEED,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_x, PY_p, PY_root, PY_rows, PY_seed, PY_out};
static const struct py_signature signature = {"gram.median_distance", words, COUNT, 2, 1};

static int read_options(PyObject *const *v, gram_median_options *options)
{
    int64_t seed = 0;
    bool root = true;

    if (py_bool(signature.name, "root", v[ROOT], &root) ||
        py_int64(signature.name, "rows", v[ROWS], &options->rows) ||
        py_int64(signature.name, "seed", v[SEED], &seed))
        return -1;
    options->no_root = !root;
    options->seed = (uint64_t)seed;
    return 0;
}

static PyObject *median(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    gram_median_options options = GRAM_MEDIAN_OPTIONS_INIT;
    gram_scalar p = gram_number(2);
    struct py_shape shape = {0};
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *x, *out;
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) || read_options(v, &options) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    x = py_input(&call, "x", v[X]);
    if (!x || py_scalar(&call, "p", v[P], &p) || py_place(&call))
        return py_fail(&call);
    shape.dtype = x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    py_batch(&shape, x, 2);
    if (p.tensor)
        py_batch(&shape, p.tensor, 0);
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status = gram_median_distance_workspace(call.g, x, p, &options, out, &call.need);
    else
        PY_WORK(status, gram_median_distance(call.g, x, p, &options, out));
    return py_end(&call, status);
}

const char py_median_distance_doc[] =
    "median_distance" PY_TEXT_median_distance
    "The median distance between the rows of x, which is the usual first guess for a\n"
    "bandwidth.\n\n"
    "x is (..., m, k), of float32, float64, float16 or bfloat16.  The result has the shape of\n"
    "the batch (no dimension for one matrix).  The median is that of a sample of at most\n"
    "`rows` rows, drawn with seed.  p and root are as in cdist.  Fewer than two rows give\n"
    "nan, and distances that are nan are left out.\n\n"
    "Raises ValueError for shapes, dtypes or p that do not fit, and TypeError for arguments\n"
    "that are not arrays.  After Garreau, Jitkrittum and Kanagawa, Large sample analysis of\n"
    "the median heuristic, 2017.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> float(gram.median_distance(np.array([[0.0], [1.0], [3.0]])))\n"
    "2.0\n";

PY_WITH_WORKSPACE(py_median_distance, median)
