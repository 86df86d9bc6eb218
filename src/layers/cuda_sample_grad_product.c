/*
 * cuda_sample_grad_product.c - gradients of samples of linear layers and convolutions, and of
 * biases and normalisations
 *
 * A weight's gradient is made tile by tile, and patches only in a tile's shared memory; its norm is
 * that of the tiles, or, where 2 S^2 <= I O, comes from tiles of positions ("ghost").  Tiles of
 * samples are those of tensor cores (sample_mma.cu) where the layer is one that they serve.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_sample_grad.h"
#include <math.h>

enum {
    LEAST_TERMS = 4 * SAMPLE_STEP, /* positions of a part of a product's sums */
    LEAST_POSITIONS = 256          /* the same of rows */
};

/* Blocks of a sample of sample_blocks or sample_sums. */
static int64_t weight_tiles(const struct gram_layer_op *l)
{
    return l->groups * gram_ceil_div(l->out, SAMPLE_TILE) * gram_ceil_div(l->in, SAMPLE_TILE);
}

static int64_t ghost_tiles(const struct gram_layer_op *l)
{
    int64_t tiles = gram_ceil_div(l->positions, SAMPLE_TILE);

    return l->groups * tiles * (tiles + 1) / 2;
}

/* ---- Biases and normalisations ------------------------------------------------------------- */

static int64_t row_features(const struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    return job->params.affine ? l->out : l->out * l->groups;
}

int64_t cuda_sample_row_tiles(const struct cuda_sample_job *job)
{
    return gram_ceil_div(row_features(job), job->params.planes ? SAMPLE_THREADS / 32 : 32);
}

/* The parameters of rows: features of all groups. */
static struct sample_params row_params(const struct cuda_sample_job *job)
{
    struct sample_params p = job->params;

    p.out = (int)row_features(job);
    p.square_first = (int)job->product_squares;
    p.length = job->row_parts.length;
    return p;
}

gram_status cuda_sample_rows_each(struct cuda_sample_job *job)
{
    struct sample_params p = row_params(job);

    p.weight = cuda_sample_output(&job->op->weight);
    p.bias = cuda_sample_output(&job->op->bias);
    if (job->row_squares == 0)
        p.squares = NULL;
    return cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_AFFINE, &p,
                              job->op->layer.samples * cuda_sample_row_tiles(job));
}

gram_status cuda_sample_rows_sums(struct cuda_sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const int64_t features = row_features(job);
    struct sample_params p = row_params(job);

    p.weight = cuda_sample_output(&op->sum_weight);
    p.bias = cuda_sample_output(&op->sum_bias);
    TRY(cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_AFFINE_SUMS, &p,
                           job->row_parts.count * cuda_sample_row_tiles(job)));
    if (p.affine && op->sum_weight.wanted)
        TRY(cuda_sample_reduce(job, 0, features, 1, &job->row_parts));
    return op->sum_bias.wanted ? cuda_sample_reduce(job, 1, features, 1, &job->row_parts) : GRAM_OK;
}

static void plan_rows(struct cuda_sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;

    if (job->squares && (job->params.affine || op->layer.bias))
        job->row_squares = cuda_sample_row_tiles(job);
    job->row_parts = cuda_sample_cut(job, cuda_sample_row_tiles(job), LEAST_POSITIONS);
}

const struct cuda_sample_family cuda_sample_affine = {plan_rows, cuda_sample_rows_each,
                                                      cuda_sample_rows_sums};

/* ---- Tensor cores ---------------------------------------------------------------------------- */

/* The farthest that an element of a sample lies from its first one. */
static double extent(const struct gram_axes *axes)
{
    double sum = 0;

    for (int d = 0; d < axes->ndim; d++)
        sum += (double)(axes->shape[d] - 1) * fabs((double)axes->stride[d]);
    return sum;
}

static double patch_extent(const struct gram_layer_op *l)
{
    double sum = extent(&l->a.feature);

    for (int d = 0; d < 3; d++)
        sum += (double)(l->size[d] + 2 * l->padding[d]) * fabs((double)l->size_stride[d]);
    return sum;
}

static bool is_multiple(const struct gram_axes *axes)
{
    bool all = true;

    for (int d = 0; d < axes->ndim; d++)
        all = all && axes->stride[d] % 4 == 0;
    return all;
}

/* Whether four neighbours from a fourth one on are always next to each other, 16 bytes aligned. */
static bool is_wide(const struct gram_layer_side *side, bool planes, int64_t features)
{
    const struct gram_axes *fast = planes ? &side->position : &side->feature;
    const struct gram_axes *slow = planes ? &side->feature : &side->position;

    return fast->ndim == 1 && fast->stride[0] == 1 && fast->shape[0] % 4 == 0 &&
           features % 4 == 0 && is_multiple(slow) && side->sample_stride % 4 == 0 &&
           (uintptr_t)side->data % 16 == 0;
}

/* Whether sample_mma.cu serves the layer; the parameters say how. */
static void choose_mma(struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params *p = &job->params;
    const double g = extent(&l->g.feature) + extent(&l->g.position);
    const double a = l->patches ? patch_extent(l) : extent(&l->a.feature) + extent(&l->a.position);
    double places = 1;

    for (int d = 0; l->patches && d < 3; d++)
        places *= (double)l->kernel[d];
    job->mma = l->a.dtype == l->dtype && l->g.dtype == l->dtype && places <= SAMPLE_MMA_PLACES &&
               fmax(a, g) <= INT32_MAX;
    p->a_wide = !l->patches && is_wide(&l->a, p->a_planes, l->in);
    p->g_wide = is_wide(&l->g, p->planes, l->out);
}

/* ---- Products ------------------------------------------------------------------------------ */

static void plan(struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    job->ghost = gram_sample_grad_is_ghost(job->op);
    choose_mma(job);
    if (job->squares && l->in > 0 && l->out > 0)
        job->product_squares = !job->ghost         ? weight_tiles(l)
                               : l->positions == 1 ? l->groups
                                                   : ghost_tiles(l);
    job->product_parts = cuda_sample_cut(job, weight_tiles(l), LEAST_TERMS);
    plan_rows(job);
}

static gram_status each_weight(struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;

    p.weight = cuda_sample_output(&job->op->weight);
    if (job->ghost && l->positions == 1)
        return cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_GHOST_ONE, &p,
                                  l->samples * job->product_squares);
    if (job->ghost)
        return cuda_sample_launch(
            job, job->mma ? CUDA_VARIANT_SAMPLE_MMA_GHOST : CUDA_VARIANT_SAMPLE_GHOST, &p,
            l->samples * job->product_squares);
    return cuda_sample_launch(
        job, job->mma ? CUDA_VARIANT_SAMPLE_MMA_BLOCKS : CUDA_VARIANT_SAMPLE_BLOCKS, &p,
        l->samples * weight_tiles(l));
}

static gram_status each(struct cuda_sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;

    if (op->layer.in > 0 && op->layer.out > 0 && (op->weight.wanted || job->squares))
        TRY(each_weight(job));
    return op->bias.wanted || job->row_squares > 0 ? cuda_sample_rows_each(job) : GRAM_OK;
}

static gram_status sums(struct cuda_sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const struct gram_layer_op *l = &op->layer;
    struct sample_params p = job->params;

    if (op->sum_weight.wanted && l->in > 0 && l->out > 0) {
        p.weight = cuda_sample_output(&op->sum_weight);
        p.add = op->accumulate;
        p.parts = (int)job->product_parts.count;
        p.length = job->product_parts.length;
        TRY(cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_SUMS, &p, p.parts * weight_tiles(l)));
        if (p.parts > 1)
            TRY(cuda_sample_reduce(job, 0, l->groups * l->out, l->in, &job->product_parts));
    }
    return op->sum_bias.wanted ? cuda_sample_rows_sums(job) : GRAM_OK;
}

const struct cuda_sample_family cuda_sample_products = {plan, each, sums};
