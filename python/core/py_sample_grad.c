/*
 * py_sample_grad.c - gram.sample_grad: the gradients of every sample of a layer, their norms, their
 * sums
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_layer.h"
#include "py_signatures.h"

enum {
    OUTPUT = PY_L_COUNT,
    SCALE,
    CLIP,
    COEFFICIENTS,
    METHOD,
    COUNT
};

static const unsigned char words[] = {PY_LAYER_WORDS, PY_output,       PY_scale,
                                      PY_clip,        PY_coefficients, PY_method};
static const struct py_signature signature = {"gram.sample_grad", words, COUNT, 3, 2};

enum output {
    GRADIENT,
    NORM,
    SUM
};

static const char *const outputs[] = {"gradient", "norm", "sum", NULL};
static const char *const methods[] = {"auto", "ghost", "blocks", NULL};

static int options_of(struct py_call *call, PyObject *const *v, gram_sample_grad_options *o)
{
    int method = GRAM_SAMPLE_AUTO;

    if (py_double(call->function, "scale", v[SCALE], &o->scale) ||
        py_double(call->function, "clip", v[CLIP], &o->clip) ||
        py_choice(call->function, "method", v[METHOD], methods, &method) ||
        (py_given(v[COEFFICIENTS]) &&
         !(o->coefficients = py_input(call, "coefficients", v[COEFFICIENTS]))))
        return -1;
    o->method = (gram_sample_method)method;
    return 0;
}

/* Weight (and bias, if there is one) with or without the samples in front. */
static int pair(struct py_call *call, const struct py_layer *l, bool each, gram_tensor **weight,
                gram_tensor **bias)
{
    struct py_shape shapes[2] = {{.dtype = l->dtype}, {.dtype = l->dtype}};

    for (int i = 0; i < 2; i++) {
        if (each)
            py_append(&shapes[i], l->d->ndim ? l->d->shape[0] : 0);
        for (int k = 0; k < (i ? l->bias_dims : l->weight.ndim); k++)
            py_append(&shapes[i], l->weight.size[k]);
    }
    *weight = py_output(call, "weight", NULL, &shapes[0]);
    if (*weight && l->layer.bias)
        *bias = py_output(call, "bias", NULL, &shapes[1]);
    return *weight && (*bias || !l->layer.bias) ? 0 : -1;
}

static int make_outputs(struct py_call *call, const struct py_layer *l, int output,
                        gram_sample_grads *out)
{
    struct py_shape norms = {.dtype = l->dtype};

    call->as_tuple = output != NORM;
    py_append(&norms, l->d->ndim ? l->d->shape[0] : 0);
    if (output == GRADIENT)
        return pair(call, l, true, &out->weight, &out->bias);
    if (output == SUM && pair(call, l, false, &out->sum_weight, &out->sum_bias))
        return -1;
    out->norms = py_output(call, "norms", NULL, &norms);
    return out->norms ? 0 : -1;
}

static PyObject *gradients(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames, bool query)
{
    gram_sample_grad_options options = GRAM_SAMPLE_GRAD_OPTIONS_INIT;
    gram_sample_grads out = {0};
    struct py_layer l;
    struct py_call call;
    PyObject *v[COUNT];
    gram_status status;
    int output = GRADIENT;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (py_layer(&call, v, &l) || options_of(&call, v, &options) ||
        py_choice(call.function, "output", v[OUTPUT], outputs, &output) ||
        py_layer_place(&call, &l))
        return py_fail(&call);
    if (!l.a || !l.d) {
        PyErr_Format(PyExc_ValueError, "%s: %s is None, expected an array", call.function,
                     l.a ? "gradients" : "activations");
        return py_fail(&call);
    }
    if (make_outputs(&call, &l, output, &out))
        return py_fail(&call);
    if (query)
        status = gram_sample_grad_workspace(call.g, &l.layer, l.a, l.d, &options, &out, &call.need);
    else
        PY_WORK(status, gram_sample_grad(call.g, &l.layer, l.a, l.d, &options, &out));
    return py_end(&call, status);
}

const char py_sample_grad_doc[] =
    "sample_grad" PY_TEXT_sample_grad
    "The gradients of every sample's loss with respect to the parameters of a layer.\n\n"
    "activations are the inputs of the layer, and gradients are the gradients of the loss\n"
    "with respect to its outputs, both with the samples first.  kind is \"linear\" (N, ...,\n"
    "I), \"convolution\" (N, I, ...) with one to three spatial dimensions, \"embedding\"\n"
    "(rows of a table, int32 or int64), \"layer_norm\" over the last `normalized` dimensions,\n"
    "or \"group_norm\" (N, I, ...).\n\n"
    "output=\"gradient\" gives (weight, bias), each with the samples in front.  \"norm\"\n"
    "gives the Euclidean norms of both together, without storing the gradients.  \"sum\"\n"
    "gives (weight, bias, norms), with the sums over samples of c times the gradient; c is\n"
    "min(1, clip / (norm + 1e-6)), or the given coefficients, or 1.  Without a bias, the\n"
    "tuples do not have it.  scale multiplies the gradients: it is N for a loss that is a\n"
    "mean.  Arrays are on the CPU or on a GPU, of float32, float64, float16 or bfloat16.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.  After Li et al., ICLR 2022 (ghost norms), and Bu et al., NeurIPS\n"
    "2022 (the choice).\n\n"
    ">>> import gram, numpy as np\n"
    ">>> a, g = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[2.0], [1.0]])\n"
    ">>> gram.sample_grad(a, g)[0].tolist()\n"
    "[[[2.0, 4.0]], [[3.0, 0.0]]]\n"
    ">>> gram.sample_grad(a, g, bias=False, output=\"norm\")[1].item()\n"
    "3.0\n";

PY_WITH_WORKSPACE(py_sample_grad, gradients)
