/*
 * process.c - the process: its state, the handlers that fork() calls, the processors it may use
 *
 * A container that is given two processors of 64 sees all of them: its share is a quota of time,
 * which stands in files of its control group, of version 1 or 2, or of one above it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "process.h"
#include "threads.h"
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- State and fork() ------------------------------------------------------------------------ */

static struct gram_process process;
static bool ready;

static void before_fork(void)
{
    for (int i = 0; i < GRAM_PROCESS_LOCKS; i++)
        (void)pthread_mutex_lock(&process.lock[i]);
}

static void after_fork(void)
{
    for (int i = GRAM_PROCESS_LOCKS - 1; i >= 0; i--)
        (void)pthread_mutex_unlock(&process.lock[i]);
}

static void in_child(void)
{
    process.children++;
    if (atomic_exchange(&process.in_store, 0) > 0)
        atomic_store(&process.no_store, true);
    after_fork();
}

static void begin(void)
{
    for (int i = 0; i < GRAM_PROCESS_LOCKS; i++)
        (void)pthread_mutex_init(&process.lock[i], NULL);
    ready = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

struct gram_process *gram_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, begin);
    return ready ? &process : NULL;
}

/* ---- Processors ------------------------------------------------------------------------------ */

enum {
    PATH_BYTES = 1024
};

/* The first line of a file; false if there is none. */
static bool read_line(const char *path, char *line, int bytes)
{
    FILE *file = fopen(path, "re");
    bool there = file && fgets(line, bytes, file);

    if (file)
        fclose(file);
    return there;
}

/* The processors that `quota` microseconds of each `period` are worth, at least one. */
static int worth(double quota, double period)
{
    double count = period > 0 ? quota / period : 0;

    if (!(count > 0) || count >= INT_MAX)
        return INT_MAX;
    return count <= 1 ? 1 : (int)count + (count > (int)count);
}

static double number_in(const char *folder, const char *name)
{
    char path[PATH_BYTES], line[64];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);

    return length < PATH_BYTES && read_line(path, line, sizeof line) ? strtod(line, NULL) : -1;
}

/* The quota of one group: "150000 100000" or "max 100000" in cpu.max, or two files. */
static int quota_of(const char *folder)
{
    char path[PATH_BYTES], line[64], *end;
    int length = snprintf(path, sizeof path, "%s/cpu.max", folder);
    double quota;

    if (length < PATH_BYTES && read_line(path, line, sizeof line)) {
        quota = strtod(line, &end);
        return end == line ? INT_MAX : worth(quota, strtod(end, NULL));
    }
    return worth(number_in(folder, "cpu.cfs_quota_us"), number_in(folder, "cpu.cfs_period_us"));
}

/* The least of a group and of those above it, up to the one that is mounted at root. */
static int least_quota(const char *root, const char *group)
{
    char folder[PATH_BYTES];
    int least = INT_MAX, length = snprintf(folder, sizeof folder, "%s%s", root, group);
    char *top = folder + strlen(root), *slash;

    while (length < PATH_BYTES) {
        int quota = quota_of(folder);
        least = quota < least ? quota : least;
        slash = strrchr(top, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    return least;
}

/* True if a comma-separated list has cpu. */
static bool names_cpu(const char *list)
{
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strncmp(list, "cpu", 3) == 0 && (list[3] == ',' || !list[3]))
            return true;
    return false;
}

int gram_quota_processors(const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES];
    int least = INT_MAX;
    FILE *file;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* number:controllers:group */
        char *controllers = strchr(line, ':'), *group;
        int quota;
        if (!controllers || !(group = strchr(controllers + 1, ':')))
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (controllers[1] && !names_cpu(controllers + 1))
            continue;
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, controllers[1] ? "/cpu" : "");
        quota = least_quota(path, group);
        least = quota < least ? quota : least;
    }
    if (file)
        fclose(file);
    return least;
}

int gram_processors(void)
{
    static atomic_int quota; /* 0: not read yet */
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;

    if (atomic_load(&quota) == 0)
        atomic_store(&quota, gram_quota_processors(""));
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        count = CPU_COUNT(&set);
    if (count > atomic_load(&quota))
        count = atomic_load(&quota);
    return count < 1 ? 1 : count < GRAM_MAX_THREADS ? (int)count : GRAM_MAX_THREADS;
}
