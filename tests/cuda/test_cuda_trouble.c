/*
 * test_cuda_trouble.c - the cache of kernels where the disk, the locks or the owner are against it
 *
 * Slower, never wrong, never an error.  SQLite's writes and locks go through functions of this
 * program, which can make them fail.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "cuda_cache_folder.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    NOBODY = 65534,
    THREADS = 8,
    KEYS = 12,
    FAILED = -1,
    DAY = 86400
};

/* ---- What the system does ------------------------------------------------------------------- */

static bool no_locks;
static _Atomic int64_t disk_left = INT64_MAX; /* bytes that can still be written */

/* What libsqlite3 and the library call instead of the C library's. */
GRAM_PUBLIC int fcntl(int file, int command, ...)
{
    va_list args;
    void *argument;

    va_start(args, command);
    argument = va_arg(args, void *);
    va_end(args);
    if (no_locks && (command == F_SETLK || command == F_SETLKW || command == F_GETLK)) {
        errno = ENOLCK;
        return FAILED;
    }
    return (int)syscall(SYS_fcntl, file, command, argument);
}

GRAM_PUBLIC int fcntl64(int file, int command, ...) __attribute__((alias("fcntl")));

static ssize_t write_or(int file, const void *bytes, size_t size, off_t at)
{
    if (atomic_fetch_sub(&disk_left, (int64_t)size) < (int64_t)size) {
        atomic_store(&disk_left, 0);
        errno = ENOSPC;
        return FAILED;
    }
    return (ssize_t)syscall(SYS_pwrite64, file, bytes, size, at);
}

GRAM_PUBLIC ssize_t pwrite(int file, const void *bytes, size_t size, off_t at)
{
    return write_or(file, bytes, size, at);
}

GRAM_PUBLIC ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at)
{
    return write_or(file, bytes, size, at);
}

/* ---- Helpers -------------------------------------------------------------------------------- */

/* Runs body in a child; true if it returned true there. */
static bool in_child(struct harness *h, bool (*body)(struct harness *h))
{
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        _exit(body(h) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool sql(struct harness *h, const char *text)
{
    struct gram_database s;
    bool done;

    if (!gram_database_open(h->g, true, &s))
        return false;
    done = s.call.exec(s.db, text, NULL, NULL, NULL) == 0;
    gram_database_close(&s);
    return done;
}

/* ---- Disk ----------------------------------------------------------------------------------- */

static void a_full_disk(struct harness *h)
{
    fresh(h);
    CHECK(h, put(h, 1), "nothing is kept");
    for (int64_t left = 0; left < 60000; left += 1500) {
        atomic_store(&disk_left, left);
        (void)put(h, 2);
        CHECK(h, get(h->g, 2) >= 0 && get(h->g, 1) >= 0, "wrong code after %lld bytes",
              (long long)left);
        atomic_store(&disk_left, INT64_MAX);
        CHECK(h, get(h->g, 1) == 1, "what was kept is lost after %lld bytes", (long long)left);
        CHECK(h, sql(h, "DELETE FROM kernel WHERE key LIKE '%=2 %'"), "%lld", (long long)left);
    }
    atomic_store(&disk_left, 0);
    CHECK(h, !put(h, 2), "kept on a full disk");
    CHECK(h, get(h->g, 2) == 0 && get(h->g, 1) == 1, "%d and %d on a full disk", get(h->g, 2),
          get(h->g, 1));
    atomic_store(&disk_left, INT64_MAX);
    CHECK(h, put(h, 2) && get(h->g, 2) == 1, "there is room again");
    clean(h);
}

static bool under_a_limit(struct harness *h)
{
    const struct rlimit limit = {8000, 8000};
    sigset_t set;

    if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || put(h, 2) || get(h->g, 1) != 1 || put(h, 3))
        return false;
    /* The caller's own signal is as it was. */
    return pthread_sigmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGXFSZ) == 0 &&
           sigpending(&set) == 0 && sigismember(&set, SIGXFSZ) == 0;
}

static void a_limit_of_file_sizes_kills_nobody(struct harness *h)
{
    fresh(h);
    CHECK(h, put(h, 1), "nothing is kept");
    CHECK(h, in_child(h, under_a_limit), "the child was killed, or kept what it could not");
    CHECK(h, get(h->g, 1) == 1 && get(h->g, 2) == 0 && put(h, 2), "afterwards");
    clean(h);
}

/* ---- Owners --------------------------------------------------------------------------------- */

static bool read_only(struct harness *h)
{
    gram_cache cache = {.size = sizeof cache};

    if (geteuid() == 0 && setuid(NOBODY) != 0)
        return false;
    gram_jit_cache_info(h->g, &cache);
    return get(h->g, 1) == 1 && get(h->g, 2) == 0 && !put(h, 2) && get(h->g, 2) == 0 &&
           cache.kernels == 1 && cache.why[0];
}

static bool nothing_yet(struct harness *h)
{
    gram_cache cache = {.size = sizeof cache};

    if (geteuid() == 0 && setuid(NOBODY) != 0)
        return false;
    gram_jit_cache_info(h->g, &cache);
    return get(h->g, 1) == 0 && !put(h, 1) && cache.why[0];
}

static void a_folder_that_can_only_be_read(struct harness *h)
{
    char path[128];

    fresh(h);
    CHECK(h, put(h, 1), "nothing is kept");
    path_of(path, "kernels-1.db");
    if (geteuid() == 0 &&
        (chown(folder, NOBODY, NOBODY) != 0 || chown(path, NOBODY, NOBODY) != 0)) {
        clean(h); /* the root of a container with one user, whom no mode stops */
        return;
    }
    CHECK(h, chmod(path, 0400) == 0 && chmod(folder, 0500) == 0, "chmod");
    CHECK(h, in_child(h, read_only), "a cache that can only be read is not read, or written");
    CHECK(h, chmod(folder, 0700) == 0 && unlink(path) == 0 && chmod(folder, 0500) == 0, "chmod");
    CHECK(h, in_child(h, nothing_yet), "a folder that can only be read");
    CHECK(h, chmod(folder, 0700) == 0, "chmod");
    clean(h);
}

static void is_refused(struct harness *h, const char *what)
{
    gram_cache cache = {.size = sizeof cache};

    CHECK(h, get(h->g, 1) == 0 && !put(h, 2), "%s of somebody else is used", what);
    gram_jit_cache_info(h->g, &cache);
    CHECK(h, strstr(cache.why, "belongs to another user"), "%s: %s", what, cache.why);
}

static void what_belongs_to_others_is_refused(struct harness *h)
{
    struct stat root;
    char path[128];

    fresh(h);
    path_of(path, "kernels-1.db");
    CHECK(h, put(h, 1), "nothing was kept");
    if (chown(path, NOBODY, NOBODY) != 0) { /* only root may: others find the root folder */
        clean(h);
        h->g->cache_folder = "/";
        if (stat("/", &root) == 0 && root.st_uid != geteuid())
            is_refused(h, "the folder");
        return;
    }
    is_refused(h, "a file");
    CHECK(h, chown(path, 0, 0) == 0 && chown(folder, NOBODY, NOBODY) == 0, "chown");
    is_refused(h, "a folder");
    CHECK(h, chown(folder, 0, 0) == 0 && get(h->g, 1) == 1, "it is not used again");
    clean(h);
}

/* ---- Locks ---------------------------------------------------------------------------------- */

static void set_age(const char *path, int seconds)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};

    (void)utimensat(AT_FDCWD, path, times, 0);
}

static void a_file_system_without_locks(struct harness *h)
{
    char lock[128];

    fresh(h);
    path_of(lock, "kernels-1.db.lock");
    no_locks = true;
    CHECK(h, put(h, 1) && get(h->g, 1) == 1 && get(h->g, 2) == 0, "no cache without locks");
    CHECK(h, access(lock, F_OK) != 0, "the lock stays");
    CHECK(h, mkdir(lock, 0700) == 0, "mkdir");
    CHECK(h, get(h->g, 1) == 0 && !put(h, 2), "the lock of another process is no lock");
    set_age(lock, 3600);
    CHECK(h, get(h->g, 1) == 1 && put(h, 2), "the lock of a process that was killed stays");
    no_locks = false;
    CHECK(h, get(h->g, 1) == 1 && get(h->g, 2) == 1, "the file is another one with locks");
    clean(h);
}

static void work_until_killed(struct harness *h, int seed)
{
    for (unsigned n = (unsigned)seed;; n = n * 1664525u + 1013904223u) {
        int key = (int)(n >> 16) % KEYS, found = get(h->g, key);
        if (found < 0)
            _exit(1);
        if (found == 0)
            (void)put(h, key);
    }
}

static void processes_without_locks_that_are_killed(struct harness *h)
{
    pid_t child[4];
    char lock[128];
    int wrong = 0;

    fresh(h);
    path_of(lock, "kernels-1.db.lock");
    no_locks = true;
    for (int i = 0; i < LENGTH(child); i++) {
        child[i] = fork();
        if (child[i] == 0)
            work_until_killed(h, i + 1);
    }
    for (int i = 0; i < LENGTH(child); i++) {
        int status = 0;
        usleep(150000);
        (void)kill(child[i], SIGKILL);
        (void)waitpid(child[i], &status, 0);
        wrong += !WIFSIGNALED(status);
        set_age(lock, 3600); /* if it was killed with the lock */
    }
    for (int key = 0; key < KEYS; key++)
        wrong += get(h->g, key) < 0;
    CHECK(h, wrong == 0, "%d wrong", wrong);
    CHECK(h, put(h, KEYS) && get(h->g, KEYS) == 1, "the cache does not work any more");
    no_locks = false;
    clean(h);
}

/* ---- Many users ----------------------------------------------------------------------------- */

static void *put_and_get(void *arg)
{
    struct harness mine = *(struct harness *)arg;
    intptr_t wrong = 0;

    for (int round = 0; round < 3; round++)
        for (int key = 0; key < KEYS; key++) {
            (void)put(&mine, key);
            wrong += get(mine.g, key) < 0;
        }
    return (void *)wrong; // NOLINT(performance-no-int-to-ptr)
}

static void threads(struct harness *h)
{
    pthread_t thread[THREADS];

    fresh(h);
    for (int i = 0; i < THREADS; i++)
        CHECK(h, pthread_create(&thread[i], NULL, put_and_get, h) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        CHECK(h, pthread_join(thread[i], &wrong) == 0 && !wrong, "wrong code in thread %d", i);
    }
    for (int key = 0; key < KEYS; key++)
        CHECK(h, put(h, key) && get(h->g, key) == 1, "key %d", key);
    clean(h);
}

/* Another version of the library: other sources, or even another idea of the file. */
static void two_versions_side_by_side(struct harness *h)
{
    static const char *const versions[] = {
        "1 a.cu sm_90 nvrtc13.0 -DK=1 aaaa", "1 a.cu sm_90 nvrtc13.0 -DK=1 bbbb",
        "1 a.cu sm_90 nvrtc12.9 -DK=1 aaaa", "2 a.cu sm_90 nvrtc13.0 -DK=1 aaaa"};
    struct jit_code code = {.size = 1}, back;
    char why[256];

    fresh(h);
    for (int i = 0; i < LENGTH(versions); i++) {
        char byte = (char)('a' + i);
        code.bytes = &byte;
        CHECK(h, gram_jit_cache_put(h->g, versions[i], &code, why, sizeof why), "%s", why);
    }
    for (int i = 0; i < LENGTH(versions); i++) {
        CHECK(h, gram_jit_cache_get(h->g, versions[i], &back) && back.bytes[0] == 'a' + i, "%s",
              versions[i]);
        free(back.bytes);
    }
    CHECK(h, sql(h, "DROP TABLE kernel; CREATE TABLE kernel(key TEXT, other REAL)"), "sql");
    CHECK(h, get(h->g, 1) == 0, "a table of another shape is read");
    CHECK(h, put(h, 1) && get(h->g, 1) == 1, "a table of another shape is not set aside");
    clean(h);
}

static void what_was_not_used_for_longest_goes(struct harness *h)
{
    const int64_t before = h->g->cache_bytes;
    char text[128];

    fresh(h);
    h->g->cache_bytes = 4 * SIZE;
    for (int key = 0; key < 4; key++) {
        CHECK(h, put(h, key), "key %d", key);
        snprintf(text, sizeof text, "UPDATE kernel SET used=%lld WHERE key LIKE '%%=%d %%'",
                 (long long)time(NULL) - (10 - key) * DAY, key);
        CHECK(h, sql(h, text), "%s", text);
    }
    CHECK(h, get(h->g, 0) == 1, "it is there"); /* and from now on the youngest */
    CHECK(h, put(h, 4) && put(h, 5), "room is made");
    CHECK(h, get(h->g, 0) == 1 && get(h->g, 3) == 1 && get(h->g, 4) == 1 && get(h->g, 5) == 1,
          "what was used goes");
    CHECK(h, get(h->g, 1) == 0 && get(h->g, 2) == 0, "what was not used stays");
    h->g->cache_bytes = before;
    clean(h);
}

static const struct test_function tests[] = {
    {                            "a_full_disk",                             a_full_disk},
    {     "a_limit_of_file_sizes_kills_nobody",      a_limit_of_file_sizes_kills_nobody},
    {         "a_folder_that_can_only_be_read",          a_folder_that_can_only_be_read},
    {      "what_belongs_to_others_is_refused",       what_belongs_to_others_is_refused},
    {            "a_file_system_without_locks",             a_file_system_without_locks},
    {"processes_without_locks_that_are_killed", processes_without_locks_that_are_killed},
    {                                "threads",                                 threads},
    {              "two_versions_side_by_side",               two_versions_side_by_side},
    {     "what_was_not_used_for_longest_goes",      what_was_not_used_for_longest_goes},
};

int main(void)
{
    if (!dlopen("libsqlite3.so.0", RTLD_NOW)) {
        printf("skipped: libsqlite3.so.0 cannot be opened, so there is no cache\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
