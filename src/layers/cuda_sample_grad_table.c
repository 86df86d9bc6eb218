/*
 * cuda_sample_grad_table.c - gradients of samples of an embedding
 *
 * Positions with one row are linked first, so that each row's sum is taken in order by one block.
 * For sums samples are linked together, several at a time, and their rows added to the sums.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_sample_grad.h"

enum {
    PARTS = 64,   /* blocks of a sample */
    LINKED = 8192 /* positions of a launch of sums, about: comparisons grow with their square */
};

static void plan(struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    job->product_squares = job->squares ? gram_least(PARTS, l->positions) : 0;
    job->span = l->positions * gram_most(1, LINKED / gram_most(1, l->positions));
}

static gram_status fill(struct cuda_sample_job *job, const struct gram_layer_output *out,
                        int64_t samples)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;

    p.weight = cuda_sample_output(out);
    p.samples = (int)samples;
    return cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_FILL, &p,
                              gram_ceil_div(samples * l->in * l->out, SAMPLE_THREADS));
}

static gram_status link(struct cuda_sample_job *job, int64_t span)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;
    int64_t all = l->samples * l->positions;

    p.span = (int)span;
    return span == 0
               ? GRAM_OK
               : cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_LINK, &p,
                                    gram_ceil_div(all, span) * gram_ceil_div(span, SAMPLE_THREADS));
}

static gram_status each(struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;

    if (job->op->weight.wanted && l->in > 0)
        TRY(fill(job, &job->op->weight, l->samples));
    TRY(link(job, l->positions));
    p.weight = cuda_sample_output(&job->op->weight);
    p.parts = (int)gram_least(PARTS, l->positions);
    return cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_TABLE, &p, l->samples * p.parts);
}

static gram_status sums(struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    const int64_t all = l->samples * l->positions;
    struct sample_params p = job->params;

    if (!job->op->sum_weight.wanted)
        return GRAM_OK;
    if (!job->op->accumulate)
        TRY(fill(job, &job->op->sum_weight, 1));
    TRY(link(job, job->span));
    p.weight = cuda_sample_output(&job->op->sum_weight);
    p.span = (int)job->span;
    for (int64_t first = 0; first < all; first += job->span, p.first++)
        TRY(cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_TABLE_SUMS, &p,
                               gram_least(job->span, all - first)));
    return GRAM_OK;
}

const struct cuda_sample_family cuda_sample_table = {plan, each, sums};
