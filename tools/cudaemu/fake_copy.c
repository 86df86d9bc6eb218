/*
 * fake_copy.c - asynchronous copies to shared memory, as late as they may be
 *
 * At its issue a copy fills its destination with NaN, and it happens in the wait for its group: so
 * that both a missing wait and a destination that is still read are seen.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_block.h"
#include <stdlib.h>
#include <string.h>

enum {
    CANARY = 0xA5,
    CANARY_BYTES = 4096
};

static bool is_shared(const char *at, int size)
{
    const struct fake_kernel *k = fake_block.launch->kernel;
    const struct fake_range ranges[] = {
        k->shared[0], k->shared[1], {k->dynamic, k->dynamic + fake_block.launch->shared}
    };

    for (int i = 0; i < 3; i++)
        if (at >= ranges[i].begin && at + size <= ranges[i].end)
            return true;
    return k->shared[1].begin == k->shared[1].end; /* a sanitizer watches instead */
}

void fake_copy(void *to, const void *from, int size, int bytes)
{
    struct fake_thread *t = fake_block.current;

    if ((uintptr_t)to % (unsigned)size || (uintptr_t)from % (unsigned)size)
        fake_runtime.fail("an asynchronous copy of %d bytes from %p to %p is misaligned", size,
                          from, to);
    if (bytes < 0 || bytes > size)
        fake_runtime.fail("an asynchronous copy of %d bytes takes %d", size, bytes);
    if (!is_shared(to, size))
        fake_runtime.fail("an asynchronous copy goes to %p, which is not shared memory", to);
    if (t->copies == t->copy_room) {
        int room = t->copy_room ? 2 * t->copy_room : 16;
        struct fake_copy *grown = realloc(t->copy, (size_t)room * sizeof *grown);
        if (!grown)
            fake_runtime.fail("no memory for %d copies", room);
        t->copy = grown, t->copy_room = room;
    }
    t->copy[t->copies++] = (struct fake_copy){to, from, size, bytes, t->group};
    memset(to, 0xFF, (size_t)size);
}

void fake_copy_commit(void)
{
    fake_block.current->group++;
}

void fake_copy_wait(int groups)
{
    struct fake_thread *t = fake_block.current;
    int kept = 0;

    for (int i = 0; i < t->copies; i++) {
        const struct fake_copy c = t->copy[i];
        if (c.group >= t->group - groups) {
            t->copy[kept++] = c;
            continue;
        }
        memcpy(c.to, c.from, (size_t)c.bytes);
        memset((char *)c.to + c.bytes, 0, (size_t)(c.size - c.bytes));
    }
    t->copies = kept;
}

void fake_copy_set_canary(const struct fake_launch *launch)
{
    memset(launch->kernel->dynamic + launch->shared, CANARY, CANARY_BYTES);
}

int fake_copy_canary(const struct fake_launch *launch)
{
    const char *at = launch->kernel->dynamic + launch->shared;
    int written = 0;

    for (int i = 0; i < CANARY_BYTES; i++)
        written += (unsigned char)at[i] != CANARY;
    return written;
}
