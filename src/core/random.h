/*
 * random.h - a seeded generator: splitmix64, the same numbers everywhere
 *
 * Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_RANDOM_H
#define GRAM_RANDOM_H
#include <stdint.h>

static inline uint64_t gram_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static inline double gram_random_unit(uint64_t *state)
{
    return (double)(gram_random(state) >> 11) * 0x1p-53;
}

/* Uniform in [0, count): the bias of the multiplication, count / 2^64, is below notice. */
static inline int64_t gram_random_below(uint64_t *state, int64_t count)
{
    return (int64_t)(((unsigned __int128)gram_random(state) * (uint64_t)count) >> 64);
}

/*
 * A sample of `wanted` of the indices below `all`, in order.  Each in turn is taken with
 * probability (still wanted) / (still to come), which makes every set of indices equally likely
 * (Knuth, The Art of Computer Programming, 3.4.2, algorithm S).
 */
struct gram_random_sample {
    uint64_t state; /* the seed */
    int64_t all, wanted;
    int64_t next; /* 0 */
};

/* The next index of the sample, -1 after the last. */
static inline int64_t gram_random_sample_next(struct gram_random_sample *s)
{
    while (s->wanted > 0) {
        int64_t i = s->next++;

        if (gram_random_below(&s->state, s->all - i) < s->wanted) {
            s->wanted--;
            return i;
        }
    }
    return -1;
}

/* Shuffles so that the first chosen of n indices are a sample without repetition, in random
 * order. */
static inline void gram_random_choose(uint64_t *state, int64_t *index, int64_t n, int64_t chosen)
{
    for (int64_t i = 0; i < chosen; i++) {
        int64_t j = i + gram_random_below(state, n - i), keep = index[i];
        index[i] = index[j];
        index[j] = keep;
    }
}
#endif
