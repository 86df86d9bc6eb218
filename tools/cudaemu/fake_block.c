/*
 * fake_block.c - a launch: blocks one after the other, their threads as fibers
 *
 * A thread runs until it waits for others.  Which of them goes on first changes from pass to pass
 * and the order of blocks from launch to launch, so that a missing barrier does not always go well.
 * Shared memory is filled with NaN before a block begins.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_block.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_block fake_block;

/* ---- What is wrong --------------------------------------------------------------------------- */

void fake_where(char *text, size_t size)
{
    const struct fake_launch *launch = fake_block.launch;
    const struct fake_device *device = launch ? launch->device : NULL;

    text[0] = '\0';
    if (device)
        snprintf(text, size, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", launch->name,
                 device->block.x, device->block.y, device->block.z, device->thread.x,
                 device->thread.y, device->thread.z);
}

static __attribute__((format(printf, 1, 2), noreturn)) void fail(const char *format, ...)
{
    char where[256];
    va_list args;

    fake_where(where, sizeof where);
    fprintf(stderr, "fake CUDA: %s: ", where);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

static void explain_deadlock(void)
{
    int barrier = 0, meeting = 0, ended = 0;

    for (int i = 0; i < fake_block.count; i++) {
        const struct fake_thread *t = &fake_block.threads[i];
        barrier += t->state == AT_BARRIER;
        meeting += t->state == MEETING;
        ended += t->state == ENDED;
        if (t->state == AT_BARRIER || t->state == MEETING)
            fake_block.launch->device->thread = t->index;
    }
    fail(
        "nobody can go on: %d threads wait at a barrier, %d for lanes of their warp, %d have "
        "ended",
        barrier, meeting, ended);
}

/* ---- Threads
 * ------------------------------------------------------------------------------------- */

static void leave(bool ends)
{
    fiber_switch(&fake_block.current->fiber, &fake_block.host, ends);
}

static void resume(struct fake_thread *t)
{
    fake_block.current = t;
    fake_block.launch->device->thread = t->index;
    fiber_switch(&fake_block.host, &t->fiber, false);
    fake_block.current = NULL;
}

static void release_barrier(int id)
{
    struct fake_barrier *b = &fake_block.barriers[id];

    for (int i = 0; i < fake_block.count; i++) {
        struct fake_thread *t = &fake_block.threads[i];
        if (t->state == AT_BARRIER && t->barrier == id)
            t->state = READY, t->votes = b->votes;
    }
    *b = (struct fake_barrier){0};
}

static bool is_full(const struct fake_barrier *b)
{
    return b->arrived > 0 && b->arrived == (b->threads ? b->threads : fake_block.live);
}

static int barrier(int id, int threads, int predicate)
{
    struct fake_barrier *b = &fake_block.barriers[id];
    struct fake_thread *t = fake_block.current;

    if (b->arrived > 0 && b->threads != threads)
        fail("barrier %d is for %d threads here, for %d elsewhere", id, threads, b->threads);
    b->threads = threads;
    b->arrived++;
    b->votes += predicate != 0;
    t->state = AT_BARRIER, t->barrier = id;
    if (is_full(b))
        release_barrier(id);
    else
        leave(false);
    return t->votes;
}

static void meet(unsigned mask, void *argument, fake_together *together)
{
    struct fake_thread *t = fake_block.current, *first = t - t->lane;
    void *arguments[FAKE_WARP] = {0};

    if (!(mask >> t->lane & 1))
        fail("lane %d is not in its own mask %08x", t->lane, mask);
    t->state = MEETING, t->mask = mask, t->argument = argument, t->together = together;
    for (int i = 0; i < FAKE_WARP; i++) {
        const struct fake_thread *other = first + i;
        if (!(mask >> i & 1))
            continue;
        if (other >= fake_block.threads + fake_block.count || other->state == ENDED)
            fail("lane %d of the mask %08x has ended, or is not in the block", i, mask);
        if (other->state != MEETING || other->mask != mask || other->together != together) {
            leave(false);
            return;
        }
        arguments[i] = other->argument;
    }
    together(mask, arguments);
    for (int i = 0; i < FAKE_WARP; i++)
        if (mask >> i & 1)
            first[i].state = READY;
}

static void yield(void)
{
    leave(false);
}

static int lane(void)
{
    return fake_block.current->lane;
}

static void wait_launch(void)
{
    fake_block.current->waited = true;
}

const struct fake_runtime fake_runtime = {.barrier = barrier,
                                          .meet = meet,
                                          .copy = fake_copy,
                                          .commit = fake_copy_commit,
                                          .wait = fake_copy_wait,
                                          .yield = yield,
                                          .fail = fail,
                                          .lane = lane,
                                          .wait_launch = wait_launch};

/* ---- Blocks
 * --------------------------------------------------------------------------------------- */

static void thread_main(void)
{
    const struct fake_launch *launch = fake_block.launch;

    launch->kernel->call(launch->arguments);
    if (launch->early && !fake_block.current->waited)
        fail("a launch that may overlap does not wait for the one before it");
    fake_block.current->state = ENDED;
    fake_block.live--;
    for (int id = 0; id < FAKE_BARRIERS; id++)
        if (is_full(&fake_block.barriers[id]))
            release_barrier(id);
    leave(true);
}

void fake_abandon(void)
{
    fake_block.abandoned = true;
    leave(true);
}

bool fake_is_guard(const void *address)
{
    const char *stack = fake_block.current ? fake_block.current->fiber.stack : NULL;

    return stack && (const char *)address < stack && (const char *)address >= stack - FIBER_GUARD;
}

/* Threads are numbered x first; a warp is 32 neighbours. */
static void prepare_threads(const struct fake_launch *launch)
{
    struct fake_index at = {0};

    for (int i = 0; i < fake_block.count; i++) {
        struct fake_thread *t = &fake_block.threads[i];
        if (!fiber_create(&t->fiber))
            fail("no memory for stacks");
        t->state = READY, t->index = at, t->lane = i % FAKE_WARP;
        t->copies = 0, t->group = 0, t->waited = false;
        fiber_prepare(&t->fiber, thread_main);
        if (++at.x == launch->block.x)
            at.x = 0, at.y++;
        if (at.y == launch->block.y)
            at.y = 0, at.z++;
    }
}

static void run_block(const struct fake_launch *launch)
{
    const struct fake_range *shared = launch->kernel->shared;
    int done;

    fake_block.live = fake_block.count;
    memset(fake_block.barriers, 0, sizeof fake_block.barriers);
    for (int i = 0; i < 2; i++)
        if (shared[i].end > shared[i].begin)
            memset(shared[i].begin, 0xFF, (size_t)(shared[i].end - shared[i].begin));
    memset(launch->kernel->dynamic, 0xFF, launch->shared);
    prepare_threads(launch);
    for (int pass = 0; fake_block.live > 0 && !fake_block.abandoned; pass++) {
        done = 0;
        for (int i = 0; i < fake_block.count && !fake_block.abandoned; i++) {
            struct fake_thread *t =
                &fake_block
                     .threads[(pass + fake_block.launches) % 2 ? fake_block.count - 1 - i : i];
            if (t->state == READY)
                resume(t), done++;
        }
        if (done == 0)
            explain_deadlock();
    }
    if (!fake_block.abandoned && fake_copy_canary(launch) != 0)
        fail("writes behind its %u bytes of dynamic shared memory", launch->shared);
}

void fake_run(const struct fake_launch *launch)
{
    const struct fake_index grid = launch->grid;
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;

    fake_block.launch = launch;
    fake_block.count = (int)(launch->block.x * launch->block.y * launch->block.z);
    fake_block.launches++;
    launch->device->runtime = &fake_runtime;
    launch->device->block_size = launch->block;
    launch->device->grid_size = grid;
    fake_memory_open();
    fake_fault_watch(true);
    fake_copy_set_canary(launch);
    for (uint64_t i = 0; i < blocks && !fake_block.abandoned; i++) {
        uint64_t at = fake_block.launches % 2 ? i : blocks - 1 - i;
        launch->device->block =
            (struct fake_index){(unsigned)(at % grid.x), (unsigned)(at / grid.x % grid.y),
                                (unsigned)(at / grid.x / grid.y)};
        run_block(launch);
    }
    fake_fault_watch(false);
    fake_memory_close();
    fake_block.launch = NULL;
    if (fake_block.abandoned)
        fake_set_fault(CUDA_ERROR_ILLEGAL_ADDRESS);
    fake_block.abandoned = false;
}
