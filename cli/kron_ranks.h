/*
 * kron_ranks.h - gram kron --mpi: the processes that mpirun has started share a product
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_KRON_RANKS_H
#define GRAM_CLI_KRON_RANKS_H
#include "matrix.h"
#include "ranks.h"

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
enum exit_status kron_ranks_multiply(struct ranks *ranks, const struct kron_ranks_product *p,
                                     struct matrix *y, struct failure *why);
#endif
