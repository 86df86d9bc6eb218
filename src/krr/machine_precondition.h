/*
 * machine_precondition.h - a preconditioner for K + r I from a random pivoted Cholesky of K
 *
 * P = F F^T + lambda I with F n by rank; P^-1 by the Woodbury identity.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_PRECONDITION_H
#define GRAM_MACHINE_PRECONDITION_H
#include "core/context.h"

struct machine_preconditioner {
    int64_t n, rank, columns; /* columns: most right-hand sides at a time */
    gram_dtype dtype;
    double lambda;
    char *factor;     /* F: n by rank, column-major */
    double *cholesky; /* lower factor of F^T F + lambda I, rank by rank, column-major */
    char *product;    /* scratch: rank by columns for every chunk of rows, dtype */
    double *wide;     /* scratch: rank by columns */
    size_t factor_bytes, cholesky_bytes, product_bytes, wide_bytes;
};

/* The rank that pays for n rows: about 8 sqrt(n), at most 1000. */
int64_t gram_machine_preconditioner_rank(int64_t n);

size_t gram_machine_preconditioner_bytes(int64_t n, int64_t columns, gram_dtype dtype);

/* x is n by d, row-major; the kernel has a unit diagonal; ridge is the mean of what is added. */
gram_status gram_machine_preconditioner_create(gram_context *g, const gram_tensor *x,
                                               const gram_kernel_options *kernel, double ridge,
                                               int64_t columns, uint64_t seed,
                                               struct machine_preconditioner *out);
void gram_machine_preconditioner_destroy(gram_context *g, struct machine_preconditioner *p);

/* out = P^-1 v, both n by p->columns, column-major; they may not overlap. */
void gram_machine_preconditioner_apply(gram_context *g, const struct machine_preconditioner *p,
                                       const void *v, void *out);
#endif
