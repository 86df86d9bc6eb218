/*
 * cpu_sample_grad_sum.c - sums of the samples' gradients of a linear layer or a convolution
 *
 *   sum_n c[n] G[n] P[n]^T = (G c) P^T over the positions of all samples
 *
 * A block of positions of both at a time, the gradients multiplied on the way, is one product that
 * is added to the sum in scratch.  A feature more of P, which is 1, gives the bias.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_sample_grad.h"
#include <string.h>

struct sum_plan {
    int64_t cols, positions, count; /* of the sum; of all samples; of a block */
    size_t left_at, right_at, bytes;
};

static struct sum_plan plan_of(const struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    size_t size = gram_dtype_size(l->dtype);
    struct sum_plan p = {.cols = l->in + job->op->sum_bias.wanted,
                         .positions = l->samples * l->positions};

    p.count = cpu_layer_block_count(l, gram_most(p.cols, l->out), p.positions);
    p.left_at = gram_round64((size_t)l->out * (size_t)p.cols * size);
    p.right_at = p.left_at + gram_round64((size_t)(p.cols * p.count) * size);
    p.bytes = p.right_at + gram_round64((size_t)(l->out * p.count) * size);
    return p;
}

gram_status cpu_sample_sums_plan(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    if ((double)l->out * (double)(l->in + 1) > (double)(INT64_MAX / 64))
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT, "the size of the gradient overflows");
    job->sum_bytes = plan_of(job).bytes;
    return GRAM_OK;
}

static void sum_group(struct cpu_sample_job *job, const struct sum_plan *p, int64_t group)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct cpu_layer_block left = {
        .layer = l, .group = group, .factors = job->factor, .ones = job->op->sum_bias.wanted};
    struct cpu_layer_block right = {
        .layer = l, .group = group, .factors = job->factor, .gradients = true};

    memset(job->sum, 0, p->left_at);
    for (int64_t first = 0; first < p->positions; first += p->count) {
        int64_t count = gram_least(p->count, p->positions - first);
        struct gram_blas_matrix a =
            cpu_layer_block_load(job->g, &left, first, count, job->sum + p->left_at);
        struct gram_blas_matrix d =
            cpu_layer_block_load(job->g, &right, first, count, job->sum + p->right_at);
        d.transposed = !d.transposed;
        gram_blas_threads(job->g);
        gram_blas_gemm(l->dtype, (int64_t[]){p->cols, l->out, count}, 1, a, d, 1, job->sum,
                       p->cols);
    }
}

void cpu_sample_sums(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct sum_plan p = plan_of(job);
    struct cpu_layer_store store = {
        .dtype = l->dtype, .rows = l->out, .scale = 1, .add = job->op->accumulate};

    if (l->out == 0 || p.cols == 0)
        return;
    for (int64_t group = 0; group < l->groups; group++) {
        sum_group(job, &p, group);
        store.row = group * l->out;
        store.cols = l->in;
        store.out = &job->op->sum_weight;
        if (store.out->wanted)
            cpu_layer_store(&store, job->sum, p.cols);
        store.cols = 1;
        store.out = &job->op->sum_bias;
        if (store.out->wanted)
            cpu_layer_store(&store, job->sum + (size_t)l->in * gram_dtype_size(l->dtype), p.cols);
    }
}
