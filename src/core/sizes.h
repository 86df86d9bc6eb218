/*
 * sizes.h - arithmetic of sizes, none of which is negative
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SIZES_H
#define GRAM_SIZES_H
#include <stddef.h>
#include <stdint.h>

/* The smaller and the larger of two. */
static inline int64_t gram_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gram_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The larger of two needs of scratch. */
static inline size_t gram_most_bytes(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The blocks of b that hold a, 0 < b: a / b rounded up, without overflow. */
static inline int64_t gram_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* a rounded up to a whole number of blocks of b. */
static inline int64_t gram_round_up(int64_t a, int64_t b)
{
    return gram_ceil_div(a, b) * b;
}

/* Rounds up to a whole number of cache lines: how drivers lay out scratch. */
static inline size_t gram_round64(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
#endif
