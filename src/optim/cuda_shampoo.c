/*
 * cuda_shampoo.c - Shampoo on the device: statistics and directions of the blocks of a wave
 *
 * cuBLAS is column-major: a row-major array of m by n is its matrix of n by m.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"

static const struct cuda_kernel optimizer_filter = {"optimizer_block.cu", "optimizer_filter"};
static const struct cuda_kernel optimizer_finish = {"optimizer_block.cu", "optimizer_finish"};
static const struct cuda_kernel optimizer_gather = {"optimizer_block.cu", "optimizer_gather"};
static const struct cuda_kernel optimizer_permute = {"optimizer_block.cu", "optimizer_permute"};
static const struct cuda_kernel optimizer_squares = {"optimizer_block.cu", "optimizer_squares"};
static const struct cuda_kernel optimizer_ema = {"optimizer_matrix.cu", "optimizer_ema"};
static const struct cuda_kernel optimizer_unpack = {"optimizer_matrix.cu", "optimizer_unpack"};

static gram_status for_tiles(const struct cuda_optimizer_job *job,
                             const struct cuda_optimizer_kind *kind,
                             const struct cuda_kernel *kernel, struct optimizer_params *p)
{
    return cuda_optimizer_launch(job, kind->work, kernel, p->blocks * p->tiles, p);
}

static gram_status for_pairs(const struct cuda_optimizer_job *job,
                             const struct cuda_optimizer_kind *kind,
                             const struct cuda_kernel *kernel, struct optimizer_params *p)
{
    return cuda_optimizer_launch(job, kind->work, kernel, p->blocks * cuda_optimizer_pairs(p->n),
                                 p);
}

static struct cuda_gemm_items product(const struct cuda_optimizer_job *job,
                                      const struct cuda_optimizer_kind *kind,
                                      const struct optimizer_params *p)
{
    return (struct cuda_gemm_items){
        .dtype = kind->work,
        .compute = cuda_optimizer_compute(job, kind->work),
        .m = p->n,
        .n = p->n,
        .count = p->blocks,
        .alpha = 1,
    };
}

/* matrix = G_k G_k^T, G_k being the gradient with dimension k as rows. */
static gram_status multiply(const struct cuda_optimizer_job *job,
                            const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    struct cuda_gemm_items gemm = product(job, kind, p);
    struct cuda_gemm_side rows = {p->g, p->count / p->n, p->array, false};

    if (p->before > 1 && p->after == 1) { /* its columns lie one after the other */
        rows.ld = p->n;
        rows.transposed = true;
    } else if (p->before > 1) {
        p->from = p->g;
        TRY(for_tiles(job, kind, &optimizer_permute, p));
        rows.data = p->to;
    }
    gemm.k = p->count / p->n;
    gemm.a = gemm.b = rows;
    gemm.a.transposed = !rows.transposed;
    gemm.c = p->matrix;
    gemm.ldc = p->n;
    gemm.stride_c = p->n * p->n;
    return gram_cuda_gemm_items(job->g, job->blas, &gemm);
}

gram_status cuda_shampoo_accumulate(const struct cuda_optimizer_job *job,
                                    const struct cuda_optimizer_kind *kind,
                                    struct optimizer_params *p, double beta)
{
    p->keep = beta;
    p->take = beta < 1 ? 1 - beta : 1;
    for (int k = 0; k < kind->block->order; k++) {
        if (!kind->block->factor[k].dtype)
            continue;
        cuda_optimizer_dimension(kind->block, k, p);
        TRY(multiply(job, kind, p));
        TRY(for_pairs(job, kind, &optimizer_ema, p));
    }
    return GRAM_OK;
}

/* Whether the factors of any block of the kind take gradients in. */
static bool takes(const struct cuda_optimizer_job *job, const struct cuda_optimizer_kind *kind)
{
    for (int64_t i = 0; i < kind->count; i++) {
        const struct gram_optimizer_block *b = &job->o->block[job->c->order[kind->first + i]];
        if (job->op->gradients[b->parameter] && cuda_optimizer_takes(job, b->parameter))
            return true;
    }
    return false;
}

/* Where no roots are due the pass of the directions does it, and gathers the gradients once. */
gram_status cuda_shampoo_statistics(const struct cuda_optimizer_job *job,
                                    const struct cuda_optimizer_kind *kind,
                                    struct optimizer_params *p)
{
    if (!cuda_shampoo_is_due(job, kind) || !takes(job, kind))
        return GRAM_OK;
    TRY(for_tiles(job, kind, &optimizer_gather, p));
    return cuda_shampoo_accumulate(job, kind, p, job->o->options.beta2);
}

/* to = x, with its first dimension multiplied by its root and made the last one: after all of them
 * the shape is what it was. */
static gram_status turn(const struct cuda_optimizer_job *job,
                        const struct cuda_optimizer_kind *kind, const struct optimizer_params *p,
                        const char *x, char *to)
{
    struct cuda_gemm_items gemm = product(job, kind, p);

    gemm.n = p->count / p->n;
    gemm.k = p->n;
    gemm.a = (struct cuda_gemm_side){p->matrix, p->n, p->n * p->n, false};
    gemm.b = (struct cuda_gemm_side){x, gemm.n, p->array, true};
    gemm.c = to;
    gemm.ldc = p->n;
    gemm.stride_c = p->array;
    if (!p->array_halves)
        return gram_cuda_gemm_items(job->g, job->blas, &gemm);
    TRY(cuda_shampoo_cut_array(job, kind, p, x, p->k > 0));
    TRY(cuda_shampoo_cut_matrix(job, kind, p));
    return cuda_shampoo_halved_turn(job, p, gemm);
}

/* from: the filtered gradient times the roots along every dimension; spare: besides p->to, where
 * it may be. */
static gram_status precondition(const struct cuda_optimizer_job *job,
                                const struct cuda_optimizer_kind *kind, struct optimizer_params *p,
                                char *spare)
{
    char *from = p->g, *to = p->to;

    p->is_root = 1;
    for (int k = 0; k < kind->block->order; k++) {
        char *other = k == 0 ? spare : from;
        cuda_optimizer_dimension(kind->block, k, p);
        TRY(for_pairs(job, kind, &optimizer_unpack, p));
        TRY(turn(job, kind, p, from, to));
        from = to;
        to = other;
    }
    p->from = from;
    if (job->o->options.graft == GRAM_GRAFT_NONE)
        return GRAM_OK;
    return for_tiles(job, kind, &optimizer_squares, p);
}

/* False if no block of the wave can have a root yet. */
static bool has_roots(const struct cuda_optimizer_job *job, const struct cuda_optimizer_kind *kind)
{
    const gram_optimizer *o = job->o;

    for (int64_t i = 0; i < kind->count; i++) {
        const struct gram_optimizer_block *b = &o->block[job->c->order[kind->first + i]];
        if (o->steps[b->parameter] + 1 >= o->options.start)
            return true;
    }
    return false;
}

gram_status cuda_shampoo_direction(const struct cuda_optimizer_job *job,
                                   const struct cuda_optimizer_kind *kind,
                                   struct optimizer_params *p)
{
    char *spare = p->g;

    p->from = NULL;
    if (kind->own) {
        TRY(for_tiles(job, kind, &optimizer_gather, p));
        if (!cuda_shampoo_is_due(job, kind) && takes(job, kind))
            TRY(cuda_shampoo_accumulate(job, kind, p, job->o->options.beta2));
        if (job->o->options.graft != GRAM_GRAFT_NONE || p->moment_type) {
            TRY(for_tiles(job, kind, &optimizer_filter, p));
        } else { /* the gradient is what it would make, and stays */
            spare = p->grafted;
            p->grafted = p->g;
        }
        if (has_roots(job, kind))
            TRY(precondition(job, kind, p, spare));
    }
    return for_tiles(job, kind, &optimizer_finish, p);
}
