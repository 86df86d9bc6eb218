/*
 * failing_malloc.c - a library for LD_PRELOAD in which a chosen allocation fails
 *
 * Counts what the command, libgram and its plugins, the Python extension and SQLite allocate, and
 * what the C library allocates for them, from the first allocation of one of ours on: others, such
 * as OpenBLAS when it is loaded, are left alone, since this is no test of theirs.
 *
 *   FAIL_AT=N      the N-th allocation fails, from 1; without it none does
 *   FAIL_FOREVER=1 and so do all that follow
 *   FAIL_REPORT=F  at the end two numbers are written to the file F: how many allocations there
 *                  were, and how many of ours were never freed
 *
 * A program may call failing_malloc_arm instead.  Needs glibc's names for the real functions.
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

enum {
    CALLERS = 1 << 12, /* places of calls that are remembered */
    BLOCKS = 1 << 20   /* allocations of ours that live at once at most */
};

enum module {
    MODULE_UNKNOWN,
    MODULE_OTHER,
    MODULE_LIBC, /* counts once ours has begun */
    MODULE_OURS
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const void *place;
    enum module module;
} callers[CALLERS];
static const void *blocks[BLOCKS]; /* a hash table; 1 marks a place that was left */
static int64_t calls, fail_at, live;
static int forever, begun, started;

static enum module module_of(const void *place)
{
    size_t slot = (uintptr_t)place / 4 % CALLERS;
    Dl_info about;

    if (callers[slot].place == place)
        return callers[slot].module;
    enum module module = MODULE_OTHER;
    if (dladdr(place, &about) && about.dli_fname) {
        const char *slash = strrchr(about.dli_fname, '/');
        const char *name = slash ? slash + 1 : about.dli_fname;
        if (strcmp(name, "gram") == 0 || strncmp(name, "libgram", 7) == 0 ||
            strncmp(name, "_core.", 6) == 0 || strncmp(name, "libsqlite3.", 11) == 0)
            module = MODULE_OURS;
        else if (strncmp(name, "libc.", 5) == 0 || strncmp(name, "libc-", 5) == 0)
            module = MODULE_LIBC;
    }
    callers[slot].place = place;
    callers[slot].module = module;
    return module;
}

static void start(void)
{
    const char *at = getenv("FAIL_AT"), *for_good = getenv("FAIL_FOREVER");

    started = 1;
    fail_at = at ? strtoll(at, NULL, 10) : 0;
    forever = for_good && *for_good == '1';
}

/* Whether an allocation that was asked for at this place counts, and whether it fails. */
static int judge(const void *place, int *counts)
{
    enum module module;
    int fails = 0;

    pthread_mutex_lock(&mutex);
    if (!started)
        start();
    module = module_of(place);
    begun |= module == MODULE_OURS;
    *counts = module == MODULE_OURS || (module == MODULE_LIBC && begun);
    if (*counts) {
        calls++;
        fails = fail_at > 0 && (calls == fail_at || (forever && calls > fail_at));
    }
    *counts = module == MODULE_OURS;
    pthread_mutex_unlock(&mutex);
    if (fails)
        errno = ENOMEM;
    return fails;
}

static void *keep(void *block, int counts)
{
    size_t slot = (uintptr_t)block / 16 % BLOCKS;

    if (!block || !counts)
        return block;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 4096; i++, slot = (slot + 1) % BLOCKS)
        if ((uintptr_t)blocks[slot] <= 1) {
            blocks[slot] = block;
            live++;
            break;
        }
    pthread_mutex_unlock(&mutex);
    return block;
}

static int drop(const void *block)
{
    size_t slot = (uintptr_t)block / 16 % BLOCKS;
    int ours = 0;

    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 4096 && blocks[slot] && !ours; i++, slot = (slot + 1) % BLOCKS)
        if (blocks[slot] == block) {
            blocks[slot] = (const void *)1;
            live--;
            ours = 1;
        }
    pthread_mutex_unlock(&mutex);
    return ours;
}

void *malloc(size_t bytes)
{
    int counts, fails = judge(__builtin_return_address(0), &counts);

    return fails ? NULL : keep(__libc_malloc(bytes), counts);
}

void *calloc(size_t count, size_t bytes)
{
    int counts, fails = judge(__builtin_return_address(0), &counts);

    return fails ? NULL : keep(__libc_calloc(count, bytes), counts);
}

void *realloc(void *memory, size_t bytes)
{
    int counts, fails = judge(__builtin_return_address(0), &counts), ours;
    void *larger;

    if (fails)
        return NULL;
    ours = memory && drop(memory); /* before anybody else can get the block */
    larger = __libc_realloc(memory, bytes);
    if (!larger && bytes > 0)
        return keep(memory, ours), NULL;
    return keep(larger, counts || ours);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    int counts, fails = judge(__builtin_return_address(0), &counts);

    return fails ? NULL : keep(__libc_memalign(alignment, bytes), counts);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    int counts, fails = judge(__builtin_return_address(0), &counts);
    void *block = fails ? NULL : keep(__libc_memalign(alignment, bytes), counts);

    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

void free(void *memory)
{
    if (memory)
        drop(memory);
    __libc_free(memory);
}

/* Counts anew; the N-th allocation from now on fails, none for 0.  Gives how many there were. */
int64_t failing_malloc_arm(int64_t n);
int64_t failing_malloc_arm(int64_t n)
{
    pthread_mutex_lock(&mutex);
    int64_t before = calls;
    started = 1;
    calls = 0;
    fail_at = n;
    pthread_mutex_unlock(&mutex);
    return before;
}

/* How many allocations of ours are not freed. */
int64_t failing_malloc_live(void);
int64_t failing_malloc_live(void)
{
    return live;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAIL_REPORT");
    char text[64];
    int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;

    if (file < 0)
        return;
    int size = snprintf(text, sizeof text, "%lld %lld\n", (long long)calls, (long long)live);
    if (write(file, text, (size_t)size) != size)
        _exit(99);
    close(file);
}
