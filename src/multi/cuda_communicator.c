/*
 * cuda_communicator.c - the transport of a communicator over NCCL: see communicator.h
 *
 * Two communicators of NCCL.  Data go through the first one, on the stream of the context, and the
 * host does not wait for them.  The ranks agree through the second one, on a stream of its own, and
 * the host does wait for that: not for the work of the device, but for the other ranks to come.
 * NCCL itself never blocks: the host polls, so that a failure of NCCL, or ranks that do not come,
 * end the call, and what is on the device with it (ncclCommAbort).  Where a rank dies after it has
 * agreed, its data do not come: a thread looks after those (cuda_watch.h), which the host may be
 * waiting for by its stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "communicator.h"
#include "cuda/cuda_ops.h"
#include "cuda/nccl.h"
#include "cuda_watch.h"
#include <stdio.h>
#include <string.h>

enum {
    NAP = 50000 /* ns, the longest: what NCCL has begun goes on only while the host looks */
};

/* ---- The library ----------------------------------------------------------------------------- */

#define AT(member) offsetof(struct cuda_nccl, member)
static const struct cuda_symbol symbols[] = {
    {        "ncclGetVersion",      AT(version)},
    {    "ncclGetErrorString", AT(error_string)},
    {       "ncclGetUniqueId",      AT(make_id)},
    {"ncclCommInitRankConfig",         AT(open)},
    {      "ncclCommFinalize",     AT(finalize)},
    {       "ncclCommDestroy",      AT(destroy)},
    {         "ncclCommAbort",        AT(abort)},
    { "ncclCommGetAsyncError",  AT(async_error)},
    {        "ncclGroupStart",  AT(group_start)},
    {          "ncclGroupEnd",    AT(group_end)},
    {              "ncclSend",         AT(send)},
    {              "ncclRecv",      AT(receive)},
    {         "ncclAllReduce",   AT(all_reduce)},
    {                    NULL,                0},
};

static struct cuda_nccl functions;
static struct cuda_opened opened = {
    .name = "NCCL",
    .files = {"libnccl.so.2"},
    .package = "nvidia-nccl-cu13 or nvidia-nccl-cu12",
    .symbols = symbols,
    .into = &functions,
    .bytes = sizeof functions,
};

/* GRAM_UNSUPPORTED, with the reason, where there is no NCCL. */
static gram_status open_library(gram_context *g, const struct cuda_nccl **out)
{
    *out = &functions;
    return gram_cuda_open(g, &opened);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

struct nccl_state {
    const struct cuda_nccl *call;
    const struct cuda_device *device;
    void *data, *control;     /* NULL once they are given up */
    CUstream stream;          /* of control */
    int64_t *values;          /* pinned memory of the host */
    CUdeviceptr there;        /* the same of the device */
    double timeout;           /* seconds */
    struct cuda_watch *watch; /* of data; its lock is around calls of both; NULL until they are */
    char why[160];            /* it has given them up; "": it has not */
};

/* The thread's CUDA while it is in here. */
struct nccl_entered {
    CUstreamCaptureMode mode;
    bool pushed;
};

static gram_status check(gram_context *g, const struct nccl_state *state, int result,
                         const char *what)
{
    if (result == NCCL_SUCCESS)
        return GRAM_OK;
    return gram_fail(g, GRAM_DEVICE_FAILED, "%s failed with error %d, %s", what, result,
                     state->call->error_string(result));
}

static gram_status gone(gram_context *g, const struct nccl_state *state)
{
    return gram_fail(g, GRAM_DEVICE_FAILED, "%s",
                     *state->why
                         ? state->why
                         : "the communicator cannot be used after a failure, expected a new one");
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Gives the processor away between two looks; fails where the others do not come. */
static gram_status wait_more(gram_context *g, const struct nccl_state *state, int64_t start)
{
    const int64_t passed = gram_nanoseconds() - start;

    if ((double)passed * 1e-9 > state->timeout)
        return gram_fail(g, GRAM_DEVICE_FAILED,
                         "the other ranks did not make the call within %g s, which is the timeout",
                         state->timeout);
    gram_wait_a_little(passed, NAP);
    return GRAM_OK;
}

static gram_status settle(gram_context *g, const struct nccl_state *state, void *comm, int result,
                          const char *what)
{
    int64_t start = gram_nanoseconds();

    while (result == NCCL_IN_PROGRESS) {
        int failed;
        TRY(wait_more(g, state, start));
        failed = state->call->async_error(comm, &result);
        if (failed)
            result = failed;
    }
    return check(g, state, result, what);
}

static gram_status wait_here(gram_context *g, const struct nccl_state *state, void *comm)
{
    const struct cuda_driver *driver = state->device->driver;
    int64_t start = gram_nanoseconds();
    CUresult result;

    while ((result = driver->stream_query(state->stream)) == CUDA_ERROR_NOT_READY) {
        TRY(wait_more(g, state, start));
        TRY(settle(g, state, comm, NCCL_IN_PROGRESS, "NCCL"));
    }
    return gram_cuda_check(g, driver, result, "cuStreamQuery");
}

static void give_up(struct nccl_state *state)
{
    if (state->data)
        (void)state->call->abort(state->data);
    if (state->control)
        (void)state->call->abort(state->control);
    state->data = state->control = NULL;
}

/* What the watch looks for, and does, under its lock. */
static bool has_failed(void *user)
{
    struct nccl_state *state = user;
    int result = NCCL_SUCCESS, failed;

    if (!state->data)
        return false;
    failed = state->call->async_error(state->data, &result);
    result = failed ? failed : result;
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return false;
    (void)snprintf(state->why, sizeof state->why, "NCCL failed with error %d, %s", result,
                   state->call->error_string(result));
    return true;
}

/* After a failure of NCCL the ranks can still tell each other; a rank whose data do not come is not
 * waited for twice. */
static void give_up_watched(void *user, bool late)
{
    struct nccl_state *state = user;

    if (late) {
        (void)snprintf(state->why, sizeof state->why,
                       "the other ranks did not finish an exchange within %g s, which is the "
                       "timeout",
                       state->timeout);
        give_up(state);
    } else if (state->data) {
        (void)state->call->abort(state->data);
        state->data = NULL;
    }
}

/* ---- The thread's CUDA ----------------------------------------------------------------------- */

/* A stream that somebody captures forbids this thread to look at others, unless it says so. */
static struct nccl_entered enter(const struct cuda_device *device)
{
    struct nccl_entered e = {CU_STREAM_CAPTURE_MODE_RELAXED, gram_cuda_enter(device)};

    (void)device->driver->capture_mode(&e.mode);
    return e;
}

static void leave(const struct cuda_device *device, struct nccl_entered *e)
{
    (void)device->driver->capture_mode(&e->mode);
    gram_cuda_leave(device, e->pushed);
}

/* ---- The largest values ---------------------------------------------------------------------- */

static gram_status find_largest(gram_context *g, const struct nccl_state *state, void *comm,
                                int64_t *values, int count)
{
    const struct cuda_driver *driver = state->device->driver;
    const CUdeviceptr host = (CUdeviceptr)(uintptr_t)state->values;
    void *there = (void *)(uintptr_t)state->there; // NOLINT(performance-no-int-to-ptr)
    size_t bytes = (size_t)count * sizeof *values;

    memcpy(state->values, values, bytes);
    TRY(gram_cuda_check(g, driver, driver->memory_copy(state->there, host, bytes, state->stream),
                        "cuMemcpyAsync"));
    TRY(settle(g, state, comm,
               state->call->all_reduce(there, there, (size_t)count, NCCL_INT64, NCCL_MAX, comm,
                                       state->stream),
               "ncclAllReduce"));
    TRY(gram_cuda_check(g, driver, driver->memory_copy(host, state->there, bytes, state->stream),
                        "cuMemcpyAsync"));
    TRY(wait_here(g, state, comm));
    memcpy(values, state->values, bytes);
    return GRAM_OK;
}

static gram_status largest(gram_context *g, gram_communicator *c, int64_t *values, int count)
{
    struct nccl_state *state = c->state;
    struct nccl_entered e = enter(state->device);
    gram_status status;

    gram_cuda_watch_lock(state->watch);
    status =
        state->control ? find_largest(g, state, state->control, values, count) : gone(g, state);
    if (status != GRAM_OK)
        give_up(state);
    gram_cuda_watch_unlock(state->watch);
    leave(state->device, &e);
    return status;
}

/* A failure that NCCL has met since: where this rank learns of it, it tells the others. */
static gram_status look(gram_context *g, gram_communicator *c)
{
    const struct nccl_state *state = c->state;
    int result = NCCL_SUCCESS, failed;
    gram_status status;

    gram_cuda_watch_lock(state->watch);
    if (state->data) {
        failed = state->call->async_error(state->data, &result);
        status = check(g, state, failed ? failed : result, "NCCL");
    } else {
        status = gone(g, state);
    }
    gram_cuda_watch_unlock(state->watch);
    return status;
}

/* ---- The exchange ---------------------------------------------------------------------------- */

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
        from += e->to_all ? 0 : e->send_bytes[rank];
        to += e->receive_bytes[rank];
    }
    return result;
}

static gram_status queue_exchange(gram_context *g, const gram_communicator *c,
                                  const struct gram_exchange *e, CUstream stream)
{
    const struct nccl_state *state = c->state;
    const struct cuda_driver *driver = state->device->driver;
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)e->send, to = (CUdeviceptr)(uintptr_t)e->receive;
    int queued, ended;

    for (int rank = 0; rank < c->rank; rank++)
        from += e->to_all ? 0 : e->send_bytes[rank], to += e->receive_bytes[rank];
    if (e->send_bytes[c->rank] > 0 && from != to)
        TRY(gram_cuda_check(g, driver,
                            driver->memory_copy(to, from, e->send_bytes[c->rank], stream),
                            "cuMemcpyAsync"));
    TRY(check(g, state, state->call->group_start(), "ncclGroupStart"));
    queued = queue_chunks(state, c, e, stream);
    ended = state->call->group_end();
    TRY(settle(g, state, state->data, queued, "ncclSend or ncclRecv"));
    return settle(g, state, state->data, ended, "ncclGroupEnd");
}

static gram_status exchange(gram_context *g, gram_communicator *c, const struct gram_exchange *e)
{
    struct nccl_state *state = c->state;
    struct nccl_entered entered = enter(state->device);
    const CUstream stream = state->device->stream;
    gram_status status;

    gram_cuda_watch_lock(state->watch);
    if (state->data) {
        gram_cuda_watch_begin(state->watch, stream);
        status = queue_exchange(g, c, e, stream);
        gram_cuda_watch_end(state->watch, stream);
    } else {
        status = gone(g, state);
    }
    gram_cuda_watch_unlock(state->watch);
    leave(state->device, &entered);
    return status;
}

static void abandon(gram_communicator *c)
{
    struct nccl_state *state = c->state;
    struct nccl_entered e = enter(state->device);

    gram_cuda_watch_lock(state->watch);
    give_up(state);
    gram_cuda_watch_unlock(state->watch);
    leave(state->device, &e);
}

static gram_status make_id(gram_context *g, void *id)
{
    struct nccl_state state = {.device = g->device};
    bool entered;
    int result;

    TRY(open_library(g, &state.call));
    entered = gram_cuda_enter(g->device);
    result = state.call->make_id(id);
    gram_cuda_leave(g->device, entered);
    return check(g, &state, result, "ncclGetUniqueId");
}

/* ---- Making and closing a communicator ------------------------------------------------------- */

enum {
    OLDEST = 21400, /* ncclCommInitRankConfig */
    ID_WORDS = GRAM_NCCL_ID_BYTES / sizeof(int64_t)
};

/* For GRAM_MAX_COMMON values and their opposites; for a number to and from each rank. */
static size_t value_bytes(const gram_communicator *c)
{
    return sizeof(int64_t) * gram_most_bytes(1 + 2 * GRAM_MAX_COMMON, 2 * (size_t)c->size);
}

static gram_status take_memory(gram_context *g, gram_communicator *c)
{
    struct nccl_state *state = c->state;
    const struct cuda_driver *driver = state->device->driver;
    void *host = NULL;

    TRY(gram_cuda_check(g, driver, driver->stream_create(&state->stream, CU_STREAM_NON_BLOCKING),
                        "cuStreamCreate"));
    TRY(gram_cuda_check(g, driver, driver->memory_host_allocate(&host, value_bytes(c), 0),
                        "cuMemHostAlloc"));
    state->values = host;
    return gram_cuda_check(g, driver, driver->memory_allocate(&state->there, value_bytes(c)),
                           "cuMemAlloc");
}

/* A number from each to each: NCCL connects two ranks when they first talk, which takes both. */
static gram_status connect_ranks(gram_context *g, gram_communicator *c)
{
    const struct nccl_state *state = c->state;
    const struct cuda_driver *driver = state->device->driver;
    size_t bytes = (size_t)c->size * sizeof(int64_t);
    // NOLINTBEGIN(performance-no-int-to-ptr)
    struct gram_exchange e = {.send = (const char *)(uintptr_t)state->there,
                              .receive = (char *)(uintptr_t)(state->there + bytes)};
    // NOLINTEND(performance-no-int-to-ptr)
    size_t *each = gram_alloc(g, (size_t)c->size * sizeof *each);
    gram_status status;

    if (!each)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a table of %d ranks", c->size);
    for (int rank = 0; rank < c->size; rank++)
        each[rank] = sizeof(int64_t);
    e.send_bytes = e.receive_bytes = each;
    status =
        gram_cuda_check(g, driver, driver->memory_set(state->there, 0, 2 * bytes, state->stream),
                        "cuMemsetD8Async");
    if (status == GRAM_OK)
        status = queue_exchange(g, c, &e, state->stream);
    if (status == GRAM_OK)
        status = wait_here(g, state, state->data);
    gram_free(g, each, (size_t)c->size * sizeof *each);
    return status;
}

static gram_status join(gram_context *g, gram_communicator *c, const struct nccl_id *id,
                        void **comm)
{
    const struct nccl_state *state = c->state;
    struct nccl_config config = {sizeof config, 0xcafebeef, OLDEST, 0};
    int result = state->call->open(comm, c->size, *id, c->rank, &config);

    return settle(g, state, *comm, result, "ncclCommInitRankConfig");
}

/* Rank 0 makes the id of the second communicator, and brings it to the others by the first one. */
static gram_status second_id(gram_context *g, const gram_communicator *c, struct nccl_id *id)
{
    const struct nccl_state *state = c->state;
    int64_t words[ID_WORDS];

    for (int i = 0; i < (int)ID_WORDS; i++)
        words[i] = INT64_MIN;
    if (c->rank == 0) {
        TRY(check(g, state, state->call->make_id(id), "ncclGetUniqueId"));
        memcpy(words, id, sizeof words);
    }
    TRY(find_largest(g, state, state->data, words, (int)ID_WORDS));
    memcpy(id, words, sizeof words);
    return GRAM_OK;
}

static gram_status join_both(gram_context *g, gram_communicator *c, const void *given)
{
    struct nccl_state *state = c->state;
    const struct cuda_watched watched = {has_failed, give_up_watched, state, state->timeout};
    struct nccl_id id;

    memcpy(&id, given, sizeof id);
    TRY(take_memory(g, c));
    TRY(join(g, c, &id, &state->data));
    TRY(second_id(g, c, &id));
    TRY(join(g, c, &id, &state->control));
    TRY(connect_ranks(g, c));
    return gram_cuda_watch_open(g, &watched, &state->watch);
}

static void drop(gram_context *g, gram_communicator *c)
{
    struct nccl_state *state = c->state;
    const struct cuda_driver *driver = state->device->driver;

    if (state->there)
        (void)driver->memory_free(state->there);
    if (state->values)
        (void)driver->memory_host_free(state->values);
    if (state->stream)
        (void)driver->stream_destroy(state->stream);
    gram_free(g, state, sizeof *state);
    c->state = NULL;
}

/* Lets the work that is queued end, and where it does not, ends it. */
static void finish(gram_context *g, struct nccl_state *state, void **comm)
{
    if (!*comm)
        return;
    if (settle(g, state, *comm, state->call->finalize(*comm), "ncclCommFinalize") == GRAM_OK)
        (void)state->call->destroy(*comm);
    else
        (void)state->call->abort(*comm);
    *comm = NULL;
}

static void close_nccl(gram_context *g, gram_communicator *c)
{
    struct nccl_state *state = c->state;
    const struct cuda_device *device;
    struct nccl_entered e;

    if (!state)
        return;
    device = state->device;
    e = enter(device);
    gram_cuda_watch_close(g, state->watch);
    finish(g, state, &state->control);
    finish(g, state, &state->data);
    drop(g, c);
    leave(device, &e);
}

static gram_status open_nccl(gram_context *g, const void *handle, size_t bytes,
                             gram_communicator *c)
{
    const struct gram_nccl_rank *rank = handle;
    const struct cuda_nccl *call;
    struct nccl_state *state;
    struct nccl_entered e;
    gram_status status;
    int version = 0;

    (void)bytes;
    TRY(open_library(g, &call));
    if (call->version(&version) != NCCL_SUCCESS || version < OLDEST)
        return gram_fail(g, GRAM_UNSUPPORTED, "NCCL has version %d, expected %d or newer", version,
                         OLDEST);
    state = gram_alloc(g, sizeof *state);
    if (!state)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *state);
    *state = (struct nccl_state){.call = call, .device = g->device, .timeout = rank->timeout};
    c->state = state;
    c->rank = rank->rank, c->size = rank->size;
    e = enter(state->device);
    status = join_both(g, c, rank->id);
    if (status != GRAM_OK) {
        give_up(state);
        drop(g, c);
    }
    leave(g->device, &e);
    return status;
}

GRAM_PUBLIC extern const struct gram_transport gram_nccl_transport;

const struct gram_transport gram_nccl_transport = {
    .version = GRAM_VERSION,
    .name = "NCCL",
    .device = GRAM_CUDA,
    .make_id = make_id,
    .open = open_nccl,
    .close = close_nccl,
    .look = look,
    .largest = largest,
    .exchange = exchange,
    .abandon = abandon,
};
