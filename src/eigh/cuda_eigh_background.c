/*
 * cuda_eigh_background.c - a thread of the context waits inside cuSOLVER, the caller does not
 *
 * Xsyevd and Xsyevdx keep the calling thread until the device is done.  With options.background a
 * thread calls them, on a stream that begins behind what the context's stream holds at the call.
 * It touches nothing of the context but cuSOLVER's handle and the scratch: whoever needs one of
 * these, or ends the context, first joins it here, which queues what is left to do on the
 * context's stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_eigh_background.h"
#include <pthread.h>
#include <stdio.h>

struct cuda_background {
    const struct cuda_device *device;
    CUstream stream;
    CUevent begin; /* what the context's stream held at the call */
    pthread_t thread;
    bool running;
    gram_status status; /* of the last one, until somebody asks; message: why */
    char message[512];
    /* The work, and what became of it. */
    struct gram_eigh_op op;
    struct cuda_eigh_plan plan;
    struct cuda_eigh_large large;
    struct eigh_chunk_params params;
    int solved;      /* cuSOLVER's status */
    CUresult waited; /* for the stream */
};

static void *run(void *argument)
{
    struct cuda_background *b = argument;
    bool entered = gram_cuda_enter(b->device);

    b->solved = cuda_eigh_large_solve(&b->large, 1);
    b->waited = b->device->driver->stream_synchronize(b->stream);
    gram_cuda_leave(b->device, entered);
    return NULL;
}

/* The context's, made at the first call. */
static gram_status open_background(gram_context *g, struct cuda_background **out)
{
    struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;
    struct cuda_background *b = device->background;

    if (!b) {
        b = gram_alloc(g, sizeof *b);
        if (!b)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *b);
        *b = (struct cuda_background){.device = device};
        device->background = b;
    }
    if (!b->stream)
        TRY(gram_cuda_check(g, driver, driver->stream_create(&b->stream, CU_STREAM_NON_BLOCKING),
                            "cuStreamCreate"));
    if (!b->begin)
        TRY(gram_cuda_check(g, driver, driver->event_create(&b->begin, CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate"));
    *out = b;
    return GRAM_OK;
}

gram_status cuda_eigh_background(gram_context *g, const struct cuda_eigh_large *large,
                                 const struct eigh_chunk_params *params)
{
    const struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;
    const struct cuda_solver *solver = large->solver;
    struct cuda_background *b;

    TRY(open_background(g, &b));
    TRY(gram_cuda_check(g, driver, driver->event_record(b->begin, device->stream),
                        "cuEventRecord"));
    TRY(gram_cuda_check(g, driver, driver->stream_wait(b->stream, b->begin, 0),
                        "cuStreamWaitEvent"));
    b->op = *large->plan->op;
    b->op.report = NULL; /* the caller's */
    b->plan = *large->plan;
    b->plan.op = &b->op;
    b->large = *large;
    b->large.plan = &b->plan;
    b->params = *params;
    TRY(gram_cuda_solver_check(g, solver->call->set_stream(solver->handle, b->stream),
                               "cusolverDnSetStream"));
    b->running = pthread_create(&b->thread, NULL, run, b) == 0;
    if (b->running)
        return GRAM_OK;
    (void)solver->call->set_stream(solver->handle, device->stream);
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot start a thread");
}

/* What the thread met, and the rest of the work. */
static gram_status finish(gram_context *g, struct cuda_background *b)
{
    const struct cuda_device *device = b->device;
    const struct cuda_solver *solver = b->large.solver;

    TRY(gram_cuda_solver_check(g, solver->call->set_stream(solver->handle, device->stream),
                               "cusolverDnSetStream"));
    TRY(gram_cuda_solver_check(g, b->solved, "cusolverDnXsyev*"));
    TRY(gram_cuda_check(g, device->driver, b->waited, "cuStreamSynchronize"));
    return cuda_eigh_large_store(g, &b->large, &b->params);
}

void gram_cuda_join(gram_context *g)
{
    const struct cuda_device *device = g->device;
    struct cuda_background *b = device->background;
    gram_status status;
    bool entered;

    if (!b || !b->running)
        return;
    (void)pthread_join(b->thread, NULL);
    b->running = false;
    entered = gram_cuda_enter(device);
    status = finish(g, b);
    gram_cuda_leave(device, entered);
    if (status == GRAM_OK)
        return;
    b->status = status;
    snprintf(b->message, sizeof b->message, "%s", g->message);
}

gram_status gram_cuda_joined(gram_context *g)
{
    struct cuda_device *device = g->device;
    struct cuda_background *b = device->background;
    gram_status status;

    gram_cuda_join(g);
    if (!b || b->status == GRAM_OK)
        return GRAM_OK;
    status = b->status;
    b->status = GRAM_OK;
    return gram_fail(g, status, "what gram_eigh began in the background: %s", b->message);
}

void gram_cuda_background_close(gram_context *g, struct cuda_device *device)
{
    struct cuda_background *b = device->background;
    bool entered;

    if (!b)
        return;
    gram_cuda_join(g);
    entered = gram_cuda_enter(device);
    if (b->begin)
        (void)device->driver->event_destroy(b->begin);
    if (b->stream)
        (void)device->driver->stream_destroy(b->stream);
    gram_cuda_leave(device, entered);
    gram_free(g, b, sizeof *b);
    device->background = NULL;
}
