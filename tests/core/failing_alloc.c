/*
 * failing_alloc.c - see failing_alloc.h; each block begins with a line that knows its size
 *
 * SPDX-License-Identifier: MIT
 */
#include "failing_alloc.h"
#include <stdlib.h>
#include <string.h>

enum {
    LINE = 64
};
static const uint64_t mark = 0x6772616D616C6C6Fu;

struct header {
    uint64_t mark;
    size_t bytes;
};

static void *allocate(void *user, size_t bytes)
{
    struct failing_alloc *a = user;
    char *block = NULL;
    bool fail;

    pthread_mutex_lock(&a->mutex);
    a->calls++;
    fail = a->calls == a->fail_at;
    if (!fail && bytes <= SIZE_MAX - 2 * LINE)
        block = aligned_alloc(LINE, LINE + (bytes + LINE - 1) / LINE * LINE);
    if (block) {
        *(struct header *)block = (struct header){.mark = mark, .bytes = bytes};
        a->live++;
        a->bytes += (int64_t)bytes;
        a->peak = a->bytes > a->peak ? a->bytes : a->peak;
    }
    a->failed |= fail;
    pthread_mutex_unlock(&a->mutex);
    return block ? block + LINE : NULL;
}

static void release(void *user, void *memory, size_t bytes)
{
    struct failing_alloc *a = user;
    char *block = (char *)memory - LINE;
    struct header *h = (struct header *)block;

    pthread_mutex_lock(&a->mutex);
    if (h->mark == mark && h->bytes == bytes) {
        a->live--;
        a->bytes -= (int64_t)bytes;
        h->mark = 0;
        free(block);
    } else {
        a->wrong_releases++;
    }
    pthread_mutex_unlock(&a->mutex);
}

void failing_alloc_use(struct failing_alloc *a, gram_context_options *options)
{
    options->allocate = allocate;
    options->release = release;
    options->user = a;
}

void failing_alloc_reset(struct failing_alloc *a, int64_t fail_at)
{
    pthread_mutex_lock(&a->mutex);
    a->calls = 0;
    a->fail_at = fail_at;
    a->failed = false;
    pthread_mutex_unlock(&a->mutex);
}

static void *allocate_some(void *user, size_t bytes)
{
    int *left = user;

    return (*left)-- > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
}

static void release_any(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

void limited_alloc_use(int *left, gram_context_options *options)
{
    options->allocate = allocate_some;
    options->release = release_any;
    options->user = left;
}
