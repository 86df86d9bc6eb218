/*
 * cuda_ops.h - the operations of the CUDA backend
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_OPS_H
#define GRAM_CUDA_OPS_H
#include "jit.h"
#include "kernels/pair_params.h"

/* cuda_cdist.c */
gram_status cuda_cdist(gram_context *g, const struct gram_cdist_op *op);
size_t cuda_cdist_workspace(const gram_context *g, const struct gram_cdist_op *op);

/* cuda_cdist_plan.c: which kernel serves a problem, and what it is told. */
struct cuda_cdist_plan {
    struct jit_request request;
    char defines[384];
    struct pair_params params;
    int64_t tiles; /* of all items; 0: nothing to do */
};
/* processors: of the device. */
void cuda_cdist_plan(const struct gram_cdist_op *op, int processors, struct cuda_cdist_plan *plan);
#endif
