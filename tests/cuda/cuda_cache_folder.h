/*
 * cuda_cache_folder.h - a cache of kernels in a folder of its own, with code that tells whether it
 * is whole
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_CUDA_CACHE_FOLDER_H
#define GRAM_TEST_CUDA_CACHE_FOLDER_H
#include "check/harness/harness.h"
#include "cuda/jit.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SIZE = 20000 /* bytes of code */
};

static char folder[64];

static void path_of(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", folder, name);
}

/* A new empty folder, which h's context caches in. */
static void fresh(struct harness *h)
{
    snprintf(folder, sizeof folder, "/tmp/gram-cache-XXXXXX");
    CHECK(h, mkdtemp(folder), "mkdtemp");
    h->g->cache_folder = folder;
}

static void clean(struct harness *h)
{
    static const char *const names[] = {"kernels-1.db", "kernels-1.db.corrupt",
                                        "kernels-1.db-journal"};
    char path[128];

    for (int i = 0; i < LENGTH(names); i++) {
        path_of(path, names[i]);
        (void)unlink(path);
    }
    path_of(path, "kernels-1.db.lock");
    (void)rmdir(path);
    CHECK(h, rmdir(folder) == 0, "%s is not empty", folder);
}

/* The code that stands under a key: anyone can tell whether it is whole. */
static inline void make(int key, char name[64], char bytes[SIZE])
{
    snprintf(name, 64, "1 file%d.cu sm_90 nvrtc13.0 -DKEY=%d 0123", key, key);
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (char)(key * 31 + i * 7 + i / 251);
}

static inline bool put(struct harness *h, int key)
{
    char name[64], why[256], bytes[SIZE];
    const struct jit_code code = {.bytes = bytes, .size = SIZE};

    make(key, name, bytes);
    return gram_jit_cache_put(h->g, name, &code, why, sizeof why);
}

/* 1: a hit with the right bytes; 0: a miss; -1: wrong bytes. */
static inline int get(const gram_context *g, int key)
{
    char name[64], bytes[SIZE];
    struct jit_code code;
    int result;

    make(key, name, bytes);
    if (!gram_jit_cache_get(g, name, &code))
        return 0;
    result = code.size == SIZE && memcmp(code.bytes, bytes, SIZE) == 0 ? 1 : -1;
    free(code.bytes);
    return result;
}
#endif
