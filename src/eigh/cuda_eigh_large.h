/*
 * cuda_eigh_large.h - eigenproblems that cuSOLVER works on: a call's pieces
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_EIGH_LARGE_H
#define GRAM_CUDA_EIGH_LARGE_H
#include "cuda/cusolver.h"
#include "cuda_eigh.h"

/* Where the pieces of the scratch begin. */
struct cuda_eigh_layout {
    int64_t chunk, parts; /* items; blocks of eigh_scan that share one */
    size_t w_at, codes_at, largest_at, work_at;
    size_t work_bytes, host_bytes; /* cuSOLVER's */
    size_t bytes;                  /* of all */
};

/* What a call works with. */
struct cuda_eigh_large {
    const struct cuda_eigh_plan *plan;
    struct cuda_solver *solver;
    struct cuda_eigh_layout at;
    char *memory;
    void *host;
};

/* The eigenproblems of a chunk that is in the scratch: cuSOLVER's status.  Touches no context. */
int cuda_eigh_large_solve(const struct cuda_eigh_large *l, int64_t items);
/* Queues what brings them to the caller's tensors. */
gram_status cuda_eigh_large_store(gram_context *g, const struct cuda_eigh_large *l,
                                  struct eigh_chunk_params *params);
#endif
