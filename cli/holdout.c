/*
 * holdout.c - a random part of a table's rows, moved to its front
 *
 * These are the first steps of a Fisher-Yates shuffle, with the generator splitmix64 (Steele, Lea
 * and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014).  The exchanges are drawn
 * once, and then made column by column, which is the order of memory.
 *
 * SPDX-License-Identifier: MIT
 */
#include "holdout.h"
#include <stdlib.h>

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Uniform below bound: values of the last, incomplete round of 2^64 are drawn again. */
static uint64_t random_below(uint64_t *state, uint64_t bound)
{
    uint64_t excess = -bound % bound, value; /* 2^64 mod bound */

    do
        value = next_random(state);
    while (value < excess);
    return value % bound;
}

enum exit_status holdout_shuffle(struct table *t, int64_t count, uint64_t seed, struct failure *why)
{
    int64_t *with = malloc((size_t)(count + !count) * sizeof *with);

    if (!with)
        return fail_memory(why, "the choice of rows");
    for (int64_t i = 0; i < count; i++)
        with[i] = i + (int64_t)random_below(&seed, (uint64_t)(t->rows - i));
    for (int64_t c = 0; c < t->width; c++) {
        double *numbers = t->columns[c].numbers;
        const char **texts = t->columns[c].texts;
        for (int64_t i = 0; numbers && i < count; i++) {
            double kept = numbers[i];
            numbers[i] = numbers[with[i]];
            numbers[with[i]] = kept;
        }
        for (int64_t i = 0; texts && i < count; i++) {
            const char *kept = texts[i];
            texts[i] = texts[with[i]];
            texts[with[i]] = kept;
        }
    }
    free(with);
    return CLI_OK;
}

void holdout_order(int64_t *order, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = 0; i + 1 < count; i++) {
        const int64_t with = i + (int64_t)random_below(&seed, (uint64_t)(count - i));
        const int64_t kept = order[i];
        order[i] = order[with];
        order[with] = kept;
    }
}
