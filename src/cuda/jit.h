/*
 * jit.h - kernels compiled on demand, once a variant and process, and kept across processes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_JIT_H
#define GRAM_CUDA_JIT_H
#include "driver.h"

/* Device code that is built into this library; cmake/embed.cmake writes it. */
struct cuda_source {
    const char *name, *text;
    uint64_t hash; /* of the text and of those of all files that it includes; 0: not built in */
};
extern const struct cuda_source gram_cuda_sources[]; /* name NULL at the end */
extern const uint64_t gram_cuda_sources_hash;        /* of all their names and texts */

struct jit_request {
    const char *file;       /* "cdist.cu" */
    const char *kernel;     /* its extern "C" function */
    const char *defines;    /* "-DREAL=float -DTM=8", separated by blanks */
    bool chip_alone;        /* it uses what only chips of the same number have: sm_90a */
    struct cuda_source own; /* one that is not built in: the file itself, or what it includes; name
                               NULL: none */
};

/* The compiled code of a kernel: machine code for a chip, or text for newer ones. */
struct jit_code {
    char *bytes; /* free() */
    size_t size;
};

/* From the cache, or compiled and kept in it; request->kernel does not count. */
gram_status gram_jit_code(gram_context *g, const struct cuda_device *device,
                          const struct jit_request *request, struct jit_code *code);

/* Compiles for a chip ("sm_90a"). */
gram_status gram_jit_compile(gram_context *g, const struct cuda_compiler *compiler,
                             const struct jit_request *request, const char *chip,
                             struct jit_code *out);
/* "sm_90", or "compute_90" for a chip that the compiler does not know. */
void gram_jit_chip(const struct cuda_compiler *compiler, int arch, char *chip, size_t size);
/* The same as a request wants it: "sm_90a" where it is for chips of this number alone. */
void gram_jit_chip_for(const struct jit_request *request, const char *chip, char *out, size_t size);
/* A line that holds everything that the compiled bytes depend on; see docs/guide/gpu.md. */
enum {
    JIT_KEY_BYTES = 1536
};
void gram_jit_key(const gram_context *g, const struct cuda_compiler *compiler,
                  const struct jit_request *request, const char *chip, char key[JIT_KEY_BYTES]);
/* Cuts a key in place; false if it is none. */
bool gram_jit_entry_of_key(char *key, gram_cache_entry *entry);

/* jit_cache.c: false is a miss; a cache that cannot be used misses everything and keeps nothing,
 * which put gives the reason of. */
bool gram_jit_cache_get(const gram_context *g, const char *key, struct jit_code *out);
bool gram_jit_cache_put(const gram_context *g, const char *key, const struct jit_code *code,
                        char *why, size_t why_bytes);
/* As gram.h says of gram_cache_info, gram_cache_list, gram_cache_clear. */
void gram_jit_cache_info(const gram_context *g, gram_cache *cache);
gram_status gram_jit_cache_list(gram_context *g, gram_cache_visit visit, void *user);
gram_status gram_jit_cache_clear(gram_context *g, const char *pattern, int64_t *removed);
#endif
