/*
 * py_nearest.c - gram.nearest: the nearest rows, their distances, and how many lie within a radius
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    Y,
    COUNT_OF,
    P,
    EXCLUDE_SELF,
    RADIUS,
    COUNTS,
    OUT,
    METRIC,
    WEIGHTS,
    BITS,
    COMMUNICATOR,
    COUNT
};

static const unsigned char words[] = {
    PY_x,      PY_y,   PY_count,  PY_p,       PY_exclude_self, PY_radius,
    PY_counts, PY_out, PY_metric, PY_weights, PY_bits,         PY_communicator};
static const struct py_signature signature = {"gram.nearest", words, COUNT, 2, 1};

struct request {
    gram_nearest_options options;
    gram_tensor *indices, *distances;
    int64_t count;
    gram_distance metric;
    struct py_pair pair;
};

static int read_options(PyObject *const *v, struct request *r)
{
    bool exclude_self = false;

    r->options = (gram_nearest_options)GRAM_NEAREST_OPTIONS_INIT;
    if (!py_given(v[COUNT_OF])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument 'count'", signature.name);
        return -1;
    }
    if (py_int64(signature.name, "count", v[COUNT_OF], &r->count) ||
        py_bool(signature.name, "exclude_self", v[EXCLUDE_SELF], &exclude_self) ||
        (py_given(v[RADIUS]) && py_double(signature.name, "radius", v[RADIUS], &r->options.radius)))
        return -1;
    if (r->count < 0 || r->count > GRAM_MAX_NEIGHBOURS) {
        PyErr_Format(PyExc_ValueError, "%s: count is %lld, expected 0 to %d", signature.name,
                     (long long)r->count, GRAM_MAX_NEIGHBOURS);
        return -1;
    }
    r->options.exclude_self = exclude_self;
    r->options.within = py_given(v[RADIUS]);
    return 0;
}

/* The distances, then the indices, as a tuple. */
static int make_outputs(struct py_call *call, PyObject *const *v, struct py_shape shape,
                        struct request *r)
{
    const bool given = py_given(v[OUT]);

    call->as_tuple = true;
    if (given && (!PyTuple_Check(v[OUT]) || PyTuple_Size(v[OUT]) != 2)) {
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of distances and indices",
                     signature.name, v[OUT]);
        return -1;
    }
    py_append(&shape, r->count);
    r->distances = py_output(call, "distances", given ? PyTuple_GetItem(v[OUT], 0) : NULL, &shape);
    shape.dtype = GRAM_I64;
    if (r->distances)
        r->indices = py_output(call, "indices", given ? PyTuple_GetItem(v[OUT], 1) : NULL, &shape);
    if (!r->distances || !r->indices)
        return -1;
    return py_side_output(call, "counts", v[COUNTS], &r->options.counts);
}

/* Everything but the work. */
static int prepare(struct py_call *call, PyObject *const *v, struct request *r)
{
    gram_distance *metric = &r->metric;
    const struct py_pair *pair = &r->pair;
    struct py_shape shape = {0};
    bool given;

    if (py_bits(call, v[BITS], metric) || py_pair(call, v, &r->pair, &shape) ||
        py_metric(call, v[METRIC], v[WEIGHTS], v[P] != NULL, metric, &given) ||
        py_scalar(call, "p", v[P], &metric->p) || py_place(call))
        return -1;
    r->options.metric = given ? metric : NULL;
    shape.dtype = py_pair_dtype(pair->x);
    if (metric->p.tensor)
        py_batch(&shape, metric->p.tensor, 0);
    if (metric->weights)
        py_batch(&shape, metric->weights, 1);
    py_append(&shape, pair->x->ndim >= 2 ? pair->x->shape[pair->x->ndim - 2] : 0);
    return make_outputs(call, v, shape, r);
}

static gram_status work(struct py_call *call, void *user, gram_context *g)
{
    const struct request *r = user;
    const gram_tensor *x = r->pair.x, *y = r->pair.y;

    if (call->query)
        return (r->options.communicator ? gram_nearest_multi_workspace : gram_nearest_workspace)(
            g, x, y, r->metric.p, &r->options, r->indices, r->distances, &call->need);
    return (r->options.communicator ? gram_nearest_multi : gram_nearest)(
        g, x, y, r->metric.p, &r->options, r->indices, r->distances);
}

/* All ranks make the call, the query too. */
static PyObject *search_together(struct py_call *call, PyObject *const *v, struct request *r)
{
    struct py_communicator *ranks =
        py_communicator_take(call->state, call->function, v[COMMUNICATOR]);
    gram_status status;
    bool ready;

    if (!ranks)
        return py_fail(call);
    ready = read_options(v, r) == 0 && prepare(call, v, r) == 0;
    r->options.communicator = ranks->c;
    return py_communicator_run(call, ranks, ready, work, r, &status) ? py_end(call, status)
                                                                     : py_fail(call);
}

static PyObject *search(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames, bool query)
{
    struct py_state *state = py_state_of(module);
    struct request r = {.metric = GRAM_DISTANCE_INIT};
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_parse(state, &signature, args, nargs, kwnames, v) ||
        (!py_given(v[COMMUNICATOR]) && read_options(v, &r)) ||
        py_open(&call, state, signature.name))
        return NULL;
    call.query = query;
    if (py_given(v[COMMUNICATOR]))
        return search_together(&call, v, &r);
    if (prepare(&call, v, &r))
        return py_fail(&call);
    PY_WORK(status, work(&call, &r, call.g));
    return py_end(&call, status);
}

const char py_nearest_doc[] =
    "nearest" PY_TEXT_nearest
    "The `count` nearest rows of y for every row of x: their distances and their indices, in\n"
    "ascending order of distance.  Of rows at the same distance, the lower index comes first.\n\n"
    "x is (..., m, k) and y is (..., n, k), as in cdist, whose distances these are.  The search\n"
    "is exact, and never stores the m by n matrix.  Both results are (..., m, count), and the\n"
    "indices are int64.  count is at most 1024.  Without y, the rows of x are compared with each\n"
    "other, and exclude_self=True leaves out each row itself.  radius keeps only neighbours at a\n"
    "distance of at most radius.  counts, an array (..., m) of int64, receives how many there\n"
    "are, whether or not they are among the first `count`.  metric and weights measure another\n"
    "distance than the p-norm, by the names and the rules of cdist, and so does bits, for rows of\n"
    "packed bits.\n\n"
    "communicator, a gram.Communicator, searches among the rows of y of all ranks, rank by rank:\n"
    "each one gives its rows of x and y, any number of them.  There are no batches then, every\n"
    "rank must make the call, and an error on one rank is raised on all of them.\n\n"
    "Places for which there is no neighbour hold the distance inf and the index -1.  A pair whose\n"
    "distance is nan or infinite is no neighbour.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and TypeError for\n"
    "arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0], [1.0], [5.0]])\n"
    ">>> distances, indices = gram.nearest(x, count=1, exclude_self=True)\n"
    ">>> distances.ravel().tolist(), indices.ravel().tolist()\n"
    "([1.0, 1.0, 4.0], [1, 0, 1])\n"
    ">>> gram.nearest(np.eye(4), np.ones((1, 4)), count=1, metric=\"jaccard\")[0].ravel()\n"
    "array([0.75, 0.75, 0.75, 0.75])\n";

PY_WITH_WORKSPACE(py_nearest, search)
