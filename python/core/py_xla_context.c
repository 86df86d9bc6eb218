/*
 * py_xla_context.c - idle contexts for the calls of XLA's programs
 *
 * XLA calls the handler from its own threads, without the interpreter's lock, and does not pass a
 * pointer of ours.  Idle contexts are therefore kept in this file, protected by a lock.  On CUDA, a
 * context belongs to a device and a stream, and takes its scratch memory from XLA's allocator for
 * the time of one call.
 *
 * The lock is not in the table of the library's src/core/process.h, which this extension cannot
 * see, but is treated like the locks there. fork() waits until the lock is free, because a child
 * may need it (gram.set_threads), whatever XLA's threads were doing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_xla.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_IDLE = 16,
    ALIGNMENT = 16 /* the most that XLA lets a handler ask for; its memory has 256 */
};

static struct {
    pthread_mutex_t lock;
    struct py_xla_context *idle[MOST_IDLE]; /* the one that waits longest is the first */
    int count;
    int threads, generation; /* contexts of an older generation have other threads */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_process_now(void)
{
    pthread_mutex_lock(&process.lock);
}

static void unlock_process(void)
{
    pthread_mutex_unlock(&process.lock);
}

/* Without memory for this note a child may find the lock held, which takes a moment of bad luck. */
static void begin(void)
{
    (void)pthread_atfork(lock_process_now, unlock_process, unlock_process);
}

static void lock_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, begin);
    lock_process_now();
}

static void destroy(struct py_xla_context *context)
{
    if (context)
        gram_context_destroy(context->g);
    free(context);
}

void py_xla_set_threads(int threads)
{
    struct py_xla_context *old[MOST_IDLE];
    int count;

    lock_process();
    process.threads = threads;
    process.generation++;
    count = process.count;
    memcpy(old, process.idle, sizeof old);
    process.count = 0;
    unlock_process();
    for (int i = 0; i < count; i++)
        destroy(old[i]);
}

/* ---- Scratch on a device: the stream is the frame's -------------------------------------- */

static void forget(const struct xla_api *api, struct xla_error *error)
{
    struct xla_error_end end = {sizeof end, NULL, error};

    if (error)
        api->destroy_error(&end);
}

static void release(void *user, void *memory, size_t bytes, void *stream)
{
    const struct py_xla_context *context = user;
    const struct xla_frame *frame = context->frame;
    struct xla_release r = {sizeof r, NULL, frame->context, bytes, memory};

    (void)stream;
    forget(frame->api, frame->api->release(&r));
}

static void *allocate(void *user, size_t bytes, void *stream)
{
    const struct py_xla_context *context = user;
    const struct xla_frame *frame = context->frame;
    struct xla_allocation a = {sizeof a, NULL, frame->context, bytes, ALIGNMENT, NULL};
    struct xla_error *error = frame->api->allocate(&a);

    forget(frame->api, error);
    if (error || (uintptr_t)a.data % 64 == 0)
        return error ? NULL : a.data;
    release(user, a.data, bytes, stream); /* as of no allocator of XLA's for CUDA */
    return NULL;
}

/* ---- Contexts ----------------------------------------------------------------------------- */

static bool fits(const struct py_xla_context *context, gram_device device, void *stream)
{
    return context->device.type == device.type && context->device.index == device.index &&
           context->stream == stream;
}

/* One that waits, taken from the list; or NULL. */
static struct py_xla_context *find(gram_device device, void *stream)
{
    for (int i = process.count - 1; i >= 0; i--) {
        struct py_xla_context *found = process.idle[i];
        if (!fits(found, device, stream))
            continue;
        process.count--;
        memmove(process.idle + i, process.idle + i + 1,
                (size_t)(process.count - i) * sizeof(struct py_xla_context *));
        return found;
    }
    return NULL;
}

gram_status py_xla_take(const struct xla_frame *frame, gram_device device, void *stream,
                        struct py_xla_context **out)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    struct py_xla_context *context;
    gram_status status = GRAM_OK;
    int generation;

    lock_process();
    context = find(device, stream);
    generation = process.generation;
    options.threads = process.threads;
    unlock_process();
    if (!context) {
        context = calloc(1, sizeof *context);
        if (!context)
            return GRAM_OUT_OF_MEMORY;
        *context =
            (struct py_xla_context){.device = device, .stream = stream, .generation = generation};
        options.device = device;
        options.stream = stream;
        if (device.type == GRAM_CUDA) {
            options.allocate_device = allocate;
            options.release_device = release;
            options.device_user = context;
        }
        status = gram_context_create(&options, &context->g);
    }
    if (status != GRAM_OK) {
        free(context);
        return status;
    }
    context->frame = frame;
    *out = context;
    return GRAM_OK;
}

void py_xla_give(struct py_xla_context *context)
{
    struct py_xla_context *longest = NULL;
    gram_status status;

    if (context->device.type == GRAM_CUDA) { /* XLA's memory is the call's */
        status = gram_context_use_workspace(context->g, NULL, 0);
        (void)status; /* a device that has died is told by the next call */
    }
    context->frame = NULL;
    lock_process();
    if (context->generation == process.generation) {
        if (process.count == MOST_IDLE) {
            longest = process.idle[0];
            memmove(process.idle, process.idle + 1,
                    (size_t)--process.count * sizeof(struct py_xla_context *));
        }
        process.idle[process.count++] = context;
        context = NULL;
    }
    unlock_process();
    destroy(longest);
    destroy(context);
}
