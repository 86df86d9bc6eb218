/*
 * tune_eigh.h - `gram tune eigh`: which driver does eigenproblems of a shape fastest
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TUNE_EIGH_H
#define GRAM_CLI_TUNE_EIGH_H
#include "eigh_sample.h"

/* The largest or the smallest pairs of each matrix, -1: all. */
struct tune_eigh {
    struct eigh_shape shape;
    int64_t largest, smallest;
    int no_vectors, json;
};

enum exit_status tune_eigh(gram_context *g, const struct tune_eigh *t, struct failure *why);
#endif
