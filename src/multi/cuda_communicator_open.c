/*
 * cuda_communicator_open.c - makes and closes a communicator over NCCL
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_communicator.h"
#include <string.h>

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
        status = cuda_nccl_exchange(g, c, &e, state->stream);
    if (status == GRAM_OK)
        status = cuda_nccl_wait(g, state, state->data);
    gram_free(g, each, (size_t)c->size * sizeof *each);
    return status;
}

static gram_status join(gram_context *g, gram_communicator *c, const struct nccl_id *id,
                        void **comm)
{
    const struct nccl_state *state = c->state;
    struct nccl_config config = {sizeof config, 0xcafebeef, OLDEST, 0};
    int result = state->call->open(comm, c->size, *id, c->rank, &config);

    return cuda_nccl_settle(g, state, *comm, result, "ncclCommInitRankConfig");
}

/* Rank 0 makes the id of the second communicator, and brings it to the others by the first one. */
static gram_status second_id(gram_context *g, const gram_communicator *c, struct nccl_id *id)
{
    const struct nccl_state *state = c->state;
    int64_t words[ID_WORDS];

    for (int i = 0; i < (int)ID_WORDS; i++)
        words[i] = INT64_MIN;
    if (c->rank == 0) {
        TRY(cuda_nccl_check(g, state, state->call->make_id(id), "ncclGetUniqueId"));
        memcpy(words, id, sizeof words);
    }
    TRY(cuda_nccl_largest(g, state, state->data, words, (int)ID_WORDS));
    memcpy(id, words, sizeof words);
    return GRAM_OK;
}

static gram_status join_both(gram_context *g, gram_communicator *c, const void *given)
{
    struct nccl_state *state = c->state;
    struct nccl_id id;

    memcpy(&id, given, sizeof id);
    TRY(take_memory(g, c));
    TRY(join(g, c, &id, &state->data));
    TRY(second_id(g, c, &id));
    TRY(join(g, c, &id, &state->control));
    return connect_ranks(g, c);
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
    if (cuda_nccl_settle(g, state, *comm, state->call->finalize(*comm), "ncclCommFinalize") ==
        GRAM_OK)
        (void)state->call->destroy(*comm);
    else
        (void)state->call->abort(*comm);
    *comm = NULL;
}

void cuda_nccl_close(gram_context *g, gram_communicator *c)
{
    struct nccl_state *state = c->state;
    const struct cuda_device *device;
    struct nccl_entered e;

    if (!state)
        return;
    device = state->device;
    e = cuda_nccl_enter(device);
    finish(g, state, &state->control);
    finish(g, state, &state->data);
    drop(g, c);
    cuda_nccl_leave(device, &e);
}

gram_status cuda_nccl_open(gram_context *g, const void *handle, size_t bytes, gram_communicator *c)
{
    const struct gram_nccl_rank *rank = handle;
    const struct cuda_nccl *call;
    struct nccl_state *state;
    struct nccl_entered e;
    gram_status status;
    int version = 0;

    (void)bytes;
    TRY(gram_cuda_nccl(g, &call));
    if (call->version(&version) != NCCL_SUCCESS || version < OLDEST)
        return gram_fail(g, GRAM_UNSUPPORTED, "NCCL has version %d, expected %d or newer", version,
                         OLDEST);
    state = gram_alloc(g, sizeof *state);
    if (!state)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *state);
    *state = (struct nccl_state){.call = call, .device = g->device, .timeout = rank->timeout};
    c->state = state;
    c->rank = rank->rank, c->size = rank->size;
    e = cuda_nccl_enter(state->device);
    status = join_both(g, c, rank->id);
    if (status != GRAM_OK) {
        cuda_nccl_give_up(state);
        drop(g, c);
    }
    cuda_nccl_leave(g->device, &e);
    return status;
}
