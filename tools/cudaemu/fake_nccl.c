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
 * communicator which has sent messages has met in the background.  GRAM_FAKE_NCCL_PATIENCE is how
 * many milliseconds a stream waits for a rank that has not come, until somebody aborts.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0,
    UNHANDLED = 1,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    IN_PROGRESS = 7,
    INT64 = 4,
    MAX = 2,
    MOST_RANKS = 16,
    MOST_PARTS = 2 * MOST_RANKS,
    ID_BYTES = 128
};

/* A message or a reduction of a group. */
struct part {
    bool sends, reduces, done;
    void *data;
    size_t bytes;
    int peer;
    uint64_t number; /* of the messages of one rank to another */
};

/* What a rank has begun with one group, or one reduction. */
struct post {
    struct post *next;
    struct team *team;
    struct part part[MOST_PARTS];
    int count, rank;
    uint64_t number; /* of those of its rank */
    CUstream stream;
    bool together; /* it was queued when all ranks had come to their own of this number */
    bool reached;
};

struct team {
    struct team *next;
    uint64_t id;
    int ranks, joined;
    int device[MOST_RANKS]; /* and 1; 0: that rank has not come */
    bool refused, aborted[MOST_RANKS];
    struct post *posts;
};

struct comm {
    struct team *team;
    int rank;
    uint64_t numbers, sent[MOST_RANKS], received[MOST_RANKS];
    bool talks; /* it has sent messages */
};

/* ---- What is done when a stream comes to it -------------------------------------------------- */

struct queued {
    struct fake_work work;
    struct post *post;
};

static bool any_aborted(const struct team *team)
{
    for (int rank = 0; rank < team->ranks; rank++)
        if (team->aborted[rank])
            return true;
    return false;
}

/* What a rank has begun as its operation of this number; NULL: nothing yet. */
static struct post *post_of(const struct team *team, int rank, uint64_t number)
{
    struct post *post = team->posts;

    while (post && (post->rank != rank || post->number != number))
        post = post->next;
    return post;
}

/* The other end of a message, NULL if it has not come, and where it is. */
static struct part *mate_of(const struct post *of, const struct part *part, struct post **where)
{
    for (struct post *post = of->team->posts; post; post = post->next)
        for (int i = 0; i < post->count; i++) {
            struct part *p = &post->part[i];
            if (post->rank == part->peer && p->peer == of->rank && p->sends != part->sends &&
                !p->reduces && p->number == part->number) {
                *where = post;
                return p;
            }
        }
    return NULL;
}

/* Does the work of a stream as far as this operation, and not farther. */
static void bring(const struct post *post)
{
    CUstream stream = post->stream;

    while (!post->reached && stream->work.first) {
        struct fake_work *first = stream->work.first;
        stream->work.first = first->next;
        first->run(first);
        free(first);
    }
}

/* Waits for the other end of a message, as a device does; others may go on meanwhile. */
static void await_mate(const struct post *post, const struct part *part)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    struct post *other;

    for (long left = fake_setting("GRAM_FAKE_NCCL_PATIENCE", 0); left > 0; left--) {
        if (mate_of(post, part, &other) || any_aborted(post->team))
            return;
        fake_memory_close();
        fake_unlock();
        (void)nanosleep(&nap, NULL);
        fake_lock();
        fake_memory_open();
    }
}

static void exchange(const struct post *post)
{
    struct post *other = NULL;

    for (int i = 0; i < post->count; i++) {
        await_mate(post, &post->part[i]);
        if (mate_of(post, &post->part[i], &other)) {
            bring(other);
        } else if (!any_aborted(post->team)) {
            fprintf(stderr, "fake NCCL: rank %d waits for rank %d, which has not come\n",
                    post->rank, post->part[i].peer);
            abort();
        }
    }
    for (int i = 0; i < post->count; i++) {
        const struct part *mine = &post->part[i], *mate = mate_of(post, mine, &other);
        struct part *to = (struct part *)(mine->sends ? mate : mine);
        if (!mate || !other->reached || to->done || mine->bytes != mate->bytes)
            continue;
        memcpy(to->data, mine->sends ? mine->data : mate->data, to->bytes);
        to->done = true;
    }
}

static void reduce(const struct post *post)
{
    const struct team *team = post->team;
    struct post *all[MOST_RANKS] = {NULL};

    for (int rank = 0; rank < team->ranks; rank++) {
        all[rank] = post_of(team, rank, post->number);
        bring(all[rank]);
    }
    for (int rank = 0; rank < team->ranks; rank++)
        if (!all[rank]->reached || all[rank]->part[0].done)
            return;
    for (int to = 0; to < team->ranks; to++) {
        all[to]->part[0].done = true;
        for (int from = 0; from < team->ranks; from++) {
            int64_t *into = all[to]->part[0].data;
            const int64_t *values = all[from]->part[0].data;
            for (size_t i = 0; i < all[to]->part[0].bytes / sizeof *into; i++)
                into[i] = values[i] > into[i] ? values[i] : into[i];
        }
    }
}

static void run(struct fake_work *work)
{
    struct post *post = ((const struct queued *)work)->post;

    if (post->team->aborted[post->rank] || post->reached)
        return;
    post->reached = true;
    fake_memory_open();
    if (post->part[0].reduces)
        reduce(post);
    else
        exchange(post);
    fake_memory_close();
}

static int queue_one(struct post *post)
{
    struct queued *q = calloc(1, sizeof *q);

    if (!q)
        return UNHANDLED;
    *q = (struct queued){
        .work = {.run = run, .bytes = sizeof *q},
          .post = post
    };
    return fake_queue(post->stream, &q->work) == CUDA_SUCCESS ? SUCCESS : UNHANDLED;
}

/* True if all ranks have begun their operation of this number. */
static bool all_have(const struct team *team, uint64_t number)
{
    for (int rank = 0; rank < team->ranks; rank++)
        if (!post_of(team, rank, number))
            return false;
    return true;
}

/* Gives what the thread's group holds to the stream, or lets it wait for the others: ranks are
 * connected by their first messages. */
static int post_group(struct comm *comm, const struct post *mine)
{
    struct team *team = comm->team;
    struct post *post = fake_handle(sizeof *post);
    int result = SUCCESS;

    if (!post)
        return UNHANDLED;
    *post = *mine;
    post->team = team, post->rank = comm->rank, post->number = comm->numbers++;
    post->together = !comm->talks || post->part[0].reduces;
    for (int i = 0; i < post->count; i++) {
        struct part *p = &post->part[i];
        comm->talks |= p->sends;
        if (!p->reduces)
            p->number = p->sends ? comm->sent[p->peer]++ : comm->received[p->peer]++;
    }
    post->next = team->posts;
    team->posts = post;
    if (!post->together)
        return queue_one(post);
    if (!all_have(team, post->number))
        return IN_PROGRESS;
    for (int rank = 0; rank < team->ranks && result == SUCCESS; rank++)
        result = queue_one(post_of(team, rank, post->number));
    return result;
}

/* ---- The functions of NCCL ------------------------------------------------------------------- */

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
    p->stream = fake_stream(stream);
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
        result = post_group(comm, &open.post);
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
        if (p->rank == comm->rank && p->together && !all_have(team, p->number))
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
