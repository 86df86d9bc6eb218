/*
 * test_cuda_cache.c - the cache of compiled kernels: hits, damage, strangers, processes that are
 * killed
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cache_folder.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROCESSES = 8,
    KEYS = 40,
    FIRST_KEY = 0, /* what every process puts first: work_until_killed */
    PATIENCE_MS = 1200000
};

static void what_is_put_is_found(struct harness *h)
{
    char path[128];
    struct stat info;

    fresh(h);
    CHECK(h, get(h->g, 1) == 0, "an empty cache hits");
    CHECK(h, put(h, 1) && put(h, 2), "nothing was kept");
    CHECK(h, get(h->g, 1) == 1 && get(h->g, 2) == 1 && get(h->g, 3) == 0, "%d %d %d", get(h->g, 1),
          get(h->g, 2), get(h->g, 3));
    path_of(path, "kernels-1.db");
    CHECK(h, stat(path, &info) == 0 && (info.st_mode & 077) == 0, "others may read %s", path);
    clean(h);
}

static void damage_is_a_miss(struct harness *h)
{
    static const struct {
        long at; /* negative: cut the file here */
        const char *what;
    } rows[] = {
        {    0,    "no database"},
        {-5000,            "cut"},
        { 6000,         "a page"},
        {   -3, "almost nothing"}
    };
    char path[128];

    for (int i = 0; i < LENGTH(rows); i++) {
        FILE *file;
        int found = 0;
        fresh(h);
        path_of(path, "kernels-1.db");
        CHECK(h, put(h, 1), "nothing was kept");
        if (rows[i].at < 0) {
            CHECK(h, truncate(path, -rows[i].at) == 0, "truncate");
        } else if (CHECK(h, (file = fopen(path, "r+")) != NULL, "fopen")) {
            (void)fseek(file, rows[i].at, SEEK_SET);
            for (int b = 0; b < 4096; b++)
                (void)fputc(0xA5, file);
            (void)fclose(file);
        }
        CHECK(h, get(h->g, 1) == 0, "%s: code is found", rows[i].what);
        for (int again = 0; again < 3 && !found; again++)
            found = put(h, 1);
        CHECK(h, found && get(h->g, 1) == 1, "%s: the cache does not work again", rows[i].what);
        clean(h);
    }
}

static void strangers_are_refused(struct harness *h)
{
    char path[128];

    fresh(h);
    CHECK(h, put(h, 1), "nothing was kept");
    path_of(path, "kernels-1.db");
    CHECK(h, chmod(folder, 0770) == 0 && get(h->g, 1) == 0, "a folder of the group is used");
    CHECK(h, chmod(folder, 0707) == 0 && !put(h, 2), "a folder of everybody is used");
    CHECK(h, chmod(folder, 0700) == 0 && chmod(path, 0606) == 0 && get(h->g, 1) == 0,
          "a file of everybody is used");
    CHECK(h, chmod(path, 0600) == 0 && get(h->g, 1) == 1, "it is not used again");
    clean(h);
    h->g->cache_folder = "/proc/nowhere";
    CHECK(h, !put(h, 1) && get(h->g, 1) == 0, "a folder that cannot be made is used");
}

static void work_until_killed(struct harness *h, int seed)
{
    for (unsigned n = (unsigned)seed;; n = n * 1664525u + 1013904223u) {
        int key = (int)(n >> 16) % KEYS;
        int found = get(h->g, key);
        if (found < 0)
            _exit(1);
        if (found == 0)
            (void)put(h, key);
    }
}

static void processes_that_are_killed(struct harness *h)
{
    pid_t child[PROCESSES];
    int wrong = 0, hits = 0;

    fresh(h);
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = fork();
        if (child[i] == 0)
            work_until_killed(h, i + 1);
    }
    for (int i = 0; i < PATIENCE_MS && get(h->g, FIRST_KEY) == 0; i++)
        usleep(1000); /* until there is something to be read */
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        usleep(150000); /* the others go on: each is killed in the middle of something */
        (void)kill(child[i], SIGKILL);
        (void)waitpid(child[i], &status, 0);
        wrong += !WIFSIGNALED(status);
    }
    CHECK(h, wrong == 0, "%d processes read wrong code", wrong);
    for (int key = 0; key < KEYS; key++) {
        int found = get(h->g, key);
        wrong += found < 0;
        hits += found > 0;
    }
    CHECK(h, wrong == 0 && hits > 0, "%d wrong, %d hits afterwards", wrong, hits);
    CHECK(h, put(h, KEYS) && get(h->g, KEYS) == 1, "the cache does not work any more");
    clean(h);
}

static void count(void *user, const gram_cache_entry *entry)
{
    *(int *)user += entry->size == sizeof *entry && entry->kernel && entry->options;
}

/* The public calls, through the plugin that the context loads. */
static void the_api(struct harness *h)
{
    static const char *const chips[] = {"sm_12", NULL};
    gram_cache cache = {.size = sizeof cache};
    struct {
        size_t size;
        char path[4096], guard;
    } shorter = {.size = offsetof(gram_cache, why), .guard = 77};
    int64_t removed = 7;
    int kernels = 0;

    fresh(h);
    CHECK(h, gram_cache_info(h->g, &cache) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, strncmp(cache.path, folder, strlen(folder)) == 0 && !cache.why[0], "%s %s", cache.path,
          cache.why);
    CHECK(h, gram_cache_info(h->g, (gram_cache *)(void *)&shorter) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, shorter.guard == 77 && strcmp(shorter.path, cache.path) == 0, "%s", shorter.path);
    CHECK(h,
          put(h, 1) && gram_cache_info(h->g, &cache) == GRAM_OK && cache.kernels == 1 &&
              cache.bytes == SIZE && cache.file_bytes > SIZE,
          "%lld kernels, %lld bytes", (long long)cache.kernels, (long long)cache.bytes);
    CHECK(h, gram_cache_list(h->g, count, &kernels) == GRAM_OK && kernels == 1, "%d are listed",
          kernels);
    CHECK(h, gram_cache_clear(h->g, "KEY=? ", &removed) == GRAM_OK && removed == 1, "%lld removed",
          (long long)removed);
    CHECK(h, gram_cache_clear(h->g, NULL, NULL) == GRAM_OK, "%s", gram_message(h->g));
    cache.size = sizeof cache + 8;
    CHECK(h, gram_cache_info(h->g, &cache) == GRAM_INVALID_ARGUMENT, "a size of the future");
    CHECK(h, gram_cache_info(h->g, NULL) == GRAM_INVALID_ARGUMENT, "NULL");
    CHECK(h, gram_cache_list(h->g, NULL, NULL) == GRAM_INVALID_ARGUMENT, "no visit");
    CHECK(h, gram_cache_warm(h->g, NULL, 1, NULL, NULL) == GRAM_INVALID_ARGUMENT, "no chips");
    CHECK(h, gram_cache_warm(h->g, chips, -1, NULL, NULL) == GRAM_INVALID_ARGUMENT, "-1 chips");
    CHECK(h, gram_cache_warm(h->g, chips, 2, NULL, NULL) == GRAM_INVALID_ARGUMENT, "chip NULL");
    CHECK(h, gram_cache_warm(h->g, chips, 1, NULL, NULL) != GRAM_OK, "sm_12 is compiled for");
    clean(h);
}

static const struct test_function tests[] = {
    {                  "the_api",                   the_api},
    {     "what_is_put_is_found",      what_is_put_is_found},
    {         "damage_is_a_miss",          damage_is_a_miss},
    {    "strangers_are_refused",     strangers_are_refused},
    {"processes_that_are_killed", processes_that_are_killed},
};

int main(void)
{
    if (!dlopen("libsqlite3.so.0", RTLD_NOW)) {
        printf("skipped: libsqlite3.so.0 cannot be opened, so there is no cache\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}
