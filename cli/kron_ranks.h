/*
 * kron_ranks.h - gram kron --mpi: the processes that mpirun has started share a product
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_KRON_RANKS_H
#define GRAM_CLI_KRON_RANKS_H
#include "matrix.h"

struct kron_ranks {
    gram_context *g;
    gram_communicator *c;
};

/* kron_ranks_close when done, on an error too. */
enum exit_status kron_ranks_open(const struct common_settings *common, struct kron_ranks *ranks,
                                 struct failure *why);
void kron_ranks_close(struct kron_ranks *ranks);

/* The first process: it writes the result. */
int kron_ranks_first(const struct kron_ranks *ranks);

/*
 * Waits for all ranks: each gets its status, or a failure where another one fails.  The first
 * process has the message then, that of the first rank that failed; the others have none.
 */
enum exit_status kron_ranks_agree(struct kron_ranks *ranks, enum exit_status status,
                                  struct failure *why);

/* A product whose result has ndim dimensions and that shape; x and the factors are whole. */
struct kron_ranks_product {
    const gram_tensor *x, *const *factors;
    int64_t count;
    gram_kron_options options; /* without a communicator */
    int ndim;
    const int64_t *shape;
};

/* Gives y, which is to be freed in any case, to the first process; to the others nothing.  The
 * ranks have agreed about an error. */
enum exit_status kron_ranks_multiply(struct kron_ranks *ranks, const struct kron_ranks_product *p,
                                     struct matrix *y, struct failure *why);
#endif
