/*
 * failing_alloc.h - an allocator for gram_context_options that counts, checks and fails on demand
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_FAILING_ALLOC_H
#define GRAM_FAILING_ALLOC_H
#include "gram/gram.h"
#include <pthread.h>
#include <stdbool.h>

struct failing_alloc {
    pthread_mutex_t mutex;
    int64_t calls;          /* of allocate, since the last reset */
    int64_t fail_at;        /* this call fails; 0: none */
    bool failed;            /* one did */
    int64_t live;           /* blocks not yet released */
    int64_t bytes, peak;    /* live bytes, and the most there ever were */
    int64_t wrong_releases; /* of another size than the block's, or of no block at all */
};

#define FAILING_ALLOC_INIT             \
  {                                    \
    .mutex = PTHREAD_MUTEX_INITIALIZER \
  }

/* Makes options allocate from a. */
void failing_alloc_use(struct failing_alloc *a, gram_context_options *options);

/* Counts calls from 1 again; the fail_at'th will fail. */
void failing_alloc_reset(struct failing_alloc *a, int64_t fail_at);

/* Makes options allocate as long as *left, which each call lowers, is positive. */
void limited_alloc_use(int *left, gram_context_options *options);
#endif
