/*
 * py_cdist.c - gram.cdist, and the code that all functions of two sets of points share
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    Y,
    P,
    ROOT,
    OUT,
    METRIC,
    WEIGHTS,
    CONDENSED,
    BITS,
    COUNT
};

static const unsigned char words[] = {PY_x,      PY_y,       PY_p,         PY_root, PY_out,
                                      PY_metric, PY_weights, PY_condensed, PY_bits};
static const struct py_signature signature = {"gram.cdist", words, COUNT, METRIC, 1};

/* By gram_distance_kind; the names of `gram cdist --metric`. */
static const char *const metric_names[] = {
    "minkowski",  "seuclidean", "cosine",    "correlation",   "canberra",
    "braycurtis", "hamming",    "jaccard",   "jensenshannon", "kullback-leibler",
    "hellinger",  "chi2",       "haversine", "nan-euclidean", NULL,
};

gram_dtype py_pair_dtype(const gram_tensor *x)
{
    return x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
}

void py_pair_shape(struct py_shape *shape, const gram_tensor *x, const gram_tensor *y)
{
    shape->dtype = py_pair_dtype(x);
    py_append(shape, x->ndim >= 2 ? x->shape[x->ndim - 2] : 0);
    py_append(shape, y->ndim >= 2 ? y->shape[y->ndim - 2] : 0);
}

int py_pair(struct py_call *call, PyObject *const *v, struct py_pair *pair, struct py_shape *shape)
{
    pair->x = call->of_bits ? py_bytes_input(call, "x", v[0]) : py_input(call, "x", v[0]);
    pair->y = !pair->x || !py_given(v[1]) ? NULL
              : call->of_bits             ? py_bytes_input(call, "y", v[1])
                                          : py_input(call, "y", v[1]);
    if (!pair->x || (py_given(v[1]) && !pair->y) || py_promote(call))
        return -1;
    shape->dtype = py_pair_dtype(pair->x);
    py_batch(shape, pair->x, 2);
    py_batch(shape, pair->y ? pair->y : pair->x, 2);
    return 0;
}

int py_bits(struct py_call *call, PyObject *value, gram_distance *metric)
{
    if (!py_given(value))
        return 0;
    call->of_bits = true;
    if (py_int64(call->function, "bits", value, &metric->bits))
        return -1;
    if (metric->bits < 1) {
        PyErr_Format(PyExc_ValueError, "%s: bits is %lld, expected at least 1", call->function,
                     (long long)metric->bits);
        return -1;
    }
    return 0;
}

int py_metric(struct py_call *call, PyObject *name, PyObject *weights, bool has_p,
              gram_distance *metric, bool *given)
{
    int kind = GRAM_DISTANCE_MINKOWSKI;

    if (py_choice(call->function, "metric", name, metric_names, &kind))
        return -1;
    if (kind != GRAM_DISTANCE_MINKOWSKI && has_p) {
        PyErr_Format(PyExc_ValueError, "%s: p is given, but the metric %s has no such number",
                     call->function, metric_names[kind]);
        return -1;
    }
    metric->kind = (gram_distance_kind)kind;
    metric->weights = py_given(weights) ? py_input(call, "weights", weights) : NULL;
    *given = py_given(name) || metric->weights || metric->bits;
    return py_given(weights) && !metric->weights ? -1 : 0;
}

/* How the distances are measured; metric is where options point to. */
static int read_metric(struct py_call *call, PyObject *const *v, gram_distance *metric,
                       gram_cdist_options *options)
{
    bool given;

    if (py_metric(call, v[METRIC], v[WEIGHTS], v[P] != NULL, metric, &given) ||
        py_scalar(call, "p", v[P], &metric->p))
        return -1;
    if (given)
        options->metric = metric;
    return 0;
}

/* The shape behind the batch: of a matrix, or of a vector of the distances with i < j. */
static void out_shape(struct py_shape *shape, const struct py_pair *pair, bool condensed)
{
    int64_t m = pair->x->ndim >= 2 ? pair->x->shape[pair->x->ndim - 2] : 0;

    if (condensed)
        py_append(shape, m < INT64_C(1) << 31 ? m * (m - 1) / 2 : 0);
    else
        py_pair_shape(shape, pair->x, pair->y ? pair->y : pair->x);
}

static PyObject *distances(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    gram_cdist_options options = GRAM_CDIST_OPTIONS_INIT;
    gram_distance metric = GRAM_DISTANCE_INIT;
    struct py_shape shape = {0};
    struct py_pair pair;
    struct py_call call;
    PyObject *v[COUNT];
    gram_tensor *out;
    gram_status status;
    bool root = true, condensed = false;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        py_bool(signature.name, "root", v[ROOT], &root) ||
        py_bool(signature.name, "condensed", v[CONDENSED], &condensed) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    options.no_root = !root, options.condensed = condensed;
    if (py_bits(&call, v[BITS], &metric) || py_pair(&call, v, &pair, &shape) ||
        read_metric(&call, v, &metric, &options) || py_place(&call))
        return py_fail(&call);
    if (metric.p.tensor)
        py_batch(&shape, metric.p.tensor, 0);
    if (metric.weights)
        py_batch(&shape, metric.weights, 1);
    out_shape(&shape, &pair, condensed);
    out = py_output(&call, "out", v[OUT], &shape);
    if (!out)
        return py_fail(&call);
    if (query)
        status = gram_cdist_workspace(call.g, pair.x, pair.y, metric.p, &options, out, &call.need);
    else
        PY_WORK(status, gram_cdist(call.g, pair.x, pair.y, metric.p, &options, out));
    return py_end(&call, status);
}

const char py_cdist_doc[] =
    "cdist" PY_TEXT_cdist
    "Pairwise distances: out[..., i, j] = (sum_k |x[..., i, k] - y[..., j, k]|^p)^(1/p).\n\n"
    "x is (..., m, k) and y is (..., n, k).  Without y, the distances between the rows of x\n"
    "are computed, in half the time.  p is positive, 0 (the number of coordinates that\n"
    "differ) or inf (the largest difference), and may be an array that broadcasts over the\n"
    "batch.  root=False returns the sum without the power 1/p.\n\n"
    "x and y are both float32 or both float64; or both are float16 or bfloat16, and the\n"
    "result is float32.  They have any strides, and batches broadcast as in NumPy.  out, if\n"
    "given, is (..., m, n), and is returned.  For p = 2 the result is as accurate as with\n"
    "differences, also for points that are close to each other.\n\n"
    "metric is another distance than that of the p-norm, by the names of SciPy and\n"
    "scikit-learn: minkowski (with p), seuclidean (weights are the variances), cosine,\n"
    "correlation, canberra, braycurtis, hamming, jaccard (of what is not zero),\n"
    "jensenshannon, kullback-leibler (sum of x log(x / y)), hellinger (sqrt of half the sum\n"
    "of (sqrt x - sqrt y)^2), chi2 (sum of (x - y)^2 / (x + y)), haversine (latitude and\n"
    "longitude in radians) and nan-euclidean (a NaN is a missing number).  weights has one\n"
    "number >= 0 per column, by which the column counts, and may have a batch; without\n"
    "metric, the distance is the weighted p-norm.  root=False also leaves out the root of\n"
    "seuclidean, jensenshannon, hellinger and nan-euclidean.  condensed=True returns the\n"
    "distances with i < j as a vector, as scipy.spatial.distance.pdist does; y must be None.\n\n"
    "bits says that x and y are uint8 arrays of NumPy whose rows are so many bits, packed as\n"
    "np.packbits packs them, (..., m, ceil(bits / 8)); the rest of the last byte does not count.\n"
    "metric is then hamming, the share of the bits that differ, or jaccard, without weights; the\n"
    "result is float32, a count divided by another, rounded once for fewer than 2^23 bits.\n\n"
    "Raises ValueError for shapes, dtypes or p that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0, 0.0], [3.0, 4.0]])\n"
    ">>> gram.cdist(x)\n"
    "array([[0., 5.],\n"
    "       [5., 0.]])\n"
    ">>> gram.cdist(x, np.ones((1, 2)), p=1).tolist()\n"
    "[[2.0], [5.0]]\n"
    ">>> gram.cdist(x, metric=\"braycurtis\", condensed=True).tolist()\n"
    "[1.0]\n"
    ">>> packed = np.packbits([[1, 0, 1, 1, 0], [1, 1, 1, 1, 0]], axis=1)\n"
    ">>> gram.cdist(packed, metric=\"jaccard\", bits=5, condensed=True).tolist()\n"
    "[0.25]\n";

PY_WITH_WORKSPACE(py_cdist, distances)
