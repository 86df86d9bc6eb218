/*
 * krr_ranks.h - ranks of a communicator that take the same steps of a solve
 *
 * Each of them has all rows, and the vectors of an iteration.  Products with K and the
 * preconditioner are shared: a rank has the rows of its factor that are its own.  Where rounding
 * could lead ranks to different decisions, as on processors of two kinds, they take what the first
 * one has found.  With NULL for the ranks a process is alone, and functions that exchange do
 * nothing.
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
    double *totals;       /* one per rank, of the last total */
};

/* The first of the rows that a rank has, and how many of n it has: of a process alone, all. */
int64_t gram_krr_ranks_first(const struct krr_ranks *ranks);
int64_t gram_krr_ranks_own(const struct krr_ranks *ranks, int64_t n);
gram_tensor gram_krr_ranks_own_rows(const struct krr_ranks *ranks, const gram_tensor *t);
bool gram_krr_ranks_is_first(const struct krr_ranks *ranks);

/* Numbers, or a truth, of the first rank. */
gram_status gram_krr_ranks_numbers(gram_context *g, struct krr_ranks *ranks, double *numbers,
                                   int64_t count);
gram_status gram_krr_ranks_flag(gram_context *g, struct krr_ranks *ranks, bool *flag);
/* The least number of all ranks; the largest of each of some, GRAM_MAX_SHARED at most. */
gram_status gram_krr_ranks_least(gram_context *g, struct krr_ranks *ranks, int64_t *number);
gram_status gram_krr_ranks_largest(gram_context *g, struct krr_ranks *ranks, int64_t *numbers,
                                   int count);
/* Refuses a number of a file that is not the one of the first rank. */
gram_status gram_krr_ranks_same(gram_context *g, struct krr_ranks *ranks, int64_t number,
                                const char *path);
/* A number that is not below 0 becomes the sum of those of all ranks, in their order. */
gram_status gram_krr_ranks_total(gram_context *g, struct krr_ranks *ranks, double *number);
/* Whether u, of the last total, falls on what this rank had in it; u becomes what is behind the
 * ranks before. */
bool gram_krr_ranks_falls_here(const struct krr_ranks *ranks, double *u);
/* Rows of pivots, which are in ascending order, at their places of `rows`, where the context
 * computes: those of each rank come to all. */
gram_status gram_krr_ranks_pivot_rows(gram_context *g, struct krr_ranks *ranks,
                                      const int64_t *pivot, int64_t count, size_t row_bytes,
                                      void *rows);
/* Two exchanges: of a part of the numbers to the rank that adds it up, in the order of the ranks,
 * and back. */
krr_add gram_krr_ranks_add;
/* out = P^-1 v, n by columns of the rows of all; p has those of this rank. */
gram_status gram_krr_ranks_apply(gram_context *g, const struct krr_preconditioner *p,
                                 int64_t columns, const void *v, void *out);
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
