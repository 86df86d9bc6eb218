/*
 * compile_cache.h - what compilers of device code have made for tests, kept by content
 *
 * The folder is GRAM_TEST_CACHE, or libgram-tests in the user's folder of caches; it serves every
 * build folder of the user.  What lies in it is executed: it must belong to the user and nobody
 * else may have any right to it, or it is not used.  A name is the hash of everything that the
 * bytes depend on, which whoever makes them tells.  scripts/test keeps the folder small.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_COMPILE_CACHE_H
#define GRAM_TEST_COMPILE_CACHE_H
#include <stdbool.h>
#include <stddef.h>

struct compile_key {
    unsigned long long high, low;
};

struct compile_key compile_key_begin(void);
/* The end of the text counts: "ab" "c" is another key than "a" "bc". */
void compile_key_add(struct compile_key *key, const char *text);

/* A text, and of the headers those that it includes, one through another. */
void compile_key_add_source(struct compile_key *key, const char *text, int headers,
                            const char *const *names, const char *const *texts);

/* The bytes, which the caller frees; NULL: there are none. */
char *compile_cache_get(const struct compile_key *key, size_t *size);
/* Does nothing where the cache cannot be used. */
void compile_cache_put(const struct compile_key *key, const char *bytes, size_t size);
#endif
