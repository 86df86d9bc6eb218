/*
 * ranks.h - commands with --mpi: the processes that mpirun or srun has started
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_RANKS_H
#define GRAM_CLI_RANKS_H
#include "command.h"

struct ranks {
    gram_context *g;
    gram_communicator *c;
};

/* What no command can do with --mpi: another device, and standard input. */
enum exit_status ranks_check(const struct common_settings *common, int count, char *const *operands,
                             struct failure *why);

/* ranks_close when done, on an error too. */
enum exit_status ranks_open(const struct common_settings *common, struct ranks *ranks,
                            struct failure *why);
void ranks_close(struct ranks *ranks);

/* The first process: it writes the result. */
int ranks_first(const struct ranks *ranks);

/* How many of so many rows are this rank's, from *first on: those of two ranks differ by one. */
int64_t ranks_rows(const struct ranks *ranks, int64_t rows, int64_t *first);

/*
 * Waits for all ranks: each gets its status, or a failure where another one fails.  The first
 * process has the message then, that of the first rank that failed; the others have none.
 */
enum exit_status ranks_agree(struct ranks *ranks, enum exit_status status, struct failure *why);

/* Brings bytes of all ranks to the first, which has room for all of them. */
enum exit_status ranks_gather(struct ranks *ranks, const void *data, size_t bytes, void *into,
                              size_t room, struct failure *why);
#endif
