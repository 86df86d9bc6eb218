/*
 * address_space.c - starts the program again if OpenBLAS's threads would fill the address space
 *
 * SPDX-License-Identifier: MIT
 */
#include "address_space.h"
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __linux__
#  include <sys/auxv.h>

enum {
    THREAD_MIB = 128 + 8 /* a buffer and a stack */
};

/* OpenBLAS reads the first variable.  The second keeps the user's value, and marks the second
 * start. */
#  define THREADS "OPENBLAS_NUM_THREADS="
#  define KEPT    "GRAM_" THREADS

static const char *find(char **environment, const char *name)
{
    for (; *environment; environment++)
        if (strncmp(*environment, name, strlen(name)) == 0)
            return *environment;
    return NULL;
}

static bool is_limited(void)
{
    struct rlimit limit;
    char mode = 0;
    int file;

    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return true;
    file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, &mode, 1) != 1)
            mode = 0;
        close(file);
    }
    return mode == '2';
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static bool threads_take_half(void)
{
    size_t bytes = (size_t)2 * THREAD_MIB << 20;
    cpu_set_t set;
    void *memory;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        bytes *= (size_t)CPU_COUNT(&set);
    memory = map(bytes);
    if (memory)
        munmap(memory, bytes);
    return !memory;
}

/* Returns only if it fails. */
static void start_again(char **argv, char **environment)
{
    const char *before = find(environment, THREADS);
    size_t count = 0, length = before ? strlen(before) : strlen(THREADS);
    char **changed, *kept;

    while (environment[count])
        count++;
    changed = map((count + 3) * sizeof *changed + strlen("GRAM_") + length + 1);
    if (!changed)
        return;
    kept = (char *)(changed + count + 3);
    memcpy(kept, "GRAM_", strlen("GRAM_")); // NOLINT(bugprone-not-null-terminated-result)
    memcpy(kept + strlen("GRAM_"), before ? before : THREADS, length + 1);
    count = 0;
    for (; *environment; environment++)
        if (*environment != before)
            changed[count++] = *environment;
    changed[count++] = (char *)THREADS "1";
    changed[count] = kept;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the vector has numbers alone */
    execve((const char *)(uintptr_t)getauxval(AT_EXECFN), argv, changed);
}

void address_space_before_libraries(int argc, char **argv, char **environment)
{
    /* Without AT_BASE, the user has started the loader with the program as its argument, and
     * AT_EXECFN is the loader. */
    if (argc > 0 && !getauxval(AT_SECURE) && getauxval(AT_BASE) && getauxval(AT_EXECFN) &&
        !find(environment, KEPT) && is_limited() && threads_take_half())
        start_again(argv, environment);
}

void address_space_restore(void)
{
    const char *kept = getenv("GRAM_OPENBLAS_NUM_THREADS");

    if (!kept)
        return;
    if (*kept)
        (void)setenv("OPENBLAS_NUM_THREADS", kept, 1);
    else
        (void)unsetenv("OPENBLAS_NUM_THREADS");
    (void)unsetenv("GRAM_OPENBLAS_NUM_THREADS");
}

#else

void address_space_before_libraries(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
}

void address_space_restore(void)
{
}

#endif
