/*
 * cpu_sample_grad_affine.c - gradients of samples of weights and biases behind normalisations
 *
 *   weight[d] = sum_s g[s, d] (a[s, d] - mean) / sqrt(variance + epsilon),  bias[d] = sum_s g[s, d]
 *
 * A sample's gradient is two rows of doubles.  Sums go over LANES of samples, each in order, and
 * then over the lanes, whatever the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_sample_grad.h"
#include <math.h>
#include <string.h>

enum {
    LANES = 8
};

/* doubles: weight and bias of a sample, then a row of a and one of g; sums: those of the lanes,
 * each with its two rows. */
static gram_status plan(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    size_t row = (size_t)l->in * sizeof(double);

    if (l->in > INT64_MAX / 512)
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT, "the size of the scratch overflows");
    job->thread_bytes = job->each ? 4 * row : 0;
    job->sum_bytes = job->sums ? 6 * LANES * row : 0;
    return GRAM_OK;
}

/* mean and 1 / sqrt(variance + epsilon) of features [first, first + count) over `positions`
 * positions from `position` on; one has room for count. */
static void moments(const struct gram_layer_op *l, struct cpu_layer_part p, double *one,
                    double result[2])
{
    double count = (double)p.features * (double)p.positions, mean = 0, variance = 0;
    int64_t end = p.position + p.positions;

    cpu_layer_sums(&p, one);
    for (int64_t f = 0; f < p.features; f++)
        mean += one[f];
    mean /= count;
    p.positions = 1;
    for (; p.position < end; p.position++) {
        cpu_layer_sums(&p, one);
        for (int64_t f = 0; f < p.features; f++)
            variance += (one[f] - mean) * (one[f] - mean);
    }
    result[0] = mean;
    result[1] = 1 / sqrt(variance / count + l->epsilon);
}

/* The two rows of a part's features, added to what they hold; work has room for two rows. */
static void add_part(const struct gram_layer_op *l, struct cpu_layer_part p, double *rows,
                     double *work)
{
    double *weight = rows + p.feature, *bias = rows + l->in + p.feature, m[2];
    double *a = work, *d = work + l->in;
    struct cpu_layer_part gradients = p;
    int64_t end = p.position + p.positions;

    moments(l, p, a, m);
    gradients.gradients = true;
    for (; p.position < end; p.position++) {
        gradients.position = p.position;
        p.positions = gradients.positions = 1;
        cpu_layer_sums(&p, a);
        cpu_layer_sums(&gradients, d);
        for (int64_t f = 0; f < p.features; f++) {
            weight[f] += d[f] * (a[f] - m[0]) * m[1];
            bias[f] += d[f];
        }
    }
}

/* A sample's gradient, the scale not included: rows, then room for work. */
static void gradient(const struct gram_layer_op *l, int64_t sample, double *rows)
{
    struct cpu_layer_part p = {.layer = l, .sample = sample};

    memset(rows, 0, 2 * (size_t)l->in * sizeof *rows);
    if (l->kind == GRAM_LAYER_NORM) {
        p.features = l->in;
        p.positions = 1;
        for (; p.position < l->positions; p.position++)
            add_part(l, p, rows, rows + 2 * l->in);
        return;
    }
    p.features = l->in / l->groups;
    p.positions = l->positions;
    for (; p.feature < l->in && p.positions > 0; p.feature += p.features)
        add_part(l, p, rows, rows + 2 * l->in);
}

static void store(const struct cpu_sample_job *job, const struct gram_layer_output *out,
                  int64_t sample, const double *row, double *work)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct cpu_layer_store s = {.out = out,
                                      .dtype = l->dtype,
                                      .sample = sample,
                                      .rows = l->in,
                                      .cols = 1,
                                      .scale = 1,
                                      .add = sample < 0 && job->op->accumulate};

    if (!out->wanted)
        return;
    cpu_sample_round(l->dtype, row, l->in, 1, work);
    cpu_layer_store(&s, work, 1);
}

static void each(void *arg, int64_t sample, int thread)
{
    const struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    double *rows = cpu_sample_at(job, thread, 0), square = 0;

    gradient(l, sample, rows);
    for (int64_t i = 0; i < (l->bias ? 2 : 1) * l->in; i++)
        square += rows[i] * rows[i];
    for (int64_t i = 0; i < 2 * l->in; i++)
        rows[i] *= job->op->scale;
    job->square[sample] = square * job->op->scale * job->op->scale;
    store(job, &job->op->weight, sample, rows, rows + 2 * l->in);
    store(job, &job->op->bias, sample, rows + l->in, rows + 2 * l->in);
}

static double *lane_at(const struct cpu_sample_job *job, int64_t lane)
{
    return (double *)(void *)job->sum + lane * 6 * job->op->layer.in;
}

static void sum_lane(void *arg, int64_t lane, int thread)
{
    const struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    double *sums = lane_at(job, lane), *rows = sums + 2 * l->in;

    (void)thread;
    memset(sums, 0, 2 * (size_t)l->in * sizeof *sums);
    for (int64_t n = lane; n < l->samples; n += LANES) {
        if (job->factor[n] == 0)
            continue;
        gradient(l, n, rows);
        for (int64_t i = 0; i < 2 * l->in; i++)
            sums[i] += job->factor[n] * rows[i];
    }
}

static void sums(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    double *all = lane_at(job, 0);

    gram_parallel_for(job->g, LANES, sum_lane, job);
    for (int64_t lane = 1; lane < LANES; lane++)
        for (int64_t i = 0; i < 2 * l->in; i++)
            all[i] += lane_at(job, lane)[i];
    store(job, &job->op->sum_weight, -1, all, all + 2 * l->in);
    store(job, &job->op->sum_bias, -1, all + l->in, all + 2 * l->in);
}

const struct cpu_sample_family cpu_sample_affine = {plan, each, sums};
