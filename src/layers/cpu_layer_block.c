/*
 * cpu_layer_block.c - positions of all samples as one matrix, and matrices into outputs: see
 * cpu_layer.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_layer_rows.h"
#include <string.h>

enum {
    BLOCK_BYTES = 2 << 20, /* of a block's matrix: about a second-level cache */
    LEAST_POSITIONS = 256, /* of a block, so that products are worth what they read */
    MOST_POSITIONS = 4096, /* of narrow ones */
    ROUND = 16
};

#define real float
#define NAME store_f32
#include "cpu_layer_store.h"
#define real double
#define NAME store_f64
#include "cpu_layer_store.h"

void cpu_layer_store(const struct cpu_layer_store *s, const void *from, int64_t ld)
{
    if (s->dtype == GRAM_F32)
        store_f32(s, from, ld);
    else
        store_f64(s, from, ld);
}

int64_t cpu_layer_block_count(const struct gram_layer_op *layer, int64_t features, int64_t all)
{
    int64_t bytes = features * (int64_t)gram_dtype_size(layer->dtype);
    int64_t count = bytes > 0 ? BLOCK_BYTES / bytes / ROUND * ROUND : MOST_POSITIONS;

    if (count < LEAST_POSITIONS)
        count = LEAST_POSITIONS;
    return gram_least(gram_least(count, MOST_POSITIONS), all);
}

int64_t cpu_layer_block_features(const struct cpu_layer_block *b)
{
    return (b->gradients ? b->layer->out : b->layer->in) + b->ones;
}

int64_t cpu_layer_block_positions(const struct cpu_layer_block *b)
{
    return b->layer->samples * (b->reduced ? 1 : b->layer->positions);
}

struct block_job {
    const struct cpu_layer_block *b;
    bool planes;
    int64_t first, count, first_sample, features, ld;
    char *memory;
};

/* 1 goes to the last feature of positions [at, at + count) of the block. */
static void put_ones(const struct block_job *job, int64_t at, int64_t count)
{
    int64_t first =
        job->planes ? (job->features - 1) * job->ld + at : at * job->ld + job->features - 1;
    int64_t step = job->planes ? 1 : job->ld;

    if (!job->b->ones)
        return;
    for (int64_t i = 0; i < count; i++)
        if (job->b->layer->dtype == GRAM_F32)
            ((float *)(void *)job->memory)[first + i * step] = 1;
        else
            ((double *)(void *)job->memory)[first + i * step] = 1;
}

/* Zeros to all features of positions [at, at + count). */
static void put_zeros(const struct block_job *job, int64_t at, int64_t count)
{
    size_t size = gram_dtype_size(job->b->layer->dtype);

    for (int64_t f = 0; job->planes && f < job->features; f++)
        memset(job->memory + (size_t)(f * job->ld + at) * size, 0, (size_t)count * size);
    if (!job->planes)
        memset(job->memory + (size_t)(at * job->ld) * size, 0, (size_t)(count * job->ld) * size);
}

/* Gradients of an embedding of which some positions do not count. */
static bool is_masked(const struct cpu_layer_block *b)
{
    return b->gradients && b->layer->kind == GRAM_LAYER_EMBEDDING && b->layer->padding_row >= 0;
}

/* The part of the block that belongs to one sample. */
static void load_sample(void *arg, int64_t index, int thread)
{
    const struct block_job *job = arg;
    const struct gram_layer_op *l = job->b->layer;
    int64_t sample = job->first_sample + index, positions = l->positions;
    int64_t from = gram_most(job->first, sample * positions);
    int64_t to = gram_least(job->first + job->count, (sample + 1) * positions);
    int64_t at = from - job->first;
    double factor = job->b->factors ? job->b->factors[sample] : 1;
    const struct cpu_layer_part part = {
        .layer = l,
        .gradients = job->b->gradients,
        .sample = sample,
        .group = job->b->group,
        .features = job->features - job->b->ones,
        .position = from - sample * positions,
        .positions = to - from,
    };

    (void)thread;
    if (factor == 0) {
        put_zeros(job, at, to - from);
        return;
    }
    cpu_layer_move(&part, job->b->gradients ? factor : 1, job->planes,
                   job->memory +
                       (size_t)(job->planes ? at : at * job->ld) * gram_dtype_size(l->dtype),
                   job->ld);
    for (int64_t i = from; is_masked(job->b) && i < to; i++)
        if (cpu_layer_row_at(l, sample, i - sample * positions) == l->padding_row)
            put_zeros(job, i - job->first, 1);
    put_ones(job, at, to - from);
}

/* The sums over those positions that count; one has room for as many. */
static void sum_counted(struct cpu_layer_part *part, double *sums, double *one)
{
    int64_t positions = part->positions;

    memset(sums, 0, (size_t)part->features * sizeof *sums);
    part->positions = 1;
    for (part->position = 0; part->position < positions; part->position++) {
        if (cpu_layer_row_at(part->layer, part->sample, part->position) == part->layer->padding_row)
            continue;
        cpu_layer_sums(part, one);
        for (int64_t f = 0; f < part->features; f++)
            sums[f] += one[f];
    }
}

/* One row of the block: a sample's mean, or its sum. */
static void reduce_sample(void *arg, int64_t index, int thread)
{
    const struct block_job *job = arg;
    const struct gram_layer_op *l = job->b->layer;
    int64_t features = job->features - job->b->ones;
    double *sums = job->b->sums + thread * features * 2;
    double scale = job->b->gradients || l->positions == 0 ? 1 : 1 / (double)l->positions;
    struct cpu_layer_part part = {
        .layer = l,
        .gradients = job->b->gradients,
        .sample = job->first + index,
        .group = job->b->group,
        .features = features,
        .positions = l->positions,
    };

    if (is_masked(job->b))
        sum_counted(&part, sums, sums + features);
    else
        cpu_layer_sums(&part, sums);
    for (int64_t f = 0; f < features; f++)
        if (l->dtype == GRAM_F32)
            ((float *)(void *)job->memory)[index * job->ld + f] = (float)(sums[f] * scale);
        else
            ((double *)(void *)job->memory)[index * job->ld + f] = sums[f] * scale;
    put_ones(job, index, 1);
}

struct gram_blas_matrix cpu_layer_block_load(gram_context *g, const struct cpu_layer_block *b,
                                             int64_t first, int64_t count, void *memory)
{
    struct block_job job = {.b = b, .first = first, .count = count, .memory = memory};
    int64_t positions = b->layer->positions;

    job.planes = !b->reduced && cpu_layer_planes(b->layer, b->gradients);
    job.features = cpu_layer_block_features(b);
    job.ld = job.planes ? count : job.features;
    if (b->reduced) {
        gram_parallel_for(g, count, reduce_sample, &job);
    } else {
        job.first_sample = first / positions;
        gram_parallel_for(g, (first + count - 1) / positions - job.first_sample + 1, load_sample,
                          &job);
    }
    return (struct gram_blas_matrix){memory, job.ld, job.planes};
}
