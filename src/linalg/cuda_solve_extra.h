/*
 * cuda_solve_extra.h - solves with condition estimates, a ladder of jitters, or refinement
 *
 * Every decision is the device's: launches are queued for what may come, and end at once for items
 * (params.go) that have no need of them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SOLVE_EXTRA_H
#define GRAM_CUDA_SOLVE_EXTRA_H
#include "cuda/cusolver.h"
#include "cuda_solve.h"
#include "solve_extra_params.h"

/* Where the pieces of the scratch begin. */
struct cuda_extra_scratch {
    size_t state, go, sweeps, tiles, words, matrix, lifted, exchanges, permutation;
    size_t block, other, probe, signs;
    size_t column, solution, residual, correction, basis;
    size_t codes, outside, work;
    size_t zeros;                  /* bytes at the beginning that have to be zero */
    size_t bytes;                  /* of all; SIZE_MAX: too many to count */
    size_t work_bytes, host_bytes; /* cuSOLVER's */
};

struct cuda_extra {
    const struct cuda_solve_plan *plan;
    const struct gram_solve_op *op;
    struct cuda_extra_scratch at;
    struct solve_extra_params params;
    struct cuda_solver *solver; /* the first factorisation is cuSOLVER's; or NULL */
    int64_t items, width;       /* of a chunk; most columns at a time */
    bool plain;                 /* A is needed no more once it is factored */
    char *memory;
    void *host;
};

/* Whether this way is taken: for what only it can do, and where it is the quickest. */
bool cuda_solve_is_extra(const struct cuda_solve_plan *plan);
gram_status cuda_solve_extra(gram_context *g, const struct cuda_solve_plan *plan);
gram_status cuda_solve_extra_bytes(gram_context *g, const struct cuda_solve_plan *plan,
                                   size_t *bytes);

/* Queues a kernel on params: with `parts` blocks per item, or with `blocks` blocks. */
gram_status cuda_extra_pass(gram_context *g, struct cuda_extra *e, enum cuda_variant_file kernel,
                            gram_dtype dtype);
gram_status cuda_extra_blocks(gram_context *g, struct cuda_extra *e, enum cuda_variant_file kernel,
                              gram_dtype dtype, int64_t blocks);
/* solve_decide: a thread an item. */
gram_status cuda_extra_decide(gram_context *g, struct cuda_extra *e, int what);

/* cuda_solve_extra_factor.c: factors of items with go, in params.lifted, of this dtype; by
 * cuSOLVER, for all of them, if library. */
gram_status cuda_extra_factorise(gram_context *g, struct cuda_extra *e, gram_dtype dtype,
                                 bool library);

/* Columns that the factor is applied to: x = A^-1 x, or A^-T x. */
struct cuda_extra_columns {
    gram_dtype dtype; /* and of the factor */
    char *x;
    size_t item_bytes;
    int64_t columns;
    bool transposed;
};
gram_status cuda_extra_apply(gram_context *g, struct cuda_extra *e,
                             const struct cuda_extra_columns *c);

/* cuda_solve_extra_refine.c: columns of params.block to params.solution. */
gram_status cuda_extra_refine(gram_context *g, struct cuda_extra *e);
/* Conditions of items whose factor is of this dtype. */
gram_status cuda_extra_estimate(gram_context *g, struct cuda_extra *e, gram_dtype dtype, bool low);
#endif
