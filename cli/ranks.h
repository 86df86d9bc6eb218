/*
 * ranks.h - commands with --mpi: the processes that mpirun or srun has started
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_RANKS_H
#define GRAM_CLI_RANKS_H
#include "matrix.h"

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

/* Rows first, first + step, .. of a matrix or a vector of any strides, row by row without gaps. */
void ranks_copy_rows(const struct matrix *m, const int64_t first_step[2], int64_t rows, void *out);
/* Cuts a matrix or a vector to its rows from first on, of which it has more. */
enum exit_status ranks_keep(struct matrix *m, int64_t first, int64_t rows, struct failure *why);
/* Rows of each rank, in the order of the ranks, become one matrix of the first rank, of `rows` in
 * all; the others keep theirs.  The ranks have agreed about an error. */
enum exit_status ranks_collect(struct ranks *ranks, struct matrix *m, int64_t rows,
                               struct failure *why);
#endif
