/*
 * cuda_communicator.c - the transport of a communicator over NCCL: see communicator.h
 *
 * Two communicators of NCCL.  Data go through the first one, on the stream of the context, and the
 * host does not wait for them.  The ranks agree through the second one, on a stream of its own, and
 * the host does wait for that: not for the work of the device, but for the other ranks to come.
 * NCCL itself never blocks: the host polls, so that a failure of NCCL, or ranks that do not come,
 * end the call, and what is on the device with it (ncclCommAbort).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_communicator.h"
#include <sched.h>
#include <string.h>
#include <time.h>

enum {
    BRIEFLY = 200000 /* ns that a wait lasts before the thread sleeps */
};

gram_status cuda_nccl_check(gram_context *g, const struct nccl_state *state, int result,
                            const char *what)
{
    if (result == NCCL_SUCCESS)
        return GRAM_OK;
    return gram_fail(g, GRAM_DEVICE_FAILED, "%s gives error %d, %s", what, result,
                     state->call->error_string(result));
}

static gram_status gone(gram_context *g)
{
    return gram_fail(g, GRAM_DEVICE_FAILED,
                     "the communicator was given up after a failure, expected a new one");
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* Gives the processor away between two looks; fails where the others do not come. */
static gram_status wait_more(gram_context *g, const struct nccl_state *state, int64_t start)
{
    const struct timespec nap = {.tv_nsec = 50000};
    int64_t passed = gram_nanoseconds() - start;

    if ((double)passed * 1e-9 > state->timeout)
        return gram_fail(g, GRAM_DEVICE_FAILED,
                         "the other ranks have not come within %g s (timeout)", state->timeout);
    if (passed < BRIEFLY)
        (void)sched_yield();
    else
        (void)nanosleep(&nap, NULL);
    return GRAM_OK;
}

gram_status cuda_nccl_settle(gram_context *g, const struct nccl_state *state, void *comm,
                             int result, const char *what)
{
    int64_t start = gram_nanoseconds();

    while (result == NCCL_IN_PROGRESS) {
        int failed;
        TRY(wait_more(g, state, start));
        failed = state->call->async_error(comm, &result);
        if (failed)
            result = failed;
    }
    return cuda_nccl_check(g, state, result, what);
}

gram_status cuda_nccl_wait(gram_context *g, const struct nccl_state *state, void *comm)
{
    const struct cuda_driver *driver = state->device->driver;
    int64_t start = gram_nanoseconds();
    CUresult result;

    while ((result = driver->stream_query(state->stream)) == CUDA_ERROR_NOT_READY) {
        TRY(wait_more(g, state, start));
        TRY(cuda_nccl_settle(g, state, comm, NCCL_IN_PROGRESS, "NCCL"));
    }
    return gram_cuda_check(g, driver, result, "cuStreamQuery");
}

void cuda_nccl_give_up(struct nccl_state *state)
{
    if (state->data)
        (void)state->call->abort(state->data);
    if (state->control)
        (void)state->call->abort(state->control);
    state->data = state->control = NULL;
}

/* ---- The thread's CUDA --------------------------------------------------------------------- */

/* A stream that somebody captures forbids this thread to look at others, unless it says so. */
struct nccl_entered cuda_nccl_enter(const struct cuda_device *device)
{
    struct nccl_entered e = {CU_STREAM_CAPTURE_MODE_RELAXED, gram_cuda_enter(device)};

    (void)device->driver->capture_mode(&e.mode);
    return e;
}

void cuda_nccl_leave(const struct cuda_device *device, struct nccl_entered *e)
{
    (void)device->driver->capture_mode(&e->mode);
    gram_cuda_leave(device, e->pushed);
}

/* ---- The largest values -------------------------------------------------------------------- */

gram_status cuda_nccl_largest(gram_context *g, const struct nccl_state *state, void *comm,
                              int64_t *values, int count)
{
    const struct cuda_driver *driver = state->device->driver;
    const CUdeviceptr host = (CUdeviceptr)(uintptr_t)state->values;
    void *there = (void *)(uintptr_t)state->there; // NOLINT(performance-no-int-to-ptr)
    size_t bytes = (size_t)count * sizeof *values;

    memcpy(state->values, values, bytes);
    TRY(gram_cuda_check(g, driver, driver->memory_copy(state->there, host, bytes, state->stream),
                        "cuMemcpyAsync"));
    TRY(cuda_nccl_settle(g, state, comm,
                         state->call->all_reduce(there, there, (size_t)count, NCCL_INT64, NCCL_MAX,
                                                 comm, state->stream),
                         "ncclAllReduce"));
    TRY(gram_cuda_check(g, driver, driver->memory_copy(host, state->there, bytes, state->stream),
                        "cuMemcpyAsync"));
    TRY(cuda_nccl_wait(g, state, comm));
    memcpy(values, state->values, bytes);
    return GRAM_OK;
}

static gram_status largest(gram_context *g, gram_communicator *c, int64_t *values, int count)
{
    struct nccl_state *state = c->state;
    struct nccl_entered e;
    gram_status status;

    if (!state->control)
        return gone(g);
    e = cuda_nccl_enter(state->device);
    status = cuda_nccl_largest(g, state, state->control, values, count);
    if (status != GRAM_OK)
        cuda_nccl_give_up(state);
    cuda_nccl_leave(state->device, &e);
    return status;
}

/* A failure that NCCL has met since: where this rank learns of it, it tells the others. */
static gram_status look(gram_context *g, gram_communicator *c)
{
    const struct nccl_state *state = c->state;
    int result = NCCL_SUCCESS, failed;

    if (!state->data)
        return gone(g);
    failed = state->call->async_error(state->data, &result);
    return cuda_nccl_check(g, state, failed ? failed : result, "NCCL");
}

/* ---- The exchange -------------------------------------------------------------------------- */

static int queue_chunks(const struct nccl_state *state, const gram_communicator *c,
                        const struct gram_exchange *e, CUstream stream)
{
    const struct cuda_nccl *call = state->call;
    const char *from = e->send;
    char *to = e->receive;
    int result = NCCL_SUCCESS;

    for (int rank = 0; rank < c->size && result == NCCL_SUCCESS; rank++) {
        if (rank != c->rank && e->send_bytes[rank] > 0)
            result = call->send(from, e->send_bytes[rank], NCCL_BYTE, rank, state->data, stream);
        if (result == NCCL_SUCCESS && rank != c->rank && e->receive_bytes[rank] > 0)
            result =
                call->receive(to, e->receive_bytes[rank], NCCL_BYTE, rank, state->data, stream);
        from += e->send_bytes[rank];
        to += e->receive_bytes[rank];
    }
    return result;
}

gram_status cuda_nccl_exchange(gram_context *g, const gram_communicator *c,
                               const struct gram_exchange *e, CUstream stream)
{
    const struct nccl_state *state = c->state;
    const struct cuda_driver *driver = state->device->driver;
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)e->send, to = (CUdeviceptr)(uintptr_t)e->receive;
    int queued, ended;

    for (int rank = 0; rank < c->rank; rank++)
        from += e->send_bytes[rank], to += e->receive_bytes[rank];
    if (e->send_bytes[c->rank] > 0)
        TRY(gram_cuda_check(g, driver,
                            driver->memory_copy(to, from, e->send_bytes[c->rank], stream),
                            "cuMemcpyAsync"));
    TRY(cuda_nccl_check(g, state, state->call->group_start(), "ncclGroupStart"));
    queued = queue_chunks(state, c, e, stream);
    ended = state->call->group_end();
    TRY(cuda_nccl_settle(g, state, state->data, queued, "ncclSend or ncclRecv"));
    return cuda_nccl_settle(g, state, state->data, ended, "ncclGroupEnd");
}

static gram_status exchange(gram_context *g, gram_communicator *c, const struct gram_exchange *e)
{
    struct nccl_state *state = c->state;
    struct nccl_entered entered;
    gram_status status;

    if (!state->data)
        return gone(g);
    entered = cuda_nccl_enter(state->device);
    status = cuda_nccl_exchange(g, c, e, state->device->stream);
    cuda_nccl_leave(state->device, &entered);
    return status;
}

static void abandon(gram_communicator *c)
{
    struct nccl_state *state = c->state;
    struct nccl_entered e = cuda_nccl_enter(state->device);

    cuda_nccl_give_up(state);
    cuda_nccl_leave(state->device, &e);
}

static gram_status make_id(gram_context *g, void *id)
{
    struct nccl_state state = {.device = g->device};
    bool entered;
    int result;

    TRY(gram_cuda_nccl(g, &state.call));
    entered = gram_cuda_enter(g->device);
    result = state.call->make_id(id);
    gram_cuda_leave(g->device, entered);
    return cuda_nccl_check(g, &state, result, "ncclGetUniqueId");
}

GRAM_PUBLIC extern const struct gram_transport gram_nccl_transport;

const struct gram_transport gram_nccl_transport = {
    .version = GRAM_VERSION,
    .name = "NCCL",
    .device = GRAM_CUDA,
    .make_id = make_id,
    .open = cuda_nccl_open,
    .close = cuda_nccl_close,
    .look = look,
    .largest = largest,
    .exchange = exchange,
    .abandon = abandon,
};
