/*
 * tune_eigh.h - `gram tune eigh`: which driver does eigenproblems of a shape fastest
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_EIGH_H
#define GRAM_CLI_TUNE_EIGH_H
#include "command.h"

/* items matrices of order n; the largest or the smallest pairs of each, -1: all. */
struct tune_eigh {
    int64_t items, n, largest, smallest;
    int no_vectors;
    int kernel; /* kernel matrices instead of random ones */
    gram_dtype dtype;
    int json;
};

enum exit_status tune_eigh(gram_context *g, const struct tune_eigh *t, struct failure *why);
#endif
