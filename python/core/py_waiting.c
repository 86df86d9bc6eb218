/*
 * py_waiting.c - long work on a thread of its own, while the caller's thread listens to signals
 *
 * Python handles signals only on its main thread and between two of its instructions, so it handles
 * none while that thread is in the library.  The caller's thread therefore waits here, for a
 * twentieth of a second at a time, and another thread does the work.  A report of progress waits
 * until the caller's thread, on which Python code expects to run, has called the function for it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_waiting.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

enum {
    LISTEN_NANOSECONDS =
        50000000, /* what Ctrl-C waits for at most; 20 wakes a second cost nothing */
    SECOND = 1000000000
};

struct py_wait {
    pthread_mutex_t lock;
    pthread_cond_t to_caller, to_worker;
    const struct py_waiting *waiting;
    gram_status status;
    double fraction;
    const char *stage; /* of a report that waits; NULL: none does */
    bool done;
};

static void *work(void *argument)
{
    struct py_wait *w = argument;
    gram_status status = w->waiting->work(w->waiting->argument);

    pthread_mutex_lock(&w->lock);
    w->status = status;
    w->done = true;
    pthread_cond_signal(&w->to_caller);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void py_report(void *user, double fraction, const char *stage)
{
    struct py_wait *w = ((const struct py_waiting *)user)->wait;

    if (!w || !w->waiting->progress)
        return;
    pthread_mutex_lock(&w->lock);
    w->fraction = fraction;
    w->stage = stage;
    pthread_cond_signal(&w->to_caller);
    while (w->stage)
        pthread_cond_wait(&w->to_worker, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* Until there is a report or the work is done, or it is time to listen; holds the lock. */
static void doze(struct py_wait *w)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LISTEN_NANOSECONDS;
    if (until.tv_nsec >= SECOND) {
        until.tv_nsec -= SECOND;
        until.tv_sec++;
    }
    while (!w->done && !w->stage)
        if (pthread_cond_timedwait(&w->to_caller, &w->lock, &until) == ETIMEDOUT)
            break;
}

/* Handles signals and passes a report on, which stays as it is until it is answered; stage NULL:
 * there is none.  -1 with an exception. */
static int listen(const struct py_wait *w, const char *stage)
{
    PyObject *answer;

    if (PyErr_CheckSignals())
        return -1;
    if (!stage)
        return 0;
    answer = PyObject_CallFunction(w->waiting->progress, "ds", w->fraction, stage);
    Py_XDECREF(answer);
    return answer ? 0 : -1;
}

static void answer_report(struct py_wait *w)
{
    pthread_mutex_lock(&w->lock);
    w->stage = NULL;
    pthread_cond_signal(&w->to_worker);
    pthread_mutex_unlock(&w->lock);
}

/* -1: something was raised, and the context was asked to stop. */
static int wait_until_done(struct py_wait *w)
{
    const char *stage;
    bool done = false;
    int failed = 0;

    while (!done) {
        Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&w->lock);
        doze(w);
        done = w->done;
        stage = w->stage;
        pthread_mutex_unlock(&w->lock);
        Py_END_ALLOW_THREADS if (!failed && (failed = listen(w, stage)))
            gram_context_cancel(w->waiting->g);
        if (stage)
            answer_report(w);
    }
    return failed;
}

int py_wait_for(struct py_waiting *waiting, gram_status *status)
{
    struct py_wait w = {.lock = PTHREAD_MUTEX_INITIALIZER,
                        .to_caller = PTHREAD_COND_INITIALIZER,
                        .to_worker = PTHREAD_COND_INITIALIZER,
                        .waiting = waiting};
    pthread_t thread;
    int error, failed = -1;

    waiting->wait = &w;
    error = pthread_create(&thread, NULL, work, &w);
    if (error == 0) {
        failed = wait_until_done(&w);
        pthread_join(thread, NULL);
    } else {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
    }
    waiting->wait = NULL;
    pthread_cond_destroy(&w.to_worker);
    pthread_cond_destroy(&w.to_caller);
    pthread_mutex_destroy(&w.lock);
    *status = w.status;
    return failed;
}

int py_call_wait(struct py_call *call, gram_status (*task)(void *argument), void *argument,
                 gram_status *status)
{
    struct py_waiting waiting = {.g = call->g, .work = task, .argument = argument};

    if (!py_wait_for(&waiting, status))
        return 0;
    gram_context_destroy(call->g); /* it may still hold the request to stop */
    call->g = NULL;
    return -1;
}
