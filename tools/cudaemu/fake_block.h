/*
 * fake_block.h - the block that runs, and its threads
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_BLOCK_H
#define FAKE_BLOCK_H
#include "fake_driver.h"
#include "fake_fiber.h"

enum {
    FAKE_BARRIERS = 16
};

enum fake_thread_state {
    READY,
    AT_BARRIER,
    MEETING, /* lanes of its warp */
    ENDED
};

/* An asynchronous copy that has not happened yet. */
struct fake_copy {
    void *to;
    const void *from;
    int size, bytes, group;
};

struct fake_thread {
    struct fiber fiber;
    enum fake_thread_state state;
    struct fake_index index;
    int lane, barrier, votes;
    unsigned mask;
    void *argument;
    fake_together *together;
    struct fake_copy *copy; /* `copies` of them, room for `copy_room` */
    int copies, copy_room, group;
    bool waited; /* for the launch before */
};

struct fake_barrier {
    int arrived, threads, votes;
};

/* Of the launch that runs: under the driver's lock. */
struct fake_block {
    const struct fake_launch *launch;
    struct fake_thread threads[FAKE_MOST_THREADS], *current;
    int count, live, launches;
    struct fake_barrier barriers[FAKE_BARRIERS];
    struct fiber host;
    bool abandoned;
};
extern struct fake_block fake_block;
extern const struct fake_runtime fake_runtime;

/* Whether the running thread's stack ends there. */
bool fake_is_guard(const void *address);

/* fake_copy.c */
void fake_copy(void *to, const void *from, int size, int bytes);
void fake_copy_commit(void);
void fake_copy_wait(int groups);
/* Bytes behind a block's dynamic shared memory; 0 if nobody wrote there. */
void fake_copy_set_canary(const struct fake_launch *launch);
int fake_copy_canary(const struct fake_launch *launch);
#endif
