/*
 * machine_deal.h - the leaves of one machine, shared by ranks and by the contexts of a group
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_DEAL_H
#define GRAM_MACHINE_DEAL_H
#include "machine.h"

/* The leaves of a tree, and how one of them is trained. */
struct machine_deal {
    struct machine_job *job;
    gram_machine *machine;
    int64_t leaves, columns; /* columns: of the encoder, numbers that leaves add to importances */
    double from, to;         /* of the job's present part: that of all leaves */
    /* Trains a leaf in all members, its place in machine->leaf.  job and machine are copies, whose
     * report and importance are those of this leaf alone and begin with zeros. */
    gram_status (*train)(gram_context *g, const struct machine_deal *d, struct machine_job *job,
                         int64_t leaf, gram_machine *machine);
    void *user; /* of train, which only reads it */
    /* Numbers that train has left elsewhere: those of leaf i are at[first[i]] to at[first[i + 1] -
     * 1], each of them `each` side by side.  at NULL: none. */
    const int64_t *first;
    int64_t each;
    double *at;
};

/*
 * Trains all leaves.  The contexts of options.group take one leaf after the other, each in a thread
 * of its own; ranks have every so many'th leaf each, which then come to the first rank.  What
 * leaves add to the report and the importances is added in the order of the leaves, so that a
 * machine is the same whoever trained them.  On the other ranks the machine has only their own.
 */
gram_status gram_machine_deal(gram_context *g, const struct machine_deal *d);

/* ---- Ranks: machine_ranks.c ------------------------------------------------------------------ */

/* Whether this process is the first rank, or alone. */
bool gram_machine_first(const struct machine_job *job);
int gram_machine_rank(const struct machine_job *job);
int gram_machine_ranks(const struct machine_job *job);

/* Refuses a group that does not begin with g, and a communicator that cannot serve it. */
gram_status gram_machine_shares_check(gram_context *g, const gram_machine_options *o);
/* The ranks agree on what they have in common; `status` is that of the call until here. */
gram_status gram_machine_ranks_open(gram_context *g, struct machine_job *job, gram_status status);
/* Ends a call: its status on all ranks. */
gram_status gram_machine_ranks_end(gram_context *g, struct machine_job *job, gram_status status);
/* Bytes of the first rank, which come to all; `status` is that of the first rank's work on them.
 * Processes alone get their status back. */
gram_status gram_machine_ranks_spread(gram_context *g, struct machine_job *job, gram_status status,
                                      void *data, size_t bytes);
/* Bytes of all ranks, one after the other, which come to the first: *all is from malloc there, and
 * else NULL. */
gram_status gram_machine_ranks_gather(gram_context *g, struct machine_job *job, gram_status status,
                                      const void *data, size_t bytes, char **all, size_t *count);
/*
 * machine_shared.c: gram_krr_stored_solve where params->shared is a job.  While job->shares, all
 * ranks share the solves of the first one whose matrix is not stored: it calls _solve, and the
 * others are in _serve until it calls _dismiss with the status of its work.  After a failure nobody
 * shares any more, and the first rank may go on alone.  Else the GPUs of options.group do, where
 * they can: as ranks over NCCL, which _close ends.
 */
gram_status gram_machine_shared_solve(gram_context *g, const struct machine_params *params,
                                      double bandwidth, const struct krr_system *system,
                                      void *alpha, struct krr_report *report);
gram_status gram_machine_shared_serve(gram_context *g, struct machine_job *job);
gram_status gram_machine_shared_dismiss(gram_context *g, struct machine_job *job,
                                        gram_status status);
void gram_machine_shared_close(gram_context *g, struct machine_job *job);

/*
 * machine_halves.c: ranks share a search of the first one.  The others are in _serve until it calls
 * _dismiss with the status of its search, which is then that of all.
 */
gram_status gram_machine_halves_serve(gram_context *g, struct machine_job *job);
gram_status gram_machine_halves_dismiss(gram_context *g, struct machine_job *job,
                                        gram_status status);

/* The rows of leaves as the first rank has them. */
gram_status gram_machine_ranks_rows(gram_context *g, struct machine_job *job, gram_status status,
                                    struct machine_leaf_rows *rows);
#endif
