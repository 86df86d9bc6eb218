/*
 * py_matmul.c - gram.matmul_batched and gram.matmul_chunked: products of batches of matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    A,
    B,
    ALPHA,
    BETA,
    C,
    OUT,
    MEMORY,
    DEVICE,
    COUNT
};

static const unsigned char words[] = {PY_a, PY_b,   PY_alpha,  PY_beta,
                                      PY_c, PY_out, PY_memory, PY_device};
static const struct py_signature batched = {"gram.matmul_batched", words, MEMORY, 2, 2};
static const struct py_signature chunked = {"gram.matmul_chunked", words, COUNT, 2, 2};

struct product {
    gram_tensor *a, *b, *out;
    gram_matmul_options options;
    size_t memory;
    bool pieces;
    gram_device asked; /* of pieces: where, if no array is on a GPU */
};

static int read_memory(const char *function, PyObject *value, size_t *memory)
{
    int64_t bytes = 0;

    if (py_int64(function, "memory", value, &bytes))
        return -1;
    if (bytes < 0) {
        PyErr_Format(PyExc_ValueError,
                     "%s: memory is %R, expected a number of bytes, or 0 for half of the "
                     "available memory",
                     function, value);
        return -1;
    }
    *memory = (size_t)bytes;
    return 0;
}

/* Views all inputs and creates the output. */
static int prepare(struct py_call *call, PyObject *const *v, struct product *m)
{
    gram_matmul_options *o = &m->options;
    struct py_shape shape = {0};
    gram_device place;

    if (!(m->a = py_input(call, "a", v[A])) || !(m->b = py_input(call, "b", v[B])) ||
        py_scalar(call, "alpha", v[ALPHA], &o->alpha) ||
        py_scalar(call, "beta", v[BETA], &o->beta) ||
        (py_given(v[C]) && !(o->c = py_input(call, "c", v[C]))) ||
        (m->pieces ? py_place_most(call, m->asked) : py_place(call)))
        return -1;
    shape.dtype = m->a->dtype;
    py_batch(&shape, m->a, 2);
    py_batch(&shape, m->b, 2);
    if (o->c)
        py_batch(&shape, o->c, 2);
    if (o->alpha.tensor)
        py_batch(&shape, o->alpha.tensor, 0);
    if (o->beta.tensor)
        py_batch(&shape, o->beta.tensor, 0);
    py_append(&shape, m->a->ndim >= 2 ? m->a->shape[m->a->ndim - 2] : 0);
    py_append(&shape, m->b->ndim >= 2 ? m->b->shape[m->b->ndim - 1] : 0);
    place = call->device;
    call->device = m->a->device; /* of a new result */
    m->out = py_output(call, "out", v[OUT], &shape);
    call->device = place;
    return m->out ? 0 : -1;
}

static gram_status run(struct py_call *call, const struct product *m)
{
    if (call->query && m->pieces)
        return gram_matmul_chunked_workspace(call->g, m->a, m->b, &m->options, m->memory, m->out,
                                             &call->need);
    if (call->query)
        return gram_matmul_batched_workspace(call->g, m->a, m->b, &m->options, m->out, &call->need);
    if (m->pieces)
        return gram_matmul_chunked(call->g, m->a, m->b, &m->options, m->memory, m->out);
    return gram_matmul_batched(call->g, m->a, m->b, &m->options, m->out);
}

/* Computes the product at once or in pieces, depending on the signature. */
static PyObject *product_of(PyObject *module, const struct py_signature *signature,
                            PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, bool query)
{
    struct product m = {.options = GRAM_MATMUL_OPTIONS_INIT, .pieces = signature == &chunked};
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;

    if (py_begin(&call, module, signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if ((m.pieces && (read_memory(chunked.name, v[MEMORY], &m.memory) ||
                      py_device(chunked.name, v[DEVICE], &m.asked))) ||
        prepare(&call, v, &m))
        return py_fail(&call);
    PY_WORK(status, run(&call, &m));
    return py_end(&call, status);
}

static PyObject *multiply(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames, bool query)
{
    return product_of(module, &batched, args, nargs, kwnames, query);
}

static PyObject *multiply_pieces(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames, bool query)
{
    return product_of(module, &chunked, args, nargs, kwnames, query);
}

const char py_matmul_batched_doc[] =
    "matmul_batched" PY_TEXT_matmul_batched
    "Products of batches of matrices, alpha a b + beta c.\n\n"
    "a is (..., m, k), b is (..., k, n), and c and the result are (..., m, n).  All are\n"
    "float32 or all are float64, with any strides (pass a.mT for a transposed matrix), and\n"
    "batches broadcast.  alpha and beta may be arrays with one number per item.  out may be c\n"
    "itself.  c is not read where beta is 0.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.matmul_batched(np.ones((2, 1, 3)), np.eye(3), alpha=2.0).tolist()\n"
    "[[[2.0, 2.0, 2.0]], [[2.0, 2.0, 2.0]]]\n";

PY_WITH_WORKSPACE(py_matmul_batched, multiply)

const char py_matmul_chunked_doc[] =
    "matmul_chunked" PY_TEXT_matmul_chunked
    "matmul_batched for operands that may be larger than memory, such as numpy.memmap.  The\n"
    "product is computed in pieces, and at most memory bytes are in use at a time (0: half of\n"
    "the available memory).\n\n"
    "If any array is on a GPU, or with device=\"cuda\", the GPU multiplies, and memory refers\n"
    "to its own memory.  Each of a, b, c and out may then be on the CPU, and its pieces are\n"
    "copied while products are computed.  Such a call returns when out is complete.  A new\n"
    "result is where a is.  Pinned memory (pin_memory of PyTorch) is copied directly.\n\n"
    "Up to rounding, the result is that of matmul_batched.  Arguments and errors are the same\n"
    "as gram.matmul_batched has; ValueError is also raised if memory is too small for one\n"
    "element of each array.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> gram.matmul_chunked(np.ones((2, 3)), np.ones((3, 2)), memory=48).tolist()\n"
    "[[3.0, 3.0], [3.0, 3.0]]\n";

PY_WITH_WORKSPACE(py_matmul_chunked, multiply_pieces)
