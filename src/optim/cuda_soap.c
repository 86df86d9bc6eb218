/*
 * cuda_soap.c - SOAP on the device: Adam in the eigenbases of Shampoo's factors
 *
 * Adam's step is computed by the kernels of Shampoo's filter and graft, with other numbers.  A step
 * moves along the bases that earlier steps have left, so that one pass does statistics and
 * directions, and the bases are refreshed after it (cuda_soap_basis.c).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_soap.h"

static const struct cuda_kernel optimizer_filter = {"optimizer_block.cu", "optimizer_filter"};
static const struct cuda_kernel optimizer_finish = {"optimizer_block.cu", "optimizer_finish"};
static const struct cuda_kernel optimizer_gather = {"optimizer_block.cu", "optimizer_gather"};
static const struct cuda_kernel optimizer_squares = {"optimizer_block.cu", "optimizer_squares"};
static const struct cuda_kernel soap_basis = {"soap_basis.cu", "soap_basis"};

/* Multiplies the matrix by count slices of n by `after` elements: it combines their rows. */
static gram_status multiply_rows(gram_context *g, const struct cuda_blas *blas,
                                 const struct cuda_soap_product *m, int64_t item, int64_t count)
{
    const struct optimizer_params *p = m->p;
    const bool shared = p->before > 1; /* the matrix serves all slices of an item */
    const int64_t size = (int64_t)gram_dtype_size(m->work);
    struct cuda_gemm_items gemm = {
        .dtype = m->work,
        .compute = m->compute,
        .m = p->after,
        .n = p->n,
        .k = p->n,
        .count = count,
        .a = {        .data = m->x + item * p->array * size,
              .ld = p->after,
              .stride = shared ? p->n * p->after : p->array           },
        .b = { .data = m->matrix + item * p->n * p->n * size,
              .ld = p->n,
              .stride = shared ? 0 : p->n * p->n,.transposed = m->back},
        .c = m->to + item * p->array * size,
        .ldc = p->after,
        .alpha = 1,
    };

    gemm.stride_c = gemm.a.stride;
    return gram_cuda_gemm_items(g, blas, &gemm);
}

/* The same for blocks with nothing behind dimension k: all their columns are one product. */
static gram_status multiply_columns(gram_context *g, const struct cuda_blas *blas,
                                    const struct cuda_soap_product *m)
{
    const struct optimizer_params *p = m->p;
    const struct cuda_gemm_items gemm = {
        .dtype = m->work,
        .compute = m->compute,
        .m = p->n,
        .n = p->before,
        .k = p->n,
        .count = m->count,
        .a = {.data = m->matrix, .ld = p->n, .stride = p->n * p->n, .transposed = !m->back},
        .b = {     .data = m->x, .ld = p->n,    .stride = p->array                       },
        .c = m->to,
        .ldc = p->n,
        .stride_c = p->array,
        .alpha = 1,
    };

    return gram_cuda_gemm_items(g, blas, &gemm);
}

gram_status cuda_soap_multiply(gram_context *g, const struct cuda_blas *blas,
                               const struct cuda_soap_product *m)
{
    if (m->p->before == 1)
        return multiply_rows(g, blas, m, 0, m->count);
    if (m->p->after == 1)
        return multiply_columns(g, blas, m);
    for (int64_t item = 0; item < m->count; item++)
        TRY(multiply_rows(g, blas, m, item, m->p->before));
    return GRAM_OK;
}

/* Brings p->from into the coordinates of the bases, or back.  The result is in p->from, and each
 * product exchanges p->from and *spare. */
static gram_status project(const struct cuda_optimizer_job *job,
                           const struct cuda_optimizer_kind *kind, struct optimizer_params *p,
                           bool back, char **spare)
{
    struct cuda_soap_product product = {
        .p = p,
        .work = kind->work,
        .compute = cuda_optimizer_compute(job, kind->work),
        .count = p->blocks,
        .matrix = p->matrix,
        .back = back,
    };

    for (int k = 0; k < kind->block->order; k++) {
        char *kept = p->from;
        if (!kind->block->root[k].dtype)
            continue;
        cuda_optimizer_dimension(kind->block, k, p);
        TRY(cuda_optimizer_launch(job, kind->work, &soap_basis,
                                  p->blocks * gram_ceil_div(p->n * p->n, OPTIMIZER_TILE), p));
        product.x = p->from;
        product.to = *spare;
        TRY(cuda_soap_multiply(job->g, job->blas, &product));
        p->from = *spare;
        *spare = kept;
    }
    return GRAM_OK;
}

/* False if no block of the kind has moved yet. */
static bool has_bases(const struct cuda_optimizer_job *job, const struct cuda_optimizer_kind *kind)
{
    for (int64_t i = 0; i < kind->count; i++)
        if (job->o->steps[job->o->block[job->c->order[kind->first + i]].parameter] > 0)
            return true;
    return false;
}

static gram_status adapt(const struct cuda_optimizer_job *job,
                         const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    const int64_t tiles = p->blocks * p->tiles;
    char *spare = p->to;

    p->from = p->g;
    TRY(project(job, kind, p, false, &spare));
    p->g = p->from;
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_filter, tiles, p));
    p->from = p->grafted;
    TRY(project(job, kind, p, true, &spare));
    if (!job->o->options.normalize)
        return GRAM_OK;
    return cuda_optimizer_launch(job, kind->work, &optimizer_squares, tiles, p);
}

gram_status cuda_soap_direction(const struct cuda_optimizer_job *job,
                                const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    const int64_t tiles = p->blocks * p->tiles;

    p->from = NULL;
    if (kind->own) {
        TRY(cuda_optimizer_launch(job, kind->work, &optimizer_gather, tiles, p));
        TRY(cuda_shampoo_accumulate(job, kind, p, job->o->options.shampoo_beta));
        if (has_bases(job, kind))
            TRY(adapt(job, kind, p));
    }
    return cuda_optimizer_launch(job, kind->work, &optimizer_finish, tiles, p);
}
