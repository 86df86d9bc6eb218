/*
 * py_optimizer.h - second-order optimizers in Python
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_OPTIMIZER_H
#define PY_OPTIMIZER_H
#include "py_core.h"

struct py_optimizer {
    PyObject head;
    struct py_state *state;
    PyObject *owner; /* the module, which keeps state */
    gram_optimizer *optimizer;
    gram_context *g; /* of a GPU: its own, as long as it lives; NULL: any of the CPU */
    void *stream;    /* that g works on */
    int64_t count;   /* parameters */
    bool busy;       /* a thread works with it, without the interpreter's lock */
};

extern PyType_Spec py_optimizer_spec, py_optimizer_state_spec;

/* The options of a dict over what *options holds; -1 with an exception. */
int py_optimizer_options(const char *function, PyObject *dict, gram_optimizer_options *options);
PyObject *py_optimizer_options_dict(const gram_optimizer_options *options);

/* A memoryview of a state tensor, which keeps the optimizer; of a GPU one of a copy, which
 * py_optimizer_put writes back.  NULL, or -1, with an exception. */
PyObject *py_optimizer_view(struct py_optimizer *self, const gram_tensor *t);
int py_optimizer_put(const struct py_optimizer *self, PyObject *view);

#endif
