/*
 * cuda_solve.h - a call taken apart, and what its options need of the plain way
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_SOLVE_H
#define GRAM_CUDA_SOLVE_H
#include "cuda/cuda_ops.h"
#include "cuda/device_view.h"
#include "cuda/solve_params.h"
#include "solve_batch.h"

struct cuda_solve_plan {
    const struct gram_solve_op *op;
    struct gram_batch own, shared;
    struct solve_items items; /* the same for the device */
    bool lu;
};

/* Shared memory that a block may have on a chip. */
size_t cuda_solve_most_shared(int arch);

/* The variant of a kernel (SOLVE_SMALL, ...). */
void cuda_solve_variant(int kernel, bool lu, gram_dtype dtype, struct cuda_variant *v);

/* cuda_solve_options.c.  has_options is true of calls for what only that file can do, and of those
 * that it does quickest. */
bool cuda_solve_has_options(const struct cuda_solve_plan *plan);
gram_status cuda_solve_options(gram_context *g, const struct cuda_solve_plan *plan);
#endif
