/*
 * py_communicator.h - gram.Communicator as the functions that take one see it
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_COMMUNICATOR_H
#define PY_COMMUNICATOR_H
#include "py_types.h"

struct py_communicator {
    PyObject head;
    struct py_state *state; /* of the module gram._core, which owner keeps alive */
    PyObject *owner;
    struct py_idle context; /* its own; over NCCL calls take it */
    gram_communicator *c;   /* NULL: closed */
    bool of_nccl, busy;
};

/* Takes the communicator for one call, after which the caller clears busy; NULL with an
 * exception. */
struct py_communicator *py_communicator_take(struct py_state *state, const char *function,
                                             PyObject *object);
/* This rank has raised an exception before a call; ends the call on the other ranks. */
void py_communicator_fail(struct py_communicator *self);

#endif
