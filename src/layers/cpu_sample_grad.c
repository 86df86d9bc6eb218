/*
 * cpu_sample_grad.c - gram_sample_grad on the CPU, of embeddings and normalisations: see
 * cpu_sample_grad.h
 *
 * Embeddings.  A sample's positions are sorted by their rows, so that each row's gradient is the
 * sum of a run and the norm that of the runs: S log S steps and S O additions.  The table itself is
 * touched only where it is the output.
 *
 * Normalisations.
 *
 *   weight[d] = sum_s g[s, d] (a[s, d] - mean) / sqrt(variance + epsilon),  bias[d] = sum_s g[s, d]
 *
 * A sample's gradient is two rows of doubles.  Sums go over LANES of samples, each in order, and
 * then over the lanes, whatever the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_sample_grad.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double clip_epsilon = 1e-6; /* as in Opacus: no division by 0 */

/* ---- Embeddings ----------------------------------------------------------------------------- */

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
static gram_status plan_rows(struct cpu_sample_job *job)
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
static void clear_table(const struct cpu_sample_job *job, int64_t sample, void *zeros)
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

static void each_rows(void *arg, int64_t sample, int thread)
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
        clear_table(job, sample, cpu_sample_at(job, thread, job->weight_at));
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
static void store_sum_row(void *arg, int64_t row, int thread)
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

static void sum_rows(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    memset(job->sum, 0, job->sum_bytes);
    gram_parallel_for(job->g, gram_ceil_div(l->out, COLUMNS), sum_columns, job);
    if (job->op->sum_weight.wanted)
        gram_parallel_for(job->g, l->in, store_sum_row, job);
}

static const struct cpu_sample_family embeddings = {plan_rows, each_rows, sum_rows};

/* ---- Normalisations ------------------------------------------------------------------------- */

enum {
    LANES = 8
};

/* doubles: weight and bias of a sample, then a row of a and one of g; sums: those of the lanes,
 * each with its two rows. */
static gram_status plan_affine(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    size_t row = (size_t)l->in * sizeof(double);

    if (l->in > INT64_MAX / 512)
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT, "the size of the scratch memory overflows");
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

/* A sample's make_gradient, the scale not included: rows, then room for work. */
static void make_gradient(const struct gram_layer_op *l, int64_t sample, double *rows)
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

static void store_affine(const struct cpu_sample_job *job, const struct gram_layer_output *out,
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

static void each_affine(void *arg, int64_t sample, int thread)
{
    const struct cpu_sample_job *job = arg;
    const struct gram_layer_op *l = &job->op->layer;
    double *rows = cpu_sample_at(job, thread, 0), square = 0;

    make_gradient(l, sample, rows);
    for (int64_t i = 0; i < (l->bias ? 2 : 1) * l->in; i++)
        square += rows[i] * rows[i];
    for (int64_t i = 0; i < 2 * l->in; i++)
        rows[i] *= job->op->scale;
    job->square[sample] = square * job->op->scale * job->op->scale;
    store_affine(job, &job->op->weight, sample, rows, rows + 2 * l->in);
    store_affine(job, &job->op->bias, sample, rows + l->in, rows + 2 * l->in);
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
        make_gradient(l, n, rows);
        for (int64_t i = 0; i < 2 * l->in; i++)
            sums[i] += job->factor[n] * rows[i];
    }
}

static void sum_affine(struct cpu_sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    double *all = lane_at(job, 0);

    gram_parallel_for(job->g, LANES, sum_lane, job);
    for (int64_t lane = 1; lane < LANES; lane++)
        for (int64_t i = 0; i < 2 * l->in; i++)
            all[i] += lane_at(job, lane)[i];
    store_affine(job, &job->op->sum_weight, -1, all, all + 2 * l->in);
    store_affine(job, &job->op->sum_bias, -1, all + l->in, all + 2 * l->in);
}

static const struct cpu_sample_family normalisations = {plan_affine, each_affine, sum_affine};

/* ---- The call ------------------------------------------------------------------------------- */

static const struct cpu_sample_family *family_of(gram_layer_kind kind)
{
    static const struct cpu_sample_family *const families[] = {
        [GRAM_LAYER_LINEAR] = &cpu_sample_products,
        [GRAM_LAYER_CONVOLUTION] = &cpu_sample_products,
        [GRAM_LAYER_EMBEDDING] = &embeddings,
        [GRAM_LAYER_NORM] = &normalisations,
        [GRAM_LAYER_GROUP_NORM] = &normalisations};

    return families[kind];
}

static gram_status make_job(gram_context *g, const struct gram_sample_grad_op *op,
                            struct cpu_sample_job *job)
{
    size_t numbers = gram_round64((size_t)op->layer.samples * sizeof(double));
    struct gram_layout layout = {0};

    *job = (struct cpu_sample_job){.g = g, .op = op};
    job->sums = op->sum_weight.wanted || op->sum_bias.wanted;
    job->squares = op->norms.wanted || (job->sums && op->clip > 0);
    job->each = op->weight.wanted || op->bias.wanted || job->squares;
    TRY(family_of(op->layer.kind)->plan(job));
    job->thread_bytes = gram_round64(job->thread_bytes);
    job->sum_bytes = gram_round64(job->sum_bytes);
    if (job->thread_bytes > SIZE_MAX / 4 / (size_t)g->threads || job->sum_bytes > SIZE_MAX / 4)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of the scratch memory overflows");
    gram_take(&layout, &job->square, numbers);
    gram_take(&layout, &job->factor, numbers);
    gram_take(&layout, &job->threads,
              gram_most_bytes((size_t)g->threads * job->thread_bytes, job->sum_bytes));
    TRY(gram_layout_open(g, &layout));
    job->sum = job->threads; /* when the sums begin, the threads are done */
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
    const struct cpu_sample_family *family = family_of(op->layer.kind);
    struct cpu_sample_job job;

    TRY(make_job(g, op, &job));
    if (op->layer.kind == GRAM_LAYER_EMBEDDING)
        TRY(cpu_layer_check_rows(g, &op->layer));
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
