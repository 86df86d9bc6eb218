/*
 * library.h - NVIDIA's libraries, found and opened at run time
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_LIBRARY_H
#define GRAM_CUDA_LIBRARY_H
#include "core/context.h"

/* A function of a library and where its address goes in a struct of pointers. */
struct cuda_symbol {
    const char *name; /* NULL at the end of a list; "?name": an old library may lack it, its pointer
                         is then NULL */
    size_t at;
};

/*
 * Opens the first of names (NULL at the end) that is found: what the process has already loaded,
 * GRAM_CUDA_LIB_DIR, NVIDIA's wheels beside this library, the loader's path, the usual folder of a
 * toolkit.  NULL if there is none.  Libraries are never closed.
 */
void *gram_cuda_library(const gram_context *g, const char *const *names);

/* Fills in a struct of pointers; false, with the reason in why, if a function is missing. */
bool gram_cuda_symbols(void *library, const struct cuda_symbol *symbols, void *into, char *why,
                       size_t why_bytes);

enum {
    CUDA_MOST_SYMBOLS = 64 /* of a cuda_opened */
};

/* A library that the process opens once, when it is first needed: its functions' addresses go to
 * into, a struct of nothing but these.  What follows package is written under GRAM_LOCK_LIBRARIES.
 */
struct cuda_opened {
    const char *name, *files[4]; /* "cuSOLVER"; NULL at the end */
    const struct cuda_symbol *symbols;
    void *into;
    size_t bytes;        /* of into: at most CUDA_MOST_SYMBOLS pointers */
    const char *package; /* of PyPI, for the message */
    bool tried, has;
    char why[256];
};

/* GRAM_UNSUPPORTED, with the reason, where there is no such library. */
gram_status gram_cuda_open(gram_context *g, struct cuda_opened *library);
#endif
