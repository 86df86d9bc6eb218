/*
 * cpu_sample_grad.c - gram_sample_grad on the CPU: see cpu_sample_grad.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_sample_grad.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu_layer_rows.h"
#include <math.h>

static const double clip_epsilon = 1e-6; /* as in Opacus: no division by 0 */

static const struct cpu_sample_family *family_of(gram_layer_kind kind)
{
    static const struct cpu_sample_family *const families[] = {
        [GRAM_LAYER_LINEAR] = &cpu_sample_products,
        [GRAM_LAYER_CONVOLUTION] = &cpu_sample_products,
        [GRAM_LAYER_EMBEDDING] = &cpu_sample_rows,
        [GRAM_LAYER_NORM] = &cpu_sample_affine,
        [GRAM_LAYER_GROUP_NORM] = &cpu_sample_affine};

    return families[kind];
}

static gram_status make_job(gram_context *g, const struct gram_sample_grad_op *op,
                            struct cpu_sample_job *job)
{
    size_t numbers = gram_round64((size_t)op->layer.samples * sizeof(double));

    *job = (struct cpu_sample_job){.g = g, .op = op};
    job->sums = op->sum_weight.wanted || op->sum_bias.wanted;
    job->squares = op->norms.wanted || (job->sums && op->clip > 0);
    job->each = op->weight.wanted || op->bias.wanted || job->squares;
    TRY(family_of(op->layer.kind)->plan(job));
    job->thread_bytes = gram_round64(job->thread_bytes);
    job->sum_bytes = gram_round64(job->sum_bytes);
    if (job->thread_bytes > SIZE_MAX / 4 / (size_t)g->threads || job->sum_bytes > SIZE_MAX / 4)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of the scratch overflows");
    job->bytes =
        2 * numbers + gram_most_bytes((size_t)g->threads * job->thread_bytes, job->sum_bytes);
    return GRAM_OK;
}

gram_status cpu_sample_grad_workspace(gram_context *g, const struct gram_sample_grad_op *op,
                                      size_t *bytes)
{
    struct cpu_sample_job job;

    TRY(make_job(g, op, &job));
    *bytes = job.bytes;
    return GRAM_OK;
}

static double number_at(const struct gram_layer_output *t, gram_dtype dtype, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)(const void *)t->data)[i * t->sample_stride]
                             : ((const double *)(const void *)t->data)[i * t->sample_stride];
}

/* What multiplies a sample's gradients in sums. */
static double factor_of(const struct cpu_sample_job *job, int64_t sample)
{
    const struct gram_sample_grad_op *op = job->op;
    double norm;

    if (op->coefficients.wanted)
        return op->scale * number_at(&op->coefficients, op->layer.dtype, sample);
    if (op->clip == 0)
        return op->scale;
    norm = sqrt(job->square[sample]);
    return isfinite(norm) ? op->scale * fmin(1, op->clip / (norm + clip_epsilon)) : 0;
}

static void put_norm(const struct cpu_sample_job *job, int64_t sample)
{
    const struct gram_layer_output *out = &job->op->norms;
    int64_t at = sample * out->sample_stride;
    double square = job->square[sample];

    if (job->op->accumulate) {
        double before = number_at(out, job->op->layer.dtype, sample);
        square += before * before;
    }
    if (job->op->layer.dtype == GRAM_F32)
        ((float *)(void *)out->data)[at] = (float)sqrt(square);
    else
        ((double *)(void *)out->data)[at] = sqrt(square);
}

gram_status cpu_sample_grad(gram_context *g, const struct gram_sample_grad_op *op)
{
    size_t numbers = gram_round64((size_t)op->layer.samples * sizeof(double));
    const struct cpu_sample_family *family = family_of(op->layer.kind);
    struct cpu_sample_job job;
    void *scratch;

    TRY(make_job(g, op, &job));
    TRY(gram_scratch(g, job.bytes, &scratch));
    if (op->layer.kind == GRAM_LAYER_EMBEDDING)
        TRY(cpu_layer_rows_check(g, &op->layer));
    job.square = scratch;
    job.factor = (double *)(void *)((char *)scratch + numbers);
    job.threads = job.sum = (char *)scratch + 2 * numbers;
    if (job.each)
        gram_blas_for(g, op->layer.samples, family->each, &job);
    for (int64_t n = 0; n < op->layer.samples; n++) {
        job.factor[n] = job.sums ? factor_of(&job, n) : 0;
        if (op->norms.wanted)
            put_norm(&job, n);
    }
    if (job.sums)
        family->sums(&job);
    return GRAM_OK;
}
