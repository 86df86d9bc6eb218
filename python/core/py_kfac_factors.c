/*
 * py_kfac_factors.c - gram.kfac_factors: the Kronecker factors of a layer's curvature
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_layer.h"
#include "py_signatures.h"

enum {
    SETTING = PY_L_COUNT,
    SCALE,
    KEEP,
    OUT,
    COUNT
};

static const unsigned char words[] = {PY_LAYER_WORDS, PY_setting, PY_scale, PY_keep, PY_out};
static const struct py_signature signature = {"gram.kfac_factors", words, COUNT, 3, 2};
static const char *const settings[] = {"expand", "reduce", NULL};

/* Creates a factor of this order, with one per group if there are several groups. */
static gram_tensor *factor(struct py_call *call, const struct py_layer *l, const char *name,
                           PyObject *out, int64_t order)
{
    struct py_shape shape = {.dtype = l->dtype};

    if (l->layer.kind == GRAM_LAYER_CONVOLUTION && l->layer.groups > 1)
        py_append(&shape, l->layer.groups);
    py_append(&shape, order > 0 ? order : 0);
    if (l->layer.kind != GRAM_LAYER_EMBEDDING || name[0] == 'b')
        py_append(&shape, order > 0 ? order : 0);
    return py_output(call, name, out, &shape);
}

/* out is None or a pair; its items are borrowed from it. */
static int split(const struct py_call *call, PyObject *out, PyObject *pair[2])
{
    pair[0] = pair[1] = NULL;
    if (!py_given(out))
        return 0;
    if (!PyTuple_Check(out) || PyTuple_Size(out) != 2) {
        PyErr_Format(PyExc_TypeError, "%s: out is not a pair (a, b)", call->function);
        return -1;
    }
    pair[0] = PyTuple_GetItem(out, 0);
    pair[1] = PyTuple_GetItem(out, 1);
    return 0;
}

static int options_of(struct py_call *call, PyObject *const *v, gram_kfac_factors_options *o)
{
    int setting = GRAM_KFAC_EXPAND;

    if (py_choice(call->function, "setting", v[SETTING], settings, &setting) ||
        py_double(call->function, "scale", v[SCALE], &o->scale) ||
        py_double(call->function, "keep", v[KEEP], &o->keep))
        return -1;
    o->setting = (gram_kfac_setting)setting;
    if (o->keep == 0 || py_given(v[OUT]))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s: keep is given without out, of which it keeps a part",
                 call->function);
    return -1;
}

static PyObject *factors(PyObject *module, PyObject *const *args, Py_ssize_t nargs,
                         PyObject *kwnames, bool query)
{
    gram_kfac_factors_options options = GRAM_KFAC_FACTORS_OPTIONS_INIT;
    gram_tensor *a = NULL, *b = NULL;
    struct py_layer l;
    struct py_call call;
    PyObject *v[COUNT], *out[2];
    gram_status status;

    if (py_begin(&call, module, &signature, args, nargs, kwnames, v))
        return NULL;
    call.query = query;
    if (py_layer(&call, v, &l) || options_of(&call, v, &options) || split(&call, v[OUT], out) ||
        py_layer_place(&call, &l))
        return py_fail(&call);
    call.as_tuple = true;
    if (l.a && !(a = factor(&call, &l, "a_factor", out[0], l.in + l.layer.bias)))
        return py_fail(&call);
    if (l.d && !(b = factor(&call, &l, "b_factor", out[1],
                            l.layer.groups > 0 && l.layer.kind == GRAM_LAYER_CONVOLUTION
                                ? l.out / l.layer.groups
                                : l.out)))
        return py_fail(&call);
    if (query)
        status =
            gram_kfac_factors_workspace(call.g, &l.layer, l.a, l.d, &options, a, b, &call.need);
    else
        PY_WORK(status, gram_kfac_factors(call.g, &l.layer, l.a, l.d, &options, a, b));
    return py_end(&call, status);
}

const char py_kfac_factors_doc[] =
    "kfac_factors" PY_TEXT_kfac_factors
    "The Kronecker factors (A, B) of a layer's curvature for K-FAC.\n\n"
    "The arguments that describe the layer are those of sample_grad.  activations or\n"
    "gradients may be None, and then the factor that is computed from them is missing.  With\n"
    "N samples, S positions, g the gradients, and a' the input (the patches of a convolution)\n"
    "followed by a 1 for the bias, setting=\"expand\" gives A = 1 / (N S) sum a' a'^T and B =\n"
    "1 / N sum g g^T over samples and positions; \"reduce\" first takes the mean of a' and\n"
    "the sum of g over the positions of a sample. gradients are those of a sum over samples.\n"
    "Otherwise scale multiplies them: it is N for a mean over samples, and N R for a mean\n"
    "that also runs over R terms per sample.  With keep, out = (A, B) becomes keep out + (1 -\n"
    "keep) times the new factors.  The A of an embedding is the vector of its diagonal.  A\n"
    "convolution with several groups has factors for each of them.\n\n"
    "Raises ValueError for shapes and dtypes that do not fit, and TypeError for arguments\n"
    "that are not arrays.  After Martens and Grosse, ICML 2015, and Eschenhagen et al.,\n"
    "NeurIPS 2023.\n\n"
    ">>> import gram, numpy as np\n"
    ">>> a, b = gram.kfac_factors(np.array([[1.0], [3.0]]), np.array([[2.0], [0.0]]))\n"
    ">>> a.tolist(), b.tolist()\n"
    "([[5.0, 2.0], [2.0, 1.0]], [[2.0]])\n";

PY_WITH_WORKSPACE(py_kfac_factors, factors)
