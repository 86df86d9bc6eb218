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

/* The context of a call by all ranks.  Over NCCL it is that with which the communicator was
 * created; if the library of the arrays works on another stream, the streams wait for each other,
 * here and in py_communicator_done, which passes the status on. */
int py_communicator_context(struct py_call *call, const struct py_communicator *ranks,
                            gram_context **g);
gram_status py_communicator_done(const struct py_call *call, const struct py_communicator *ranks,
                                 gram_context *g, gram_status status);
/* Raises a failure of a context that is not call's: then false, else `ready`. */
bool py_communicator_ended(struct py_call *call, gram_context *g, bool ready, gram_status status);

/* A call of all ranks that is ready, or tells the others that it is not, as an exception has been
 * raised; clears busy.  False: there is an exception. */
typedef gram_status py_ranks_work(struct py_call *call, void *user, gram_context *g);
bool py_communicator_run(struct py_call *call, struct py_communicator *ranks, bool ready,
                         py_ranks_work *work, void *user, gram_status *status);

#endif
