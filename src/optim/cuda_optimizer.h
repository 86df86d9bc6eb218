/*
 * cuda_optimizer.h - a step of an optimizer on the device: blocks of one shape in waves
 *
 * Blocks are sorted into kinds: one shape, one dtype of state.  A launch is about a wave, as many
 * blocks of a kind as scratch has room for, which lie there one after the other: a product of
 * cuBLAS is a batch of all of them.  The host knows which parameters have a gradient and which
 * roots are due; the device knows which gradients are finite and which roots could be taken.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_OPTIMIZER_H
#define GRAM_CUDA_OPTIMIZER_H
#include "core/scratch.h"
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "optimizer_params.h"
#include "optimizer_step.h"

struct cuda_optimizer_kind {
    int64_t first, count; /* of the order */
    int64_t wave;         /* blocks at a time */
    int64_t array, tiles; /* elements from a block to the next; tiles of a block */
    int64_t matrix;       /* elements of matrices that a block has scratch for */
    const struct gram_optimizer_block *block; /* the first one */
    gram_dtype work;
    bool own, halved; /* halved: there is room for parts of f16 */
};

/* What an optimizer keeps beside its state. */
struct cuda_optimizer {
    int64_t *order; /* of the optimizer's blocks, kind after kind */
    struct cuda_optimizer_kind *kind;
    int64_t kinds;
    struct optimizer_now *now; /* the host's: room for what the device found */
    /* One allocation of the device. */
    struct optimizer_entry *entry;   /* one per block, in their order */
    struct optimizer_counts *counts; /* of a step */
    int *failed;                     /* one per block: roots that failed in a step */
    bool captured;                   /* a graph may change the state at any time */
};

struct cuda_optimizer_job {
    struct gram_optimizer_job step; /* the first member: passes are given its address */
    struct cuda_optimizer *c;
    struct optimizer_params params; /* what all launches have in common */
    struct cuda_blas *blas;
    /* Scratch beside the tables in params; waves, and batches of roots or bases, use `shared` in
     * turn.  NULL: there is none yet. */
    void *blas_memory;
    char *shared;
    size_t array_bytes; /* of an array of the largest wave */
};

/* A wave of blocks in a pass, and what all launches of the pass are told. */
struct cuda_optimizer_group {
    struct gram_optimizer_group all; /* the first member: passes are given its address */
    const struct cuda_optimizer_job *job;
    const struct cuda_optimizer_kind *kind;
    struct optimizer_params p;
    char *x, *to; /* X of optimizer_step.h, and where the next product of it goes */
    char *spare;  /* where the second product goes: the first X is still wanted, or it is free */
};

/* cuda_optimizer_plan.c: fills in the scratch of a job. */
gram_status cuda_optimizer_open_scratch(struct cuda_optimizer_job *job);
/* k of a block: a matrix's order, elements before and after it. */
void cuda_optimizer_dimension(const struct gram_optimizer_block *b, int k,
                              struct optimizer_params *p);
/* The parameters of a launch about count blocks of a kind from number first on. */
struct optimizer_params cuda_optimizer_wave(const struct cuda_optimizer_job *job,
                                            const struct cuda_optimizer_kind *kind, int64_t first,
                                            int64_t count);
/* Queues a kernel of `blocks` blocks of threads. */
gram_status cuda_optimizer_launch(const struct cuda_optimizer_job *job, gram_dtype work,
                                  const struct cuda_kernel *kernel, int64_t blocks, void *params);
/* What products of statistics and directions are computed in: options.precision. */
static inline int cuda_optimizer_compute(const struct cuda_optimizer_job *job, gram_dtype work)
{
    return work == GRAM_F32 && job->step.o->options.precision == GRAM_POWER_PRECISION_TF32
               ? CUBLAS_COMPUTE_TF32
               : gram_cuda_compute_of(work);
}
static inline int64_t cuda_optimizer_pairs(int64_t n)
{
    int64_t sides = gram_ceil_div(n, OPTIMIZER_SIDE);

    return sides * (sides + 1) / 2;
}

enum {
    CUDA_OPTIMIZER_PARTS = 3 /* of f16, that an operand of a product has */
};

/* Takes the parts of the array and the matrix of a wave, and their units. */
void cuda_shampoo_take_halves(const struct cuda_optimizer_kind *kind, struct gram_layout *l,
                              struct optimizer_params *p);
/* True if the directions of a block may be made of f16. */
bool cuda_shampoo_is_halved(const gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_block *b, gram_dtype work);
/* The product of gemm, the matrix of p times x, by parts of f16. */
gram_status cuda_shampoo_multiply_halves(struct cuda_optimizer_group *u,
                                         struct cuda_gemm_items gemm);

/* The bytes of scratch that the roots of dimension k of a kind take, and its bases. */
gram_status cuda_shampoo_bytes(gram_context *g, const gram_optimizer *o,
                               const struct cuda_optimizer_kind *kind, int k, size_t *bytes);
gram_status cuda_soap_bytes(gram_context *g, const struct cuda_optimizer_kind *kind, int k,
                            size_t *bytes);
/* Those of a kind that are due. */
gram_status cuda_shampoo_refresh(const struct cuda_optimizer_job *job,
                                 const struct cuda_optimizer_kind *kind);
gram_status cuda_soap_refresh(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind);

/* A product for blocks of one shape that lie one after the other: each x is multiplied by its
 * matrix along dimension p->k. */
struct cuda_soap_product {
    const struct optimizer_params *p; /* its dimension k is set */
    gram_dtype work;
    int compute;
    int64_t count; /* of blocks */
    const char *matrix;
    bool back; /* multiplies by the transposed matrices */
    const char *x;
    char *to;
};

gram_status cuda_soap_multiply(gram_context *g, const struct cuda_blas *blas,
                               const struct cuda_soap_product *m);

/* X = X made orthogonal, or p.from where it lies then. */
gram_status cuda_muon_run(struct cuda_optimizer_group *u);
#endif
