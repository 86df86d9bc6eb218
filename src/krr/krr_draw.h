/*
 * krr_draw.h - pivots of a Cholesky factorisation, drawn by one process or by all ranks
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_DRAW_H
#define GRAM_KRR_DRAW_H
#include "krr_ranks.h"

enum {
    KRR_DRAW_PART = 1024 /* weights whose sum is skipped at once while a pivot is drawn */
};

/* Weights of the rows that this process has. */
struct krr_draw {
    struct krr_ranks *ranks; /* NULL: a process alone */
    const double *weight;    /* n, not below 0 */
    double *part;            /* room for a sum of KRR_DRAW_PART of them each */
    int64_t n;
};

/*
 * Draws distinct rows with probability proportional to weight: *count of them, or fewer if fewer
 * weigh, whose number becomes *count.  Ranks draw from the rows of all: they tell each other the
 * sums of their weights, and the rank whose rows a number of the generator falls on tells the
 * others its row.  The pivots are then in ascending order, so that those of a rank lie together.
 */
gram_status gram_krr_draw(gram_context *g, const struct krr_draw *d, uint64_t *state,
                          int64_t *pivot, int64_t *count);
void gram_krr_sort_pivots(int64_t *pivot, int64_t count);
#endif
