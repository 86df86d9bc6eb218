/*
 * py_kron_matmul_vjp.c - gram.kron_matmul_vjp: gradients of products with Kronecker factors
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_signatures.h"

enum {
    X,
    FACTORS,
    GRAD,
    SIDE,
    ALPHA,
    WRT,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_x, PY_factors, PY_grad, PY_side, PY_alpha, PY_wrt, PY_out};
static const struct py_signature signature = {"gram.kron_matmul_vjp", words, COUNT, 2, 2};

enum wanted {
    ALL,
    OF_X,
    OF_FACTORS
};

struct product {
    gram_tensor *x, *grad;
    struct py_factors factors;
    gram_kron_options options;
    gram_tensor *to_x, *to[GRAM_MAX_FACTORS];
    gram_kron_grads grads;
};

/* The gradient of an input, of its shape: the next of the results. */
static gram_tensor *gradient(struct py_call *call, PyObject *out, const gram_tensor *of)
{
    PyObject *given =
        py_given(out) && call->as_tuple ? PyTuple_GetItem(out, call->result_count) : out;
    struct py_shape shape = {.dtype = of->dtype};

    for (int i = 0; i < of->ndim; i++)
        py_append(&shape, of->shape[i]);
    return py_output(call, "out", given, &shape);
}

static int make_outputs(struct py_call *call, PyObject *out, int wanted, struct product *m)
{
    int count = (wanted != OF_FACTORS) + (wanted != OF_X ? m->factors.count : 0);

    call->as_tuple = wanted != OF_X;
    if (py_given(out) && call->as_tuple && (!PyTuple_Check(out) || PyTuple_Size(out) != count)) {
        PyErr_Format(PyExc_TypeError, "%s: out is %R, expected a tuple of %d arrays",
                     signature.name, out, count);
        return -1;
    }
    if (wanted != OF_FACTORS && !(m->to_x = gradient(call, out, m->x)))
        return -1;
    for (int i = 0; i < m->factors.count && wanted != OF_X; i++)
        if (!(m->to[i] = gradient(call, out, m->factors.at[i])))
            return -1;
    m->grads = (gram_kron_grads){m->to_x, wanted == OF_X ? NULL : m->to};
    return 0;
}

/* Views all inputs and makes the outputs; factors.list is to be released in any case. */
static int prepare(struct py_call *call, PyObject *const *v, struct product *m)
{
    static const char *const names[] = {"all", "x", "factors", NULL};
    int wanted = ALL;

    if (!py_given(v[GRAD])) {
        PyErr_Format(PyExc_TypeError, "%s() needs the argument 'grad'", signature.name);
        return -1;
    }
    if (py_side(call->function, v[SIDE], &m->options.side) ||
        py_choice(call->function, "wrt", v[WRT], names, &wanted) ||
        !(m->x = py_input(call, "x", v[X])) || py_factors(call, v[FACTORS], &m->factors) ||
        !(m->grad = py_input(call, "grad", v[GRAD])) ||
        py_scalar(call, "alpha", v[ALPHA], &m->options.alpha) || py_place(call))
        return -1;
    return make_outputs(call, v[OUT], wanted, m);
}

static PyObject *differentiate(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames, bool query)
{
    struct product m = {.options = GRAM_KRON_OPTIONS_INIT};
    const gram_tensor *const *at = (const gram_tensor *const *)m.factors.at;
    gram_status status = GRAM_OK;
    struct py_call call;
    PyObject *v[COUNT];
    bool ready;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    ready = prepare(&call, v, &m) == 0;
    if (ready && query)
        status = gram_kron_matmul_vjp_workspace(call.g, m.x, at, m.factors.count, &m.options,
                                                m.grad, &m.grads, &call.need);
    else if (ready)
        PY_WORK(status, gram_kron_matmul_vjp(call.g, m.x, at, m.factors.count, &m.options, m.grad,
                                             &m.grads));
    return py_factors_end(&call, &m.factors, ready, status);
}

const char py_kron_matmul_vjp_doc[] =
    "kron_matmul_vjp" PY_TEXT_kron_matmul_vjp
    "The gradients of the sum of grad * kron_matmul(x, factors, side=side, alpha=alpha): a\n"
    "tuple of those with respect to x and to every factor.  wrt=\"x\" returns only the first,\n"
    "and wrt=\"factors\" the tuple of the others.\n\n"
    "Each gradient has the shape of its input, and is summed over the dimensions along which\n"
    "the input was broadcast.  grad has the shape of the product.  All are float32 or all are\n"
    "float64, with any strides.  out receives the result, or the tuple of results.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> x, f = np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])\n"
    ">>> of_x, of_f = gram.kron_matmul_vjp(x, [f], grad=np.array([[10.0]]))\n"
    ">>> of_x.tolist(), of_f.tolist()\n"
    "([[30.0, 40.0]], [[10.0], [20.0]])\n";

PY_WITH_WORKSPACE(py_kron_matmul_vjp, differentiate)
