/*
 * fake_nccl.h - what the two files of the fake NCCL share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H
#include "fake_stream.h"

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

/* fake_nccl_work.c: gives what a group holds to the stream, or lets it wait for the others. */
int fake_nccl_post(struct comm *comm, const struct post *mine);
/* Whether all ranks have begun their operation of this number. */
bool fake_nccl_all_have(const struct team *team, uint64_t number);
#endif
