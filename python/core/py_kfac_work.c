/*
 * py_kfac_work.c - gram._core.Kfac: factors, inverses and directions
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_kfac.h"

enum {
    LAYERS_A_CALL = 16 /* whose arrays one py_call views: two each */
};

/* update(index, activations, gradients), and feed(index, a, b) with factors. */
static PyObject *learn(PyObject *object, PyObject *args, bool factors)
{
    struct kfac_object *self = (struct kfac_object *)object;
    gram_tensor *a = NULL, *b = NULL;
    gram_status status;
    PyObject *x, *y;
    struct py_call call;
    gram_context *g;
    long long index;

    if (!PyArg_ParseTuple(args, "LOO", &index, &x, &y) ||
        py_open(&call, self->state, factors ? "gram.KFAC.feed" : "gram.KFAC.update"))
        return NULL;
    if ((py_given(x) && !(a = py_raw_input(&call, "a", x))) ||
        (py_given(y) && !(b = py_raw_input(&call, "b", y))) || py_place(&call) ||
        kfac_take(self, call.function))
        return py_fail(&call);
    g = kfac_context(self, &call);
    PY_WORK(status, factors ? gram_kfac_feed(g, self->kfac, index, a, b)
                            : gram_kfac_update(g, self->kfac, index, a, b));
    self->busy = false;
    return kfac_end(self, &call, status);
}

PyObject *kfac_update(PyObject *object, PyObject *args)
{
    return learn(object, args, false);
}

PyObject *kfac_feed(PyObject *object, PyObject *args)
{
    return learn(object, args, true);
}

PyObject *kfac_refresh(PyObject *object, PyObject *unused)
{
    struct kfac_object *self = (struct kfac_object *)object;
    struct py_call call;
    gram_status status;

    (void)unused;
    if (py_open(&call, self->state, "gram.KFAC.refresh"))
        return NULL;
    if (kfac_take(self, call.function))
        return py_fail(&call);
    PY_WORK(status, gram_kfac_refresh(kfac_context(self, &call), self->kfac));
    self->busy = false;
    return kfac_end(self, &call, status);
}

/* The gradients of a call: tensors of all layers. */
struct gradients {
    gram_tensor **weights, **biases;
};

static int view_gradients(struct py_call *call, const struct kfac_object *self, PyObject *weights,
                          PyObject *biases, struct gradients *d)
{
    size_t room = (size_t)self->layers + 1;

    if (PyTuple_Size(weights) != self->layers || PyTuple_Size(biases) != self->layers) {
        PyErr_Format(PyExc_ValueError, "%s: there are %zd weights and %zd biases, but %lld layers",
                     call->function, PyTuple_Size(weights), PyTuple_Size(biases),
                     (long long)self->layers);
        return -1;
    }
    d->weights = PyMem_Calloc(room, sizeof *d->weights);
    d->biases = PyMem_Calloc(room, sizeof *d->biases);
    if (!d->weights || !d->biases) {
        PyErr_NoMemory();
        return -1;
    }
    if (py_reserve(call, 2 * (Py_ssize_t)self->layers))
        return -1;
    for (Py_ssize_t i = 0; i < self->layers; i++) {
        PyObject *bias = PyTuple_GetItem(biases, i);
        d->weights[i] = py_inout(call, "weights", PyTuple_GetItem(weights, i));
        if (!d->weights[i] || (bias != Py_None && !(d->biases[i] = py_inout(call, "biases", bias))))
            return -1;
    }
    return py_place(call);
}

/* precondition(lr, weights, biases): tuples of arrays, in place; a bias may be None. */
PyObject *kfac_precondition(PyObject *object, PyObject *args)
{
    struct kfac_object *self = (struct kfac_object *)object;
    struct gradients d = {NULL, NULL};
    PyObject *weights, *biases, *answer = NULL;
    struct py_call call;
    gram_status status;
    double rate;

    if (!PyArg_ParseTuple(args, "dO!O!", &rate, &PyTuple_Type, &weights, &PyTuple_Type, &biases) ||
        py_open(&call, self->state, "gram.KFAC.precondition"))
        return NULL;
    if (view_gradients(&call, self, weights, biases, &d) || kfac_take(self, call.function)) {
        py_close(&call);
    } else {
        PY_WORK(status,
                gram_kfac_precondition(kfac_context(self, &call), self->kfac, rate,
                                       (const gram_tensor *const *)d.weights,
                                       (const gram_tensor *const *)d.biases, d.weights, d.biases));
        self->busy = false;
        answer = kfac_end(self, &call, status);
    }
    PyMem_Free(d.weights);
    PyMem_Free(d.biases);
    return answer;
}
