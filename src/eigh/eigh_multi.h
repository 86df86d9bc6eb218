/*
 * eigh_multi.h - one eigenproblem that several devices share: what the front hands to the backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_MULTI_H
#define GRAM_EIGH_MULTI_H
#include "core/view.h"

enum {
    GRAM_MULTI_DEVICES = 16 /* at most, as cusolverMg */
};

struct gram_eigh_multi;

/* What the front does on the CPU, with the threads of the first context. */
struct gram_eigh_multi_host {
    /* The largest magnitude in the lower triangle of an item; NaN or infinity if one is there. */
    double (*largest)(const struct gram_eigh_multi *m, int64_t item);
    /* panel[i + j n] = 2^-exponent a[i][first + j], where i >= first + j, for j < cols. */
    void (*gather)(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                   void *panel);
    /* vectors[i][first + j] = panel[i + j n] */
    void (*scatter)(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                    const void *panel);
};

/* A call; the contexts are of the devices that share it.  Between solve and store of an item no
 * context is used for anything else. */
struct gram_eigh_multi {
    gram_context *const *contexts;
    int count;
    gram_dtype dtype;
    int64_t n;
    struct gram_batch batch;
    struct gram_view a,
        vectors;          /* the lower triangle of a is read; vectors: data NULL: not wanted */
    int a_on, vectors_on; /* the context on whose device they are; -1: the CPU */
    bool has_vectors;
    int exponent; /* of the item: solve sets it */
    void *w; /* n values on the CPU, which solve sets: ascending, of the matrix that is scaled */
    void *panel; /* as many bytes on the CPU as the query says */
    const struct gram_eigh_multi_host *host;
};
#endif
