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
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "optimizer.h"
#include "optimizer_params.h"

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
    char *memory;              /* the device's: entries, counts, failed */
    size_t entries_bytes, counts_at, failed_at, memory_bytes;
    bool captured; /* a graph may change the state at any time */
};

/* Where scratch is; the arrays of a wave and the matrices of roots share a place. */
struct cuda_optimizer_layout {
    size_t now, squares, grafted_squares, blas, arrays, bytes;
    size_t arrays_bytes, matrix; /* an array of a wave; matrices, from the arrays on */
};

/* Of a batch of roots of a kind: matrices, roots, info, and what the roots take. */
struct cuda_optimizer_batch {
    int64_t count;
    size_t out, info, kept, power, power_bytes, bytes;
};

struct cuda_optimizer_job {
    gram_context *g;
    gram_optimizer *o;
    struct cuda_optimizer *c;
    const struct gram_optimizer_op *op;
    struct cuda_optimizer_layout at;
    struct optimizer_params params; /* what all launches have in common */
    struct cuda_blas *blas;
    char *scratch;
    bool capturing;
};

/* What a method is on the device. */
struct cuda_optimizer_method {
    /* Passes over the blocks of a wave, roots between them, statistics and refresh NULL: none. */
    gram_status (*statistics)(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind, struct optimizer_params *p);
    gram_status (*refresh)(const struct cuda_optimizer_job *job,
                           const struct cuda_optimizer_kind *kind);
    gram_status (*direction)(const struct cuda_optimizer_job *job,
                             const struct cuda_optimizer_kind *kind, struct optimizer_params *p);
    bool refresh_last; /* behind the directions */
};

/* cuda_optimizer_plan.c */
gram_status cuda_optimizer_lay_out(gram_context *g, const gram_optimizer *o,
                                   struct cuda_optimizer_layout *at);
int cuda_optimizer_type(gram_dtype dtype);
/* k of a block: a matrix's order, elements before and after it. */
void cuda_optimizer_dimension(const struct gram_optimizer_block *b, int k,
                              struct optimizer_params *p);
/* The parameters of a launch about count blocks of a kind from number first on. */
struct optimizer_params cuda_optimizer_wave(const struct cuda_optimizer_job *job,
                                            const struct cuda_optimizer_kind *kind, int64_t first,
                                            int64_t count);
/* cuda_optimizer.c: queues a kernel of `blocks` blocks of threads. */
gram_status cuda_optimizer_launch(const struct cuda_optimizer_job *job, gram_dtype work,
                                  const struct cuda_kernel *kernel, int64_t blocks, void *params);
/* What products of statistics and directions are computed in: options.precision. */
static inline int cuda_optimizer_compute(const struct cuda_optimizer_job *job, gram_dtype work)
{
    return work == GRAM_F32 && job->o->options.precision == GRAM_POWER_PRECISION_TF32
               ? CUBLAS_COMPUTE_TF32
               : gram_cuda_compute_of(work);
}
/* Whether the factors of a parameter take its gradient in: in a graph, which has no step of its
 * own, those of all steps or of none, where roots are taken. */
static inline bool cuda_optimizer_takes(const struct cuda_optimizer_job *job, int64_t parameter)
{
    const gram_optimizer *o = job->o;
    const struct gram_optimizer_parameter *p = &o->parameter[parameter];
    const int64_t t = o->steps[parameter] + 1;
    bool due = false;

    if (!job->capturing || o->options.statistics == 1)
        return gram_optimizer_takes(o, t);
    for (int64_t i = 0; i < p->blocks && !due; i++)
        due = gram_optimizer_due(o, &o->block[p->first_block + i], t);
    return due;
}

static inline int64_t cuda_optimizer_pairs(int64_t n)
{
    int64_t sides = gram_ceil_div(n, OPTIMIZER_SIDE);

    return sides * (sides + 1) / 2;
}

/* cuda_shampoo.c: passes over the blocks of a wave. */
gram_status cuda_shampoo_statistics(const struct cuda_optimizer_job *job,
                                    const struct cuda_optimizer_kind *kind,
                                    struct optimizer_params *p);
gram_status cuda_shampoo_direction(const struct cuda_optimizer_job *job,
                                   const struct cuda_optimizer_kind *kind,
                                   struct optimizer_params *p);

enum {
    CUDA_OPTIMIZER_PARTS = 3 /* of f16, that an operand of a product has */
};

/* cuda_shampoo_halves.c: the bytes of matrices of a wave and of all parts; where the parts lie. */
size_t cuda_shampoo_wave_bytes(const struct cuda_optimizer_kind *kind);
void cuda_shampoo_place_halves(const struct cuda_optimizer_kind *kind, struct optimizer_params *p);
/* Whether the directions of a block may be made of f16; the array at from, or the matrix, cut for
 * them (again: from is what products have made of the last one); gemm of these. */
bool cuda_shampoo_is_halved(const gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_block *b, gram_dtype work);
gram_status cuda_shampoo_cut_array(const struct cuda_optimizer_job *job,
                                   const struct cuda_optimizer_kind *kind,
                                   const struct optimizer_params *p, const char *from, bool again);
gram_status cuda_shampoo_cut_matrix(const struct cuda_optimizer_job *job,
                                    const struct cuda_optimizer_kind *kind,
                                    const struct optimizer_params *p);
gram_status cuda_shampoo_halved_turn(const struct cuda_optimizer_job *job,
                                     const struct optimizer_params *p, struct cuda_gemm_items gemm);

/* The gradients lie in scratch: statistics that keep beta. */
gram_status cuda_shampoo_accumulate(const struct cuda_optimizer_job *job,
                                    const struct cuda_optimizer_kind *kind,
                                    struct optimizer_params *p, double beta);

/* cuda_soap.c, cuda_soap_basis.c: bases that are due; the bytes of scratch that a kind takes. */
gram_status cuda_soap_direction(const struct cuda_optimizer_job *job,
                                const struct cuda_optimizer_kind *kind, struct optimizer_params *p);
gram_status cuda_soap_refresh(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind);
gram_status cuda_soap_bytes(gram_context *g, const struct cuda_optimizer_kind *kind, int k,
                            size_t *bytes);

/* cuda_muon.c */
gram_status cuda_muon_direction(const struct cuda_optimizer_job *job,
                                const struct cuda_optimizer_kind *kind, struct optimizer_params *p);

/* The operation inside of a step takes its scratch from memory: what it took it from before. */
struct cuda_optimizer_given {
    void *memory;
    size_t bytes;
};
static inline struct cuda_optimizer_given cuda_optimizer_give(gram_context *g,
                                                              struct cuda_optimizer_given to)
{
    struct cuda_device *device = g->device;
    struct cuda_optimizer_given before = {device->arena.given, device->arena.given_bytes};

    device->arena.given = to.memory;
    device->arena.given_bytes = to.bytes;
    return before;
}

/* cuda_shampoo_root.c: whether roots of a kind are due, these, the scratch of a batch. */
bool cuda_shampoo_is_due(const struct cuda_optimizer_job *job,
                         const struct cuda_optimizer_kind *kind);
gram_status cuda_shampoo_batch(gram_context *g, const gram_optimizer *o,
                               const struct cuda_optimizer_kind *kind, int k,
                               struct cuda_optimizer_batch *batch);
/* cuda_shampoo_fit.c: r->kept of the items, whose factors r->a.matrix has; bytes of its memory. */
gram_status cuda_shampoo_fit(const struct cuda_optimizer_job *job,
                             const struct cuda_optimizer_kind *kind,
                             const struct optimizer_roots *r, char *memory);
size_t cuda_shampoo_fit_bytes(const struct cuda_optimizer_kind *kind, int64_t n, int64_t items);
gram_status cuda_shampoo_refresh(const struct cuda_optimizer_job *job,
                                 const struct cuda_optimizer_kind *kind);
#endif
