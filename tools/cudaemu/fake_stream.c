/*
 * fake_stream.c - streams and events
 *
 * Work lies in its stream until somebody waits for it, so that a missing synchronization is seen.
 * The default stream of a device waits for the others of the device, and they for it, as the
 * driver's does: by doing first what the other side has.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_stream.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct CUstream_st standard[FAKE_MOST_DEVICES]; /* the default stream of each device */
static CUstream created;

static bool names_default(CUstream handle)
{
    return handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

CUstream fake_stream(CUstream handle)
{
    return names_default(handle) ? &standard[fake_current_device()] : handle;
}

static bool is_default(const struct CUstream_st *stream)
{
    return stream >= standard && stream < standard + FAKE_MOST_DEVICES;
}

static int device_of(const struct CUstream_st *stream)
{
    return is_default(stream) ? (int)(stream - standard) : stream->device;
}

void fake_each_stream(void (*see)(CUstream stream, void *arg), void *arg)
{
    for (int device = 0; device < FAKE_MOST_DEVICES; device++)
        see(&standard[device], arg);
    for (CUstream s = created, next; s; s = next) {
        next = s->next;
        see(s, arg);
    }
}

void fake_append(struct fake_list *list, struct fake_work *work)
{
    if (!list->first)
        list->end = &list->first;
    work->next = NULL;
    *list->end = work;
    list->end = &work->next;
}

CUresult fake_advance(CUstream stream, const struct CUevent_st *event, uint64_t number)
{
    while (stream->work.first && !(event && event->done >= number)) {
        struct fake_work *work = stream->work.first;
        stream->work.first = work->next;
        if (fake_usable() == CUDA_SUCCESS)
            work->run(work);
        free(work);
    }
    return fake_usable();
}

CUresult fake_drain(CUstream stream)
{
    return fake_advance(fake_stream(stream), NULL, 0);
}

static void drain_one(CUstream stream, void *unused)
{
    (void)unused;
    (void)fake_drain(stream);
}

CUresult fake_drain_all(void)
{
    fake_each_stream(drain_one, NULL);
    return fake_usable();
}

/* The streams for which the default one of a device waits. */
static void drain_blocking(int device)
{
    for (CUstream s = created; s; s = s->next)
        if (!s->apart && s->device == device)
            (void)fake_drain(s);
}

CUresult fake_queue(CUstream handle, struct fake_work *work)
{
    CUstream stream = fake_stream(handle);

    if (stream->graph) {
        fake_append(&stream->graph->work, work);
        return CUDA_SUCCESS;
    }
    if (is_default(stream))
        drain_blocking(device_of(stream));
    else if (!stream->apart)
        (void)fake_drain(&standard[stream->device]);
    fake_append(&stream->work, work);
    return CUDA_SUCCESS;
}

/* ---- Streams --------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    CUresult result;
    CUstream s;

    fake_lock();
    result = fake_usable();
    s = result == CUDA_SUCCESS ? calloc(1, sizeof *s) : NULL;
    if (s) {
        s->apart = (flags & CU_STREAM_NON_BLOCKING) != 0;
        s->device = fake_current_device();
        s->next = created;
        created = s;
        *stream = s;
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    fake_unlock();
    return result;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)priority;
    return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUstream *at = &created;

    if (names_default(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    fake_lock();
    (void)fake_drain(stream);
    while (*at && *at != stream)
        at = &(*at)->next;
    if (*at) {
        *at = stream->next;
        free(stream);
    }
    fake_unlock();
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream handle)
{
    CUstream stream = fake_stream(handle);

    if (stream->graph) {
        stream->failed = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (is_default(stream))
        drain_blocking(device_of(stream));
    return fake_drain(stream);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS)
        result = synchronize(stream);
    fake_unlock();
    return result;
}

CUresult cuStreamQuery(CUstream stream)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && fake_stream(stream)->work.first)
        result = synchronize(stream), result = result ? result : CUDA_ERROR_NOT_READY;
    fake_unlock();
    return result;
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct event_work {
    struct fake_work work;
    CUevent event;
    uint64_t number;
};

static CUresult queue_event(CUstream stream, CUevent event, void (*run)(struct fake_work *work))
{
    struct event_work *w = calloc(1, sizeof *w);

    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *w = (struct event_work){
        {.run = run, .bytes = sizeof *w},
        event, event->recorded
    };
    return fake_queue(stream, &w->work);
}

static void pass_event(struct fake_work *work)
{
    struct event_work *w = (struct event_work *)work;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    w->event->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    w->event->done = w->number;
}

static void await_event(struct fake_work *work)
{
    struct event_work *w = (struct event_work *)work;

    (void)fake_advance(w->event->stream, w->event, w->number);
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = fake_handle(sizeof **event);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy(CUevent event)
{
    fake_lock();
    (void)fake_drain_all();
    free(event);
    fake_unlock();
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    CUstream stream = fake_stream(handle);
    CUresult result;

    fake_lock();
    result = fake_usable();
    event->stream = stream;
    event->graph = stream->graph;
    if (result == CUDA_SUCCESS && !stream->graph) {
        event->recorded++;
        result = queue_event(stream, event, pass_event);
    }
    fake_unlock();
    return result;
}

/* A stream that waits for an event of a capture is captured into the same graph, in whose order
 * everything is done. */
CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream = fake_stream(handle);
    CUresult result;

    (void)flags;
    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && event->graph)
        stream->graph = event->graph;
    else if (result == CUDA_SUCCESS && stream->graph)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (result == CUDA_SUCCESS && event->recorded > event->done)
        result = queue_event(stream, event, await_event);
    fake_unlock();
    return result;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && event->graph)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (result == CUDA_SUCCESS && event->recorded > event->done)
        result = fake_advance(event->stream, event, event->recorded);
    fake_unlock();
    return result;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result;

    fake_lock(); /* others may look at it while a stream comes to it */
    result = event->done == event->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    fake_unlock();
    return result;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    if (start->recorded == 0 || end->recorded == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->done < start->recorded || end->done < end->recorded)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)(end->ms - start->ms);
    return CUDA_SUCCESS;
}
