/*
 * cuda_cdist_grad.h - gradients of kernel expansions on the device, also as a part of other
 * operations
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_CDIST_GRAD_H
#define GRAM_CUDA_CDIST_GRAD_H
#include "cuda/cuda_ops.h"
#include "grad_params.h"

/* The parameters (-D) of cdist_grad.cu. */
struct cuda_grad_variant {
    int is_double, step, whole, to, tn, tm, a_load, b_load, hypers;
};

struct cuda_grad_plan {
    struct cuda_grad_variant variant;
    struct grad_params params;
    struct grad_sum_params sum; /* with several splits */
    int64_t tiles;              /* of all items and splits; 0: nothing to do */
    unsigned threads;           /* of a block */
    size_t shared_bytes;        /* of a block, dynamic */
    uint64_t number;            /* of the variant */
    size_t parts_at, bytes;     /* scratch: ranges, then the parts */
};

enum {
    CUDA_GRAD_DEFINES = 192
};

/* cuda_cdist_grad_plan.c: which kernel serves a problem, and what it is told.  add: to what out
 * holds.  processors: of the device. */
void cuda_cdist_grad_plan(const struct gram_cdist_grad_op *op, bool add, int processors,
                          struct cuda_grad_plan *plan);
struct jit_request cuda_cdist_grad_request(const struct cuda_grad_plan *plan,
                                           char defines[CUDA_GRAD_DEFINES]);
struct jit_request cuda_cdist_grad_range_request(const struct cuda_grad_plan *plan);

/* cuda_cdist_grad.c: refuses what is not memory of the device. */
gram_status cuda_cdist_grad_check(gram_context *g, const struct gram_cdist_grad_op *op);
/* Queues a plan with scratch of plan->bytes bytes, aligned to 64; the device is
 * current. */
gram_status cuda_cdist_grad_queue(gram_context *g, struct cuda_grad_plan *plan, void *scratch);
#endif
