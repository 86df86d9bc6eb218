/*
 * cuda_eigh.h - what the drivers of the symmetric eigenproblem share on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_EIGH_H
#define GRAM_CUDA_EIGH_H
#include "core/scratch.h"
#include "cuda/cuda_ops.h"
#include "eigh_params.h"

/* A call and how it is done. */
struct cuda_eigh_plan {
    const struct gram_eigh_op *op;
    gram_eigh_driver driver;
    bool falls_back;       /* KRYLOV: Xsyevdx does what it gives up */
    struct eigh_call call; /* op for the device */
};

enum {
    CUDA_EIGH_BATCHED_MOST = 26754 /* 3 n^2 < 2^31: the largest n of XsyevBatched */
};

/* Which driver; GRAM_UNSUPPORTED if the one that is asked for does not do. */
gram_status cuda_eigh_plan(gram_context *g, const struct gram_eigh_op *op,
                           struct cuda_eigh_plan *plan);

/* Kernels of eigh_small.cu (EIGH_KERNEL_SMALL + n), eigh_jacobi.cu (EIGH_KERNEL_JACOBI + log2 of
 * its N) and eigh_large.cu (EIGH_SCAN, ...). */
enum {
    EIGH_KERNEL_SMALL = 4,  /* + 1, 2, 3 */
    EIGH_KERNEL_JACOBI = 8, /* + 3, 4, 5 */
    EIGH_KERNELS = 16
};
/* False: there is no kernel of this number. */
bool cuda_eigh_variant(int kernel, gram_dtype dtype, struct cuda_variant *v);
/* Queues a kernel; the device's context is current; params is what that kernel takes. */
gram_status cuda_eigh_launch(gram_context *g, int kernel, gram_dtype dtype, int64_t blocks,
                             int64_t items, void *params);

/* A way to do it; cuda_eigh.c lists them all.  run opens its scratch first, and the device's
 * context is current in it. */
struct cuda_eigh_driver {
    const char *name;                             /* in messages */
    bool (*takes)(const struct gram_eigh_op *op); /* can it do what is asked? */
    gram_status (*run)(gram_context *g, const struct cuda_eigh_plan *plan);
};

/* cuda_eigh_large.c, cuda_eigh_krylov.c */
extern const struct cuda_eigh_driver cuda_eigh_divide, cuda_eigh_bisection, cuda_eigh_batched;
extern const struct cuda_eigh_driver cuda_eigh_krylov;
#endif
