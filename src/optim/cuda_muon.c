/*
 * cuda_muon.c - Muon on the device: matrices of one shape made orthogonal together
 *
 * A step of gram_muon_orthogonalise is three batched products of cuBLAS, of bf16 with sums in f32
 * unless options.precision asks for more: the polynomial leaves singular values between 0.7 and
 * 1.2, beside which 8 bits are exact.  Products take turns between two arrays: g and to, or the
 * halves of to where they are narrower.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"

static const struct cuda_kernel muon_normalize = {"muon.cu", "muon_normalize"};
static const struct cuda_kernel muon_polynomial = {"muon.cu", "muon_polynomial"};
static const struct cuda_kernel muon_widen = {"muon.cu", "muon_widen"};

enum {
    MOST_BLOCKS = 1 << 16,
    BF16_ARCH = 80 /* the first with tensor cores for it */
};

static gram_dtype product_dtype(const struct cuda_optimizer_job *job, gram_dtype work)
{
    bool rough = job->step.o->options.precision == GRAM_POWER_PRECISION_AUTO &&
                 ((const struct cuda_device *)job->step.g->device)->arch >= BF16_ARCH;

    return work == GRAM_F32 && rough ? GRAM_BF16 : work;
}

static gram_status launch(struct cuda_optimizer_group *u, const struct cuda_kernel *kernel,
                          int64_t blocks)
{
    return cuda_optimizer_launch(u->job, u->kind->work, kernel, blocks, &u->p);
}

static gram_status multiply(const struct cuda_optimizer_group *u, struct cuda_gemm_items gemm)
{
    gemm.dtype = product_dtype(u->job, u->kind->work);
    gemm.compute = cuda_optimizer_compute(u->job, u->kind->work);
    gemm.count = u->p.blocks;
    return gram_cuda_gemm_items(u->job->step.g, u->job->blas, &gemm);
}

/* X in the type of products: to where they are as wide as X, else to half of the room of to. */
static gram_status normalise(void *of)
{
    struct cuda_optimizer_group *u = of;
    struct optimizer_params *p = &u->p;
    const gram_dtype product = product_dtype(u->job, u->kind->work);
    const bool narrow = product != u->kind->work;
    char *const room = p->to;

    u->x = narrow ? room : p->g;
    u->to = narrow ? room + p->blocks * p->array * (int64_t)gram_dtype_size(product) : room;
    p->product_type = product;
    p->to = u->x;
    TRY(launch(u, &muon_normalize, p->blocks * p->tiles));
    p->to = room;
    return GRAM_OK;
}

/* Matrix = a I + b Y + c Y Y of Y = X X^T, which lies behind all matrices. */
static gram_status make_polynomial(void *of, double a, double b, double c)
{
    struct cuda_optimizer_group *u = of;
    struct optimizer_params *p = &u->p;
    const int64_t n = p->n, cols = p->size[1];
    const int64_t size = (int64_t)gram_dtype_size(product_dtype(u->job, u->kind->work));
    char *y = p->matrix + p->blocks * n * n * size;
    const bool wide = p->size[0] <= cols;
    const struct cuda_gemm_side side = {u->x, cols, p->array, wide}, square = {y, n, n * n, false};
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
    TRY(multiply(u, gemm));
    p->from = y;
    p->keep = b;
    p->take = a;
    TRY(launch(u, &muon_polynomial, gram_least(p->blocks * n, MOST_BLOCKS)));
    gemm.k = n;
    gemm.a = gemm.b = square;
    gemm.c = p->matrix;
    gemm.alpha = c;
    gemm.beta = 1;
    return multiply(u, gemm);
}

/* X = P X, or X P: as cuBLAS sees it X is transposed, and P is symmetric. */
static gram_status apply(void *of, bool last)
{
    struct cuda_optimizer_group *u = of;
    const struct optimizer_params *p = &u->p;
    const int64_t n = p->n, cols = p->size[1];
    const struct cuda_gemm_side side = {u->x, cols, p->array, false},
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

    char *other = u->x;

    (void)last;
    gemm.c = u->to;
    TRY(multiply(u, gemm));
    u->x = u->to;
    u->to = other;
    return GRAM_OK;
}

gram_status cuda_muon_run(struct cuda_optimizer_group *u)
{
    static const struct gram_muon_ops ops = {normalise, make_polynomial, apply};
    struct optimizer_params *p = &u->p;

    p->n = gram_least(p->size[0], p->size[1]);
    TRY(gram_muon_orthogonalise(&ops, u, u->job->step.o->options.steps));
    p->from = u->x;
    if (product_dtype(u->job, u->kind->work) == u->kind->work)
        return GRAM_OK;
    TRY(launch(u, &muon_widen, p->blocks * p->tiles));
    p->from = p->g;
    return GRAM_OK;
}
