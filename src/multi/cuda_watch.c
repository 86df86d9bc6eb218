/*
 * cuda_watch.c - a thread that looks after exchanges on a stream: see cuda_watch.h
 *
 * A rank that has died after it agreed to an exchange leaves the devices of the others in it for
 * ever, and their hosts where they wait for these: cuStreamSynchronize, or a copy.  So a thread
 * looks at the oldest exchange.  An event before it tells when the device has come to it, so that
 * work before it takes as long as it takes; one behind it tells when it has ended.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_watch.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PLACES = 16,             /* exchanges that are watched at a time */
    BETWEEN_LOOKS = 20000000 /* nanoseconds */
};

/* Of an exchange. */
struct place {
    CUevent before, behind;
};

struct cuda_watch {
    const struct cuda_device *device;
    struct cuda_watched watched;
    pthread_t thread;
    pid_t owner;           /* the child of fork() has no thread */
    pthread_mutex_t mutex; /* of what follows, and of what the user shares */
    pthread_cond_t changed;
    struct place place[PLACES];
    int oldest, count; /* a ring */
    bool open;         /* the next place has its event before, and none behind */
    bool quit;
    int64_t since; /* when the oldest was seen to be under way; 0: it was not yet */
};

/* ---- The thread ------------------------------------------------------------------------------ */

static bool is_done(const struct cuda_watch *w, CUevent event)
{
    return w->device->driver->event_query(event) != CUDA_ERROR_NOT_READY;
}

static void forget_oldest(struct cuda_watch *w)
{
    w->oldest = (w->oldest + 1) % PLACES;
    w->count--;
    w->since = 0;
}

/* One look at the oldest exchange. */
static void look(struct cuda_watch *w)
{
    const struct place *p = &w->place[w->oldest];
    bool failed, late = false;

    if (is_done(w, p->behind)) {
        forget_oldest(w);
        return;
    }
    if (w->since == 0 && is_done(w, p->before))
        w->since = gram_nanoseconds();
    failed = w->watched.has_failed(w->watched.user);
    if (!failed && w->since != 0)
        late = (double)(gram_nanoseconds() - w->since) * 1e-9 > w->watched.timeout;
    if (failed || late) {
        w->watched.give_up(w->watched.user, late);
        w->count = 0;
        w->since = 0;
    }
}

static void sleep_between(struct cuda_watch *w)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += BETWEEN_LOOKS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&w->changed, &w->mutex, &until);
}

static void *run(void *arg)
{
    struct cuda_watch *w = arg;
    const bool entered = gram_cuda_enter(w->device);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* of whoever captures a stream */

    (void)w->device->driver->capture_mode(&mode);
    pthread_mutex_lock(&w->mutex);
    while (!w->quit) {
        if (w->count == 0) {
            (void)pthread_cond_wait(&w->changed, &w->mutex);
            continue;
        }
        look(w);
        if (w->count > 0)
            sleep_between(w);
    }
    pthread_mutex_unlock(&w->mutex);
    gram_cuda_leave(w->device, entered);
    return NULL;
}

/* ---- What is watched ------------------------------------------------------------------------- */

void gram_cuda_watch_lock(struct cuda_watch *w)
{
    pthread_mutex_lock(&w->mutex);
}

void gram_cuda_watch_unlock(struct cuda_watch *w)
{
    pthread_mutex_unlock(&w->mutex);
}

static struct place *next_place(struct cuda_watch *w)
{
    return &w->place[(w->oldest + w->count) % PLACES];
}

void gram_cuda_watch_begin(struct cuda_watch *w, CUstream stream)
{
    const struct cuda_driver *driver = w->device->driver;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;

    while (w->count > 0 && is_done(w, w->place[w->oldest].behind))
        forget_oldest(w);
    w->open = w->count < PLACES && driver->stream_capturing(stream, &capture) == CUDA_SUCCESS &&
              capture == CU_STREAM_CAPTURE_STATUS_NONE &&
              driver->event_record(next_place(w)->before, stream) == CUDA_SUCCESS;
}

void gram_cuda_watch_end(struct cuda_watch *w, CUstream stream)
{
    if (!w->open)
        return;
    w->open = false;
    if (w->device->driver->event_record(next_place(w)->behind, stream) != CUDA_SUCCESS)
        return;
    w->count++;
    (void)pthread_cond_signal(&w->changed);
}

/* ---- Making and closing ---------------------------------------------------------------------- */

static gram_status make_events(gram_context *g, struct cuda_watch *w)
{
    const struct cuda_driver *driver = w->device->driver;

    for (int i = 0; i < PLACES; i++) {
        TRY(gram_cuda_check(g, driver,
                            driver->event_create(&w->place[i].before, CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate"));
        TRY(gram_cuda_check(g, driver,
                            driver->event_create(&w->place[i].behind, CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate"));
    }
    return GRAM_OK;
}

static void drop(gram_context *g, struct cuda_watch *w)
{
    for (int i = 0; i < PLACES; i++) {
        if (w->place[i].before)
            (void)w->device->driver->event_destroy(w->place[i].before);
        if (w->place[i].behind)
            (void)w->device->driver->event_destroy(w->place[i].behind);
    }
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    gram_free(g, w, sizeof *w);
}

/* Signals are for the threads of the host program. */
static bool start(struct cuda_watch *w)
{
    sigset_t all, before;
    bool started;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(&w->thread, NULL, run, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

gram_status gram_cuda_watch_open(gram_context *g, const struct cuda_watched *watched,
                                 struct cuda_watch **out)
{
    struct cuda_watch *w = gram_alloc(g, sizeof *w);
    gram_status status;

    *out = NULL;
    if (!w)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *w);
    memset(w, 0, sizeof *w);
    w->device = g->device;
    w->watched = *watched;
    w->owner = getpid();
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    status = make_events(g, w);
    if (status == GRAM_OK && !start(w))
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot start the thread that looks after NCCL");
    if (status != GRAM_OK)
        drop(g, w);
    else
        *out = w;
    return status;
}

void gram_cuda_watch_close(gram_context *g, struct cuda_watch *w)
{
    if (!w)
        return;
    if (w->owner == getpid()) {
        pthread_mutex_lock(&w->mutex);
        w->quit = true;
        (void)pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->mutex);
        (void)pthread_join(w->thread, NULL);
    }
    drop(g, w);
}
