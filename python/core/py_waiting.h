/*
 * py_waiting.h - long work on a thread of its own, while the caller's thread listens to signals
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef PY_WAITING_H
#define PY_WAITING_H
#include "py_core.h"

/* Work that reports how far it is. */
struct py_waiting {
    gram_context *g;                     /* cancelled by an exception */
    gram_status (*work)(void *argument); /* run without the interpreter's lock */
    void *argument;
    PyObject *progress; /* called with (fraction, stage) on the caller's thread, or NULL */
    struct py_wait *wait;
};

/*
 * Does the work and waits for its status.  Meanwhile signals are handled, so that Ctrl-C does not
 * wait for a report.  What a handler or progress raises cancels the context; -1 then, with that
 * exception, when the work has ended.  The context may still hold the request to stop: destroy it.
 */
int py_wait_for(struct py_waiting *waiting, gram_status *status);
/* The same for a call whose arrays are in place; on an exception it has no context any more. */
int py_call_wait(struct py_call *call, gram_status (*task)(void *argument), void *argument,
                 gram_status *status);
/* What the work calls to report, from any thread; user is the py_waiting. */
void py_report(void *user, double fraction, const char *stage);

#endif
