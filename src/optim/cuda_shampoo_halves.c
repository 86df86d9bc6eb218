/*
 * cuda_shampoo_halves.c - products of f32 on the tensor cores of f16, in three parts
 *
 * An f32 operand is scaled by a power of two, its own, to a norm below 2^15 and cut into a high and
 * a low f16, 22 bits together: what is left of a product is high high + high low + low high
 * (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores, 2022).  The summed
 * index being the slowest in memory, the three are one product of three times the length: the left
 * operand lies there as low, high, high, the right one as high, high, low.
 *
 * Directions are made so, statistics are not: tensor cores round sums towards zero, which takes up
 * to some 1e-5 off the diagonal of a Gram matrix, and small eigenvalues become negative ones.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_optimizer.h"

static const struct cuda_kernel optimizer_squares = {"optimizer_block.cu", "optimizer_squares"};
static const struct cuda_kernel shampoo_cut = {"shampoo.cu", "shampoo_cut"};

enum {
    LEAST = 64, /* the shortest side that is worth it */
    TENSOR_ARCH = 80
};

bool cuda_shampoo_is_halved(const gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_block *b, gram_dtype work)
{
    const struct cuda_device *device = g->device;
    bool wide = b->order > 1;

    for (int k = 0; k < b->order; k++)
        wide = wide && b->size[k] >= LEAST;
    return wide && work == GRAM_F32 && device->arch >= TENSOR_ARCH &&
           o->options.method == GRAM_SHAMPOO;
}

/* ---- Scratch ------------------------------------------------------------------------------- */

/* Where the parts of f16 of a wave and their units lie, from the matrices on. */
struct wave_matrices {
    size_t array_halves, matrix_halves, units, bytes;
};

static struct wave_matrices wave_matrices(const struct cuda_optimizer_kind *kind)
{
    const size_t wave = (size_t)kind->wave, part = wave * CUDA_OPTIMIZER_PARTS * sizeof(uint16_t);
    struct wave_matrices at = {0};

    at.bytes = gram_round64(wave * (size_t)kind->matrix * gram_dtype_size(kind->work));
    if (!kind->halved)
        return at;
    at.array_halves = at.bytes;
    at.matrix_halves = at.array_halves + gram_round64(part * (size_t)kind->array);
    at.units = at.matrix_halves + gram_round64(part * (size_t)kind->matrix);
    at.bytes = at.units + gram_round64(2 * wave * sizeof(double));
    return at;
}

size_t cuda_shampoo_wave_bytes(const struct cuda_optimizer_kind *kind)
{
    return wave_matrices(kind).bytes;
}

void cuda_shampoo_place_halves(const struct cuda_optimizer_kind *kind, struct optimizer_params *p)
{
    const struct wave_matrices at = wave_matrices(kind);

    if (!kind->halved)
        return;
    p->array_halves = p->matrix + at.array_halves;
    p->matrix_halves = p->matrix + at.matrix_halves;
    p->units = (double *)(void *)(p->matrix + at.units);
}

/* ---- Products ------------------------------------------------------------------------------ */

/* Of from, count numbers an item: its parts to to. */
static gram_status cut(const struct cuda_optimizer_job *job, const struct cuda_optimizer_kind *kind,
                       struct optimizer_params p, int64_t count, int what)
{
    p.cut = what;
    p.count = count;
    p.tiles = gram_ceil_div(count, OPTIMIZER_TILE);
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_squares, p.blocks * p.tiles, &p));
    return cuda_optimizer_launch(job, kind->work, &shampoo_cut, p.blocks * p.tiles, &p);
}

gram_status cuda_shampoo_cut_array(const struct cuda_optimizer_job *job,
                                   const struct cuda_optimizer_kind *kind,
                                   const struct optimizer_params *p, const char *from, bool again)
{
    struct optimizer_params q = *p;

    q.from = (char *)from;
    q.to = p->array_halves;
    return cut(job, kind, q, p->count, again ? OPTIMIZER_CUT_AGAIN : OPTIMIZER_CUT_ARRAY);
}

gram_status cuda_shampoo_cut_matrix(const struct cuda_optimizer_job *job,
                                    const struct cuda_optimizer_kind *kind,
                                    const struct optimizer_params *p)
{
    struct optimizer_params q = *p;

    q.from = p->matrix;
    q.to = p->matrix_halves;
    q.array = p->n * p->n;
    return cut(job, kind, q, q.array, OPTIMIZER_CUT_MATRIX);
}

/* The matrix times the array. */
gram_status cuda_shampoo_halved_turn(const struct cuda_optimizer_job *job,
                                     const struct optimizer_params *p, struct cuda_gemm_items gemm)
{
    gemm.inputs = GRAM_F16;
    gemm.k *= 3;
    gemm.a.data = p->matrix_halves;
    gemm.a.stride = 3 * p->n * p->n;
    gemm.b.data = p->array_halves;
    gemm.b.stride = 3 * p->array;
    return gram_cuda_gemm_items(job->g, job->blas, &gemm);
}
