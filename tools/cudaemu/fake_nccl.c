/*
 * fake_nccl.c - libnccl.so.2 for the threads of one process: what src/cuda/nccl.h opens
 *
 * As NVIDIA's when it does not block: what needs the other ranks is in progress until they have
 * come (making a communicator, the first messages, an all-reduce here), and work lies in the
 * streams.  An exchange to which a rank has not come is one that a device would wait for for ever:
 * to wait for it ends the process.  ncclCommAbort makes what of a rank lies in its streams nothing.
 *
 * GRAM_FAKE_NCCL_VERSION is what ncclGetVersion tells.  Of rank GRAM_FAKE_NCCL_RANK (0):
 * GRAM_FAKE_NCCL_SEND makes ncclSend fail with this error, GRAM_FAKE_NCCL_ASYNC is an error that a
 * communicator which has sent messages has met in the background.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_nccl.h"
#include <stdlib.h>
#include <string.h>

struct id {
    char internal[ID_BYTES];
};

struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

static struct team *teams;
static uint64_t ids;

/* The group that a thread has open. */
static _Thread_local struct {
    int depth;
    struct comm *comm;
    struct post post;
} open;

/* ---- Groups -------------------------------------------------------------------------------- */

static bool is_failing(const char *what, const struct comm *comm, int *result)
{
    long error = fake_setting(what, 0);

    *result = (int)error;
    return error != 0 && comm->rank == fake_setting("GRAM_FAKE_NCCL_RANK", 0);
}

static int add(struct comm *comm, const struct part *part, CUstream stream)
{
    struct post *p = &open.post;
    int device = comm->team->device[comm->rank] - 1;

    if (open.depth == 0 || p->count == MOST_PARTS || (open.comm && open.comm != comm) ||
        part->peer < 0 || part->peer >= comm->team->ranks ||
        (part->bytes > 0 && fake_memory_device((uintptr_t)part->data) != device) ||
        fake_current_device() != device)
        return INVALID_ARGUMENT;
    open.comm = comm;
    p->stream = stream;
    p->part[p->count++] = *part;
    return SUCCESS;
}

int ncclGroupStart(void)
{
    open.depth++;
    return SUCCESS;
}

int ncclGroupEnd(void)
{
    struct comm *comm = open.comm;
    int result = SUCCESS;

    if (open.depth == 0)
        return INVALID_USAGE;
    if (--open.depth > 0)
        return SUCCESS;
    if (comm) {
        fake_lock();
        result = fake_nccl_post(comm, &open.post);
        fake_unlock();
    }
    open.comm = NULL;
    open.post = (struct post){.count = 0};
    return result;
}

int ncclSend(const void *from, size_t count, int type, int peer, void *comm, CUstream stream)
{
    const struct part part = {.sends = true, .data = (void *)from, .bytes = count, .peer = peer};
    int result;

    if (is_failing("GRAM_FAKE_NCCL_SEND", comm, &result))
        return result;
    return type == 0 ? add(comm, &part, stream) : INVALID_ARGUMENT;
}

int ncclRecv(void *to, size_t count, int type, int peer, void *comm, CUstream stream)
{
    const struct part part = {.data = to, .bytes = count, .peer = peer};

    return type == 0 ? add(comm, &part, stream) : INVALID_ARGUMENT;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *comm,
                  CUstream stream)
{
    const struct part part = {.reduces = true, .data = to, .bytes = count * sizeof(int64_t)};
    int result;

    if (type != INT64 || operation != MAX || from != to)
        return INVALID_ARGUMENT;
    (void)ncclGroupStart();
    result = add(comm, &part, stream);
    return result == SUCCESS ? ncclGroupEnd() : (open.depth--, result);
}

/* ---- Communicators ------------------------------------------------------------------------- */

int ncclGetVersion(int *version)
{
    *version = (int)fake_setting("GRAM_FAKE_NCCL_VERSION", 22800);
    return SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == UNHANDLED ? "unhandled cuda error" : "a failure of the fake NCCL";
}

int ncclGetUniqueId(struct id *id)
{
    memset(id, 0, sizeof *id);
    fake_lock();
    ids++;
    memcpy(id->internal, &ids, sizeof ids);
    fake_unlock();
    return SUCCESS;
}

static struct team *team_of(uint64_t id, int ranks)
{
    struct team *team = teams;

    while (team && team->id != id)
        team = team->next;
    if (!team && (team = fake_handle(sizeof *team))) {
        *team = (struct team){.next = teams, .id = id, .ranks = ranks};
        teams = team;
    }
    return team;
}

static struct comm *member(struct team *team, int rank)
{
    struct comm *comm = calloc(1, sizeof *comm);

    if (comm)
        *comm = (struct comm){.team = team, .rank = rank};
    return comm;
}

int ncclCommInitRankConfig(void **out, int ranks, struct id id, int rank, struct config *config)
{
    struct comm *comm;
    struct team *team;
    uint64_t number;

    *out = NULL;
    if (config->magic != 0xcafebeef || config->blocking != 0 || config->size < sizeof *config ||
        ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks || fake_current_device() < 0)
        return INVALID_ARGUMENT;
    memcpy(&number, id.internal, sizeof number);
    fake_lock();
    team = team_of(number, ranks);
    comm = team && team->ranks == ranks ? member(team, rank) : NULL;
    if (comm) {
        team->device[rank] = fake_current_device() + 1;
        for (int i = 0; i < ranks; i++)
            team->refused |= i != rank && team->device[i] == team->device[rank];
        team->joined++;
        *out = comm;
    }
    fake_unlock();
    return comm ? IN_PROGRESS : INVALID_ARGUMENT;
}

/* Whether all ranks have come to what this one has begun last. */
static bool have_come(const struct comm *comm)
{
    const struct team *team = comm->team;

    if (team->joined < team->ranks)
        return false;
    for (const struct post *p = team->posts; p; p = p->next)
        if (p->rank == comm->rank && p->together && !fake_nccl_all_have(team, p->number))
            return false;
    return true;
}

int ncclCommGetAsyncError(void *handle, int *result)
{
    const struct comm *comm = handle;

    fake_lock();
    if (comm->team->refused)
        *result = INVALID_USAGE;
    else if (!comm->talks || !is_failing("GRAM_FAKE_NCCL_ASYNC", comm, result))
        *result = have_come(comm) ? SUCCESS : IN_PROGRESS;
    fake_unlock();
    return SUCCESS;
}

int ncclCommFinalize(void *handle)
{
    return handle ? SUCCESS : INVALID_ARGUMENT;
}

int ncclCommDestroy(void *handle)
{
    free(handle);
    return SUCCESS;
}

int ncclCommAbort(void *handle)
{
    struct comm *comm = handle;

    fake_lock();
    comm->team->aborted[comm->rank] = true;
    fake_unlock();
    free(comm);
    return SUCCESS;
}
