/*
 * py_kfac.h - gram._core.Kfac: py_kfac.c creates and describes it, py_kfac_work.c does its work
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_KFAC_H
#define PY_KFAC_H
#include "py_types.h"

struct kfac_object {
    PyObject head;
    struct py_state *state; /* of the module gram._core, which owner keeps alive */
    PyObject *owner;
    gram_kfac *kfac;
    gram_context *g; /* of a GPU: its own, as long as it lives; NULL: any of the CPU */
    int64_t layers;
    bool busy; /* a thread works with it */
};

/* The context that the object's calls are made in. */
static inline gram_context *kfac_context(const struct kfac_object *self, const struct py_call *call)
{
    return self->g ? self->g : call->g;
}

static inline int kfac_take(struct kfac_object *self, const char *function)
{
    return py_take(&self->busy, function, "object");
}

/* Ends a call that gives None. */
PyObject *kfac_end(const struct kfac_object *self, struct py_call *call, gram_status status);

/* Methods. */
PyObject *kfac_update(PyObject *object, PyObject *args);
PyObject *kfac_feed(PyObject *object, PyObject *args);
PyObject *kfac_refresh(PyObject *object, PyObject *unused);
PyObject *kfac_precondition(PyObject *object, PyObject *args);

#endif
