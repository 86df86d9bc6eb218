/*
 * py_kernel_matmul.c - gram.kernel_matmul: products with a kernel matrix that is never stored
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"
#include "py_signatures.h"

enum {
    V = PY_K_COUNT,
    ACCUMULATE,
    COMMUNICATOR,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_KERNEL_WORDS, PY_v, PY_accumulate, PY_communicator,
                                      PY_out};
static const struct py_signature signature = {"gram.kernel_matmul", words, COUNT, 3, 1};

struct product {
    struct py_pair pair;
    struct py_kernel k;
    gram_tensor *v, *out;
    gram_kernel_matmul_options options;
};

/* Views all inputs and creates the output. */
static int prepare(struct py_call *call, PyObject *const *v, struct product *m)
{
    struct py_shape shape = {0};
    bool accumulate = false, is_vector;

    if (py_bool(call->function, "accumulate", v[ACCUMULATE], &accumulate))
        return -1;
    if (!py_given(v[V]) || (accumulate && !py_given(v[OUT]))) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", call->function,
                     py_given(v[V]) ? "out" : "v");
        return -1;
    }
    m->options.accumulate = accumulate;
    if (py_pair(call, v, &m->pair, &shape) || !(m->v = py_input(call, "v", v[V])) ||
        py_kernel_options(call, v, &m->k) || py_place(call))
        return -1;
    shape.dtype = py_pair_dtype(m->pair.x);
    is_vector = m->v->ndim == 1;
    if (is_vector)
        py_as_column(m->v);
    py_batch(&shape, m->v, 2);
    py_kernel_batch(&shape, &m->k);
    py_append(&shape, m->pair.x->ndim >= 2 ? m->pair.x->shape[m->pair.x->ndim - 2] : 0);
    if (!is_vector)
        py_append(&shape, m->v->ndim >= 2 ? m->v->shape[m->v->ndim - 1] : 0);
    m->out = py_output(call, "out", v[OUT], &shape);
    if (m->out && is_vector)
        py_as_column(m->out);
    return m->out ? 0 : -1;
}

static gram_status work(struct py_call *call, void *user, gram_context *g)
{
    const struct product *m = user;

    if (call->query)
        return (m->options.communicator ? gram_kernel_matmul_multi_workspace
                                        : gram_kernel_matmul_workspace)(
            g, m->pair.x, m->pair.y, &m->k.options, m->v, &m->options, m->out, &call->need);
    return (m->options.communicator ? gram_kernel_matmul_multi : gram_kernel_matmul)(
        g, m->pair.x, m->pair.y, &m->k.options, m->v, &m->options, m->out);
}

/* All ranks make the call, the query too. */
static PyObject *multiply_together(struct py_call *call, PyObject *const *v, struct product *m)
{
    struct py_communicator *ranks =
        py_communicator_take(call->state, call->function, v[COMMUNICATOR]);
    gram_status status;
    bool ready;

    if (!ranks)
        return py_fail(call);
    m->options.communicator = ranks->c;
    ready = prepare(call, v, m) == 0;
    return py_communicator_run(call, ranks, ready, work, m, &status) ? py_end(call, status)
                                                                     : py_fail(call);
}

static PyObject *multiply(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    struct product m = {.options = GRAM_KERNEL_MATMUL_OPTIONS_INIT};
    gram_status status;
    struct py_call call;
    PyObject *v[COUNT];

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (py_given(v[COMMUNICATOR]))
        return multiply_together(&call, v, &m);
    if (prepare(&call, v, &m))
        return py_fail(&call);
    PY_WORK(status, work(&call, &m, call.g));
    return py_end(&call, status);
}

const char py_kernel_matmul_doc[] =
    "kernel_matmul" PY_TEXT_kernel_matmul
    "kernel(x, y, kernel, **options) @ v, without storing the kernel matrix.\n\n"
    "v is (..., n, r), or (n,) for one vector, with the dtype that the matrix would have, and\n"
    "out is (..., m, r).  accumulate=True adds to out.  Without y, the call does half of the\n"
    "work.\n\n"
    "communicator, a gram.Communicator, shares the work among its ranks: each one gives its\n"
    "rows of x, y and v, any number of them, and gets its rows of the product with the points\n"
    "of all ranks.  Arrays on CPUs are exchanged over MPI, and arrays on GPUs over NCCL.  There\n"
    "are no batches then, every rank must make the call, and an error on one rank is raised on\n"
    "all of them.\n\n"
    "Raises ValueError for values, shapes and dtypes that do not fit, and TypeError for\n"
    "arguments that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x = np.array([[0.0], [1.0], [2.0]])\n"
    ">>> gram.kernel_matmul(x, kernel=\"linear\", v=np.ones(3)).tolist()\n"
    "[0.0, 3.0, 6.0]\n";

PY_WITH_WORKSPACE(py_kernel_matmul, multiply)
