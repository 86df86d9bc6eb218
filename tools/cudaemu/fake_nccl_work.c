/*
 * fake_nccl_work.c - what the fake NCCL does when a stream comes to it
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_nccl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    CUstream stream = fake_stream(post->stream);

    while (!post->reached && stream->work.first) {
        struct fake_work *first = stream->work.first;
        stream->work.first = first->next;
        first->run(first);
        free(first);
    }
}

static void exchange(const struct post *post)
{
    struct post *other = NULL;

    for (int i = 0; i < post->count; i++) {
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

bool fake_nccl_all_have(const struct team *team, uint64_t number)
{
    for (int rank = 0; rank < team->ranks; rank++)
        if (!post_of(team, rank, number))
            return false;
    return true;
}

/* Gives what the thread's group holds to the stream, or lets it wait for the others: ranks are
 * connected by their first messages. */
int fake_nccl_post(struct comm *comm, const struct post *mine)
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
    if (!fake_nccl_all_have(team, post->number))
        return IN_PROGRESS;
    for (int rank = 0; rank < team->ranks && result == SUCCESS; rank++)
        result = queue_one(post_of(team, rank, post->number));
    return result;
}
