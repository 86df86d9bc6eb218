/*
 * scratch_folder.c - a folder of a test's own: see scratch_folder.h
 *
 * SPDX-License-Identifier: MIT
 */
#define _GNU_SOURCE // NOLINT(bugprone-reserved-identifier)
#include "scratch_folder.h"
#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[SCRATCH_BYTES / 2];

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about, (void)type, (void)where;
    return remove(path);
}

/* on_gpu < 0: on the CPU. */
static int run_in_folder(const struct test_function *tests, int count, int on_gpu)
{
    const char *base = getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe)
    int status;

    (void)snprintf(folder, sizeof folder, "%.80s/gram-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        return EXIT_FAILURE;
    }
    status = on_gpu < 0 ? harness_run_tests(tests, count)
                        : harness_run_tests_or_some(tests, count, on_gpu);
    if (nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0) {
        perror(folder);
        return EXIT_FAILURE;
    }
    return status;
}

int scratch_run_tests(const struct test_function *tests, int count)
{
    return run_in_folder(tests, count, -1);
}

int scratch_run_tests_or_some(const struct test_function *tests, int count, int on_gpu)
{
    return run_in_folder(tests, count, on_gpu);
}

const char *scratch_path(const char *name, char path[SCRATCH_BYTES])
{
    (void)snprintf(path, SCRATCH_BYTES, "%s/%s", folder, name);
    return path;
}

void scratch_put(struct harness *h, const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(h, file && fputs(text, file) >= 0, "%s", path);
    CHECK(h, file && fclose(file) == 0, "%s", path);
}

const char *scratch_get(const char *path, char text[SCRATCH_BYTES])
{
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, SCRATCH_BYTES - 1, file) : 0;

    text[size] = '\0';
    if (file)
        (void)fclose(file);
    return text;
}

int scratch_count(void)
{
    DIR *list = opendir(folder);
    int count = 0;

    while (list && readdir(list)) // NOLINT(concurrency-mt-unsafe)
        count++;
    if (list)
        (void)closedir(list);
    return count - 2; /* without "." and ".." */
}
