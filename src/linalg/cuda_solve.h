/*
 * cuda_solve.h - what small and large systems share: the call taken apart, launches
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SOLVE_H
#define GRAM_CUDA_SOLVE_H
#include "cuda/cuda_ops.h"
#include "cuda/solve_params.h"
#include "solve_batch.h"

struct cuda_solve_plan {
    const struct gram_solve_op *op;
    struct gram_batch own, shared;
    struct solve_items items; /* the same for the device */
    bool lu;
};

/* A view as the device's code takes it; data NULL where it is not given. */
struct solve_side cuda_solve_side(const struct gram_view *v, bool given);

/* Shared memory that a block may have on a chip. */
size_t cuda_solve_most_shared(int arch);

/* A kernel (SOLVE_SMALL, ...); defines holds its text. */
enum {
    CUDA_SOLVE_DEFINES = 64
};
struct jit_request cuda_solve_request(int kernel, bool lu, gram_dtype dtype, int arch,
                                      char defines[CUDA_SOLVE_DEFINES]);
/* Queues a kernel (SOLVE_SMALL, ...) of `blocks` blocks; the device's context is current. */
gram_status cuda_solve_launch(gram_context *g, const struct cuda_solve_plan *plan, int kernel,
                              void *params, const unsigned blocks[2]);

/* cuda_solve_large.c: by cuSOLVER, one matrix after the other. */
gram_status cuda_solve_large(gram_context *g, const struct cuda_solve_plan *plan);
gram_status cuda_solve_large_bytes(gram_context *g, const struct cuda_solve_plan *plan,
                                   size_t *bytes);
#endif
