/*
 * tuned.h - what was measured to be fastest for a class of problems
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TUNED_H
#define GRAM_TUNED_H
#include "context.h"

/* The n with 2^(n-1) < size <= 2^n: sizes of one class. */
static inline int gram_octave(int64_t size)
{
    int n = 0;

    while (n < 63 && ((int64_t)1 << n) < size)
        n++;
    return n;
}

/* Whether anything was tuned; the choice for a class, 0 if none is kept.  The first call of the
 * process reads the file.  The library and the CUDA plugin each have a table of their own. */
bool gram_tuned_any(const gram_context *g);
int64_t gram_tuned_get(const gram_context *g, uint64_t class);
/* For this process at once; false if it cannot be kept for later ones. */
bool gram_tuned_put(const gram_context *g, uint64_t class, int64_t choice);
/* Removes all that is kept, here and in the file, if there is one. */
void gram_tuned_clear(const gram_context *g);
/* The file is another one or was cleared: read it again. */
void gram_tuned_forget(const gram_context *g);
#endif
