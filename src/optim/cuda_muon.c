/*
 * cuda_muon.c - Muon on the device: matrices of one shape made orthogonal together
 *
 * With n the smaller side of X a step is y = X X^T (or X^T X), p = b y + a I + c y y, X = p X (or
 * X p): three batched products of cuBLAS, of bf16 with sums in f32 unless options.precision asks
 * for more: the polynomial leaves singular values between 0.7 and 1.2, beside which 8 bits are
 * exact. Vectors take Adam's step, which is what Shampoo's filter and graft are with other numbers.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"
#include <math.h>

static const struct cuda_kernel muon_momentum = {"muon.cu", "muon_momentum"};
static const struct cuda_kernel muon_normalize = {"muon.cu", "muon_normalize"};
static const struct cuda_kernel muon_polynomial = {"muon.cu", "muon_polynomial"};
static const struct cuda_kernel muon_widen = {"muon.cu", "muon_widen"};
static const struct cuda_kernel optimizer_filter = {"optimizer_block.cu", "optimizer_filter"};
static const struct cuda_kernel optimizer_finish = {"optimizer_block.cu", "optimizer_finish"};
static const struct cuda_kernel optimizer_gather = {"optimizer_block.cu", "optimizer_gather"};

enum {
    MOST_BLOCKS = 1 << 16,
    BF16_ARCH = 80 /* the first with tensor cores for it */
};

/* As cpu_muon_iterate.c has them. */
static const double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;

static gram_dtype product_dtype(const struct cuda_optimizer_job *job, gram_dtype work)
{
    bool rough = job->o->options.precision == GRAM_POWER_PRECISION_AUTO &&
                 ((const struct cuda_device *)job->g->device)->arch >= BF16_ARCH;

    return work == GRAM_F32 && rough ? GRAM_BF16 : work;
}

static gram_status multiply(const struct cuda_optimizer_job *job,
                            const struct cuda_optimizer_kind *kind,
                            const struct optimizer_params *p, struct cuda_gemm_items gemm)
{
    gemm.dtype = product_dtype(job, kind->work);
    gemm.compute = cuda_optimizer_compute(job, kind->work);
    gemm.count = p->blocks;
    return gram_cuda_gemm_items(job->g, job->blas, &gemm);
}

/* p = b y + a I + c y y, of y = X X^T with X's smaller side as rows. */
static gram_status make_polynomial(const struct cuda_optimizer_job *job,
                                   const struct cuda_optimizer_kind *kind,
                                   struct optimizer_params *p, const char *x, char *y)
{
    const int64_t n = p->n, cols = p->size[1];
    const bool wide = p->size[0] <= cols;
    const struct cuda_gemm_side side = {x, cols, p->array, wide}, square = {y, n, n * n, false};
    struct cuda_gemm_items gemm = {.m = n,
                                   .n = n,
                                   .k = p->count / n,
                                   .a = side,
                                   .b = side,
                                   .c = y,
                                   .ldc = n,
                                   .stride_c = n * n,
                                   .alpha = 1};

    gemm.b.transposed = !wide;
    TRY(multiply(job, kind, p, gemm));
    p->from = y;
    p->keep = muon_b;
    p->take = muon_a;
    TRY(cuda_optimizer_launch(job, kind->work, &muon_polynomial,
                              gram_least(p->blocks * n, MOST_BLOCKS), p));
    gemm.k = n;
    gemm.a = gemm.b = square;
    gemm.c = p->matrix;
    gemm.alpha = muon_c;
    gemm.beta = 1;
    return multiply(job, kind, p, gemm);
}

/* to = p X, or X p: as cuBLAS sees it X is transposed, and p is symmetric. */
static gram_status apply(const struct cuda_optimizer_job *job,
                         const struct cuda_optimizer_kind *kind, const struct optimizer_params *p,
                         const char *x, char *to)
{
    const int64_t n = p->n, cols = p->size[1];
    const struct cuda_gemm_side side = {x, cols, p->array, false},
                                square = {p->matrix, n, n * n, false};
    const bool wide = p->size[0] <= cols;
    struct cuda_gemm_items gemm = {.m = cols,
                                   .n = p->size[0],
                                   .k = n,
                                   .a = wide ? side : square,
                                   .b = wide ? square : side,
                                   .ldc = cols,
                                   .stride_c = p->array,
                                   .alpha = 1};

    gemm.c = to;
    return multiply(job, kind, p, gemm);
}

/* Products take turns between two arrays: g and to, or the halves of to where they are narrower. */
static gram_status orthogonalize(const struct cuda_optimizer_job *job,
                                 const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    const gram_dtype product = product_dtype(job, kind->work);
    const int64_t size = (int64_t)gram_dtype_size(product);
    const bool narrow = product != kind->work;
    char *x = narrow ? p->to : p->g, *to = narrow ? x + p->blocks * p->array * size : p->to, *other;
    char *const room = p->to;

    TRY(cuda_optimizer_launch(job, kind->work, &muon_momentum, p->blocks * p->tiles, p));
    p->product_type = cuda_optimizer_type(product);
    p->to = x;
    TRY(cuda_optimizer_launch(job, kind->work, &muon_normalize, p->blocks * p->tiles, p));
    p->to = room;
    for (int i = 0; i < job->o->options.steps; i++) {
        TRY(make_polynomial(job, kind, p, x, p->matrix + p->blocks * p->n * p->n * size));
        TRY(apply(job, kind, p, x, to));
        other = x;
        x = to;
        to = other;
    }
    p->from = x;
    if (narrow) {
        TRY(cuda_optimizer_launch(job, kind->work, &muon_widen, p->blocks * p->tiles, p));
        p->from = p->g;
    }
    p->scale = sqrt(fmax(1, (double)p->size[0] / (double)p->size[1]));
    return GRAM_OK;
}

gram_status cuda_muon_direction(const struct cuda_optimizer_job *job,
                                const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    p->from = NULL;
    if (kind->own)
        TRY(cuda_optimizer_launch(job, kind->work, &optimizer_gather, p->blocks * p->tiles, p));
    if (kind->own && p->order == 2) {
        p->n = gram_least(p->size[0], p->size[1]);
        TRY(orthogonalize(job, kind, p));
    } else if (kind->own) {
        TRY(cuda_optimizer_launch(job, kind->work, &optimizer_filter, p->blocks * p->tiles, p));
    }
    return cuda_optimizer_launch(job, kind->work, &optimizer_finish, p->blocks * p->tiles, p);
}
