/*
 * krr_ranks.h - ranks of a communicator that take the same steps of a solve
 *
 * Each of them has all rows, and what it computes from them.  Products with K are shared.  Where
 * rounding could lead ranks to different decisions, as on processors of two kinds, they take what
 * the first one has found.  With NULL for the ranks all functions do nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRR_RANKS_H
#define GRAM_KRR_RANKS_H
#include "krr_passes.h"
#include "multi/communicator.h"

struct krr_ranks {
    gram_communicator *c; /* whose rows[0] are those of each rank */
    int64_t n, first;     /* rows of all, and of those before this one */
    bool ended;           /* a failure has been told: no rank waits for this one */
};

/* Numbers, a truth, or `count` pivots and their number (or that alone) of the first rank. */
gram_status gram_krr_ranks_numbers(gram_context *g, struct krr_ranks *ranks, double *numbers,
                                   int64_t count);
gram_status gram_krr_ranks_flag(gram_context *g, struct krr_ranks *ranks, bool *flag);
gram_status gram_krr_ranks_pivots(gram_context *g, struct krr_ranks *ranks, int64_t *pivot,
                                  int64_t *count);
/* The least number of all ranks. */
gram_status gram_krr_ranks_least(gram_context *g, struct krr_ranks *ranks, int64_t *number);
/* Vectors of n, column-major, where the context computes: rows of each rank come to all. */
gram_status gram_krr_ranks_gather(gram_context *g, struct krr_ranks *ranks, gram_dtype dtype,
                                  int64_t columns, void *v);
/* to = K from, both n by columns. */
gram_status gram_krr_ranks_multiply(gram_context *g, struct krr_ranks *ranks,
                                    const struct krr_kernel *k, const gram_tensor *from,
                                    gram_tensor *to);
/* Ends a call: its status on all ranks. */
gram_status gram_krr_ranks_end(gram_context *g, struct krr_ranks *ranks, gram_status status);
#endif
