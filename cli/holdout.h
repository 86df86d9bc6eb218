/*
 * holdout.h - a random part of a table's rows, moved to its front
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_HOLDOUT_H
#define GRAM_CLI_HOLDOUT_H
#include "csv.h"

/*
 * Exchanges rows in place so that the first `count` (at most rows) are a uniformly random sample;
 * the same seed and table give the same order.
 */
enum exit_status holdout_shuffle(struct table *t, int64_t count, uint64_t seed,
                                 struct failure *why);

/* 0 to count - 1 in a uniformly random order; the same seed gives the same order. */
void holdout_order(int64_t *order, int64_t count, uint64_t seed);
#endif
