/*
 * machine_nystrom.h - a preconditioner for K + r I where K is stored on a GPU
 *
 * P = C^T (B + jitter I)^-1 C + lambda I, with C some rows of K and B their own corner of it
 * (Nystrom's approximation); P^-1 = (I - C^T (C C^T + lambda (B + jitter I))^-1 C) / lambda by
 * Woodbury's identity.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_NYSTROM_H
#define GRAM_MACHINE_NYSTROM_H
#include "machine_place.h"

struct machine_nystrom {
    int64_t n, rank, columns; /* rank 0: P = lambda I */
    gram_dtype dtype;
    double lambda;
    struct machine_array rows;    /* C: rank by n, row-major */
    struct machine_array inverse; /* f64, rank by rank */
    struct machine_array weight;  /* scratch, f64: twice rank by columns */
};

/* A kernel matrix that is stored: n by n without gaps, of the rows of x (n by d); its diagonal
 * is 1. */
struct machine_stored {
    gram_tensor x, matrix;
    const gram_kernel_options *kernel;
};

/* Most bytes of the device that making one takes, what it keeps included. */
size_t gram_machine_nystrom_bytes(int64_t n, int64_t columns, gram_dtype dtype);

/* ridge is the mean of what is added to the diagonal. */
gram_status gram_machine_nystrom_create(gram_context *g, const struct machine_stored *k,
                                        double ridge, int64_t columns, uint64_t seed,
                                        struct machine_nystrom *out);
void gram_machine_nystrom_destroy(gram_context *g, struct machine_nystrom *p);

/* z = P^-1 r, both n by p->columns, column-major; they may not overlap. */
gram_status gram_machine_nystrom_apply(gram_context *g, const struct machine_nystrom *p,
                                       const void *r, void *z);
#endif
