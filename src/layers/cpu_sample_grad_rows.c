/*
 * cpu_sample_grad_rows.c - gradients of samples of an embedding
 *
 * A sample's positions are sorted by their rows, so that each row's gradient is the sum of a run
 * and the norm that of the runs: S log S steps and S O additions.  The table itself is touched only
 * where it is the output.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_layer_rows.h"
#include "cpu_sample_grad.h"
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 64 /* of the sum that a thread takes at a time: a few cache lines */
};

struct place {
    int64_t row, position;
};

static int by_row(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

/* left: places; right: a row of numbers; weight: zeros; doubles: a row's sum and one position's. */
static gram_status plan(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    size_t row = gram_round64((size_t)l->out * sizeof(double));
    double sum = ((double)l->in + 1) * (double)l->out;

    if ((double)l->positions > (double)(INT64_MAX / 64) || sum > (double)(INT64_MAX / 64))
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT, "the size of the table overflows");
    job->right_at = gram_round64((size_t)l->positions * sizeof(struct place));
    job->weight_at = job->right_at + row;
    job->doubles_at = job->weight_at + row;
    job->thread_bytes = job->each ? job->doubles_at + 2 * row : 0;
    job->sum_bytes = job->sums ? (size_t)l->in * (size_t)l->out * sizeof(double) : 0;
    return GRAM_OK;
}

static int64_t sort_places(const struct gram_layer_op *l, int64_t sample, struct place *places)
{
    int64_t count = 0;

    for (int64_t s = 0; s < l->positions; s++) {
        int64_t row = cpu_layer_row_at(l, sample, s);
        if (row != l->padding_row)
            places[count++] = (struct place){row, s};
    }
    qsort(places, (size_t)count, sizeof *places, by_row);
    return count;
}

/* The gradient of the row that place `from` has: the sum of its places; returns the next one. */
static int64_t sum_run(const struct gram_layer_op *l, int64_t sample, const struct place *places,
                       const int64_t from_count[2], double *sum)
{
    int64_t at = from_count[0];
    double *one = sum + l->out;
    struct cpu_layer_part d = {
        .layer = l, .gradients = true, .sample = sample, .features = l->out, .positions = 1};

    memset(sum, 0, (size_t)l->out * sizeof *sum);
    for (; at < from_count[1] && places[at].row == places[from_count[0]].row; at++) {
        d.position = places[at].position;
        cpu_layer_sums(&d, one);
        for (int64_t o = 0; o < l->out; o++)
            sum[o] += one[o];
    }
    return at;
}

/* Zeros to the sample's whole table. */
static void clear(const struct cpu_sample_job *job, int64_t sample, void *zeros)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct cpu_layer_store store = {.out = &job->op->weight,
                                          .dtype = l->dtype,
                                          .sample = sample,
                                          .rows = l->in,
                                          .cols = l->out};

    memset(zeros, 0, (size_t)l->out * sizeof(double));
    cpu_layer_store(&store, zeros, 0);
}

static void each(void *arg, int64_t sample, int thread)
{
    const struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    struct place *places = cpu_sample_at(job, thread, job->left_at);
    double *sum = cpu_sample_at(job, thread, job->doubles_at), square = 0;
    void *numbers = cpu_sample_at(job, thread, job->right_at);
    int64_t count = sort_places(l, sample, places);
    struct cpu_layer_store store = {.out = &job->op->weight,
                                    .dtype = l->dtype,
                                    .sample = sample,
                                    .rows = 1,
                                    .cols = l->out,
                                    .scale = 1};

    if (job->op->weight.wanted)
        clear(job, sample, cpu_sample_at(job, thread, job->weight_at));
    for (int64_t at = 0; at < count;) {
        store.row = places[at].row;
        at = sum_run(l, sample, places, (int64_t[]){at, count}, sum);
        for (int64_t o = 0; o < l->out; o++) {
            sum[o] *= job->op->scale;
            square += sum[o] * sum[o];
        }
        if (!job->op->weight.wanted)
            continue;
        cpu_sample_round(l->dtype, sum, l->out, 1, numbers);
        cpu_layer_store(&store, numbers, 0);
    }
    job->square[sample] = square;
}

/* Columns of the sum over all samples, in order. */
static void sum_columns(void *arg, int64_t index, int thread)
{
    struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    int64_t first = index * COLUMNS, count = gram_least(COLUMNS, l->out - first);
    double one[COLUMNS], *table = (double *)(void *)job->sum;
    struct cpu_layer_part d = {
        .layer = l, .gradients = true, .feature = first, .features = count, .positions = 1};

    (void)thread;
    for (d.sample = 0; d.sample < l->samples; d.sample++) {
        double factor = job->factor[d.sample];
        for (d.position = 0; factor != 0 && d.position < l->positions; d.position++) {
            int64_t row = cpu_layer_row_at(l, d.sample, d.position);
            if (row == l->padding_row)
                continue;
            cpu_layer_sums(&d, one);
            for (int64_t o = 0; o < count; o++)
                table[row * l->out + first + o] += factor * one[o];
        }
    }
}

/* Rounds a row of the sum where it stands in front of its doubles, and stores it. */
static void store_row(void *arg, int64_t row, int thread)
{
    struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    const double *sums = (const double *)(const void *)job->sum + row * l->out;
    struct cpu_layer_store store = {.out = &job->op->sum_weight,
                                    .dtype = l->dtype,
                                    .row = row,
                                    .rows = 1,
                                    .scale = 1,
                                    .add = job->op->accumulate};
    double numbers[COLUMNS];

    (void)thread;
    for (store.col = 0; store.col < l->out; store.col += COLUMNS) {
        store.cols = gram_least(COLUMNS, l->out - store.col);
        cpu_sample_round(l->dtype, sums + store.col, store.cols, 1, numbers);
        cpu_layer_store(&store, numbers, 0);
    }
}

static void sums(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    memset(job->sum, 0, job->sum_bytes);
    gram_parallel_for(job->g, gram_ceil_div(l->out, COLUMNS), sum_columns, job);
    if (job->op->sum_weight.wanted)
        gram_parallel_for(job->g, l->in, store_row, job);
}

const struct cpu_sample_family cpu_sample_rows = {plan, each, sums};
