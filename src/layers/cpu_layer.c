/*
 * cpu_layer.c - a layer's tensors as matrices for BLAS, and matrices into its outputs: see
 * cpu_layer.h
 *
 * Feature f of a patch is element (c, i, j, k) of the convolution's kernel, in this order; position
 * s is place (u, v, w).  It is element c, u stride - padding + i dilation, ... of the input, or 0
 * beside it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_layer.h"
#include "core/threads.h"
#include <string.h>

enum {
    BLOCK_BYTES = 2 << 20, /* of a block's matrix: about a second-level cache */
    LEAST_POSITIONS = 256, /* of a block, so that products are worth what they read */
    MOST_POSITIONS = 4096, /* of narrow ones */
    ROUND = 16
};

/* ---- Parts ---------------------------------------------------------------------------------- */

struct move {
    const struct gram_layer_op *layer;
    const void *from; /* element 0 of outer and inner */
    const struct gram_axes *outer, *inner;
    int64_t outer_first, outer_count, inner_first, inner_count;
    double factor;
    void *to;
    int64_t ld;
    int64_t channel_stride; /* of patches */
};

/* A feature of patches: where its channel begins, and its place in the convolution's kernel. */
struct patch {
    int64_t channel;
    int64_t at[3]; /* times dilation, less padding */
};

/* Places of one row: [low, high) of them have an element, place i is at offset + start + i step. */
struct places {
    int64_t offset, start, step, low, high, count;
};

int64_t cpu_axes_at(const struct gram_axes *axes, int64_t i)
{
    int64_t offset = 0;

    for (int d = axes->ndim - 1; d > 0; d--) {
        offset += i % axes->shape[d] * axes->stride[d];
        i /= axes->shape[d];
    }
    return axes->ndim ? offset + i * axes->stride[0] : 0;
}

int64_t cpu_axes_run(const struct gram_axes *axes, int64_t i, int64_t limit)
{
    int64_t last = axes->ndim ? axes->shape[axes->ndim - 1] : 1;

    return axes->ndim <= 1 ? limit : gram_least(limit, last - i % last);
}

static struct patch patch_of(const struct move *m, int64_t feature)
{
    const struct gram_layer_op *l = m->layer;
    struct patch p;

    for (int d = 2; d >= 0; d--) {
        p.at[d] = feature % l->kernel[d] * l->dilation[d] - l->padding[d];
        feature /= l->kernel[d];
    }
    p.channel = feature * m->channel_stride;
    return p;
}

/* i limited to [0, count] */
static int64_t limited(int64_t i, int64_t count)
{
    return i < 0 ? 0 : gram_least(i, count);
}

/* Places from position on, to the end of their row at most. */
static struct places places_of(const struct gram_layer_op *l, const struct patch *patch,
                               int64_t position, int64_t limit)
{
    int64_t w = position % l->place[2], v = position / l->place[2] % l->place[1];
    int64_t u = position / l->place[2] / l->place[1], s = l->stride[2];
    int64_t x = u * l->stride[0] + patch->at[0], y = v * l->stride[1] + patch->at[1];
    int64_t z = w * s + patch->at[2];
    struct places p = {.count = gram_least(limit, l->place[2] - w)};

    if (x < 0 || x >= l->size[0] || y < 0 || y >= l->size[1])
        return p;
    p.low = z >= 0 ? 0 : limited(gram_ceil_div(-z, s), p.count);
    p.high = z >= l->size[2] ? p.low : limited(gram_ceil_div(l->size[2] - z, s), p.count);
    if (p.high <= p.low) {
        p.low = p.high = 0;
        return p;
    }
    p.offset = patch->channel + x * l->size_stride[0] + y * l->size_stride[1];
    p.start = z * l->size_stride[2];
    p.step = s * l->size_stride[2];
    return p;
}

#define TEMPLATE "layers/layer_move_loops.h"
#define HALVES   1
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* clang-format off */
static const struct {
    void (*rows)(const struct move *m);
    void (*patches)(const struct move *m);
    void (*sum_outer)(const struct move *m);
    void (*sum_inner)(const struct move *m);
    void (*sum_patches)(const struct move *m);
    void (*store)(const struct cpu_layer_store *s, const void *from, int64_t ld);
} loops[] = {
    [GRAM_F32]  = {move_rows_f32, move_patches_f32, sum_outer_f32, sum_inner_f32, sum_patches_f32,
                   store_f32},
    [GRAM_F64]  = {move_rows_f64, move_patches_f64, sum_outer_f64, sum_inner_f64, sum_patches_f64,
                   store_f64},
    [GRAM_F16]  = {move_rows_f16, move_patches_f16, sum_outer_f16, sum_inner_f16, sum_patches_f16,
                   store_f16},
    [GRAM_BF16] = {move_rows_bf16, move_patches_bf16, sum_outer_bf16, sum_inner_bf16,
                   sum_patches_bf16, store_bf16},
};
/* clang-format on */

static const struct gram_layer_side *side_of(const struct gram_layer_op *l, bool gradients)
{
    return gradients ? &l->g : &l->a;
}

static bool has_patches(const struct cpu_layer_part *p)
{
    return !p->gradients && p->layer->patches;
}

bool cpu_layer_planes(const struct gram_layer_op *layer, bool gradients)
{
    const struct gram_layer_side *s = side_of(layer, gradients);
    int64_t feature = cpu_axes_step(&s->feature), position = cpu_axes_step(&s->position);

    if (layer->patches && !gradients)
        return true;
    return s->position.ndim > 0 && (s->feature.ndim == 0 || (position < 0 ? -position : position) <
                                                                (feature < 0 ? -feature : feature));
}

/* Where the group's first element of the sample is. */
static const char *first_of(const struct cpu_layer_part *p)
{
    const struct gram_layer_side *s = side_of(p->layer, p->gradients);
    int64_t features = p->gradients             ? p->layer->out
                       : p->layer->channels > 0 ? p->layer->channels
                                                : p->layer->in;
    int64_t at = p->sample * s->sample_stride;

    if (p->group > 0)
        at += cpu_axes_at(&s->feature, p->group * features);
    return s->data + at * (int64_t)gram_dtype_size(s->dtype);
}

static struct move move_of(const struct cpu_layer_part *p, bool planes, void *to)
{
    const struct gram_layer_side *s = side_of(p->layer, p->gradients);
    struct move m = {.layer = p->layer,
                     .from = first_of(p),
                     .outer = planes ? &s->feature : &s->position,
                     .inner = planes ? &s->position : &s->feature,
                     .outer_first = planes ? p->feature : p->position,
                     .outer_count = planes ? p->features : p->positions,
                     .inner_first = planes ? p->position : p->feature,
                     .inner_count = planes ? p->positions : p->features,
                     .factor = 1,
                     .to = to,
                     .channel_stride = cpu_axes_step(&s->feature)};

    return m;
}

void cpu_layer_move(const struct cpu_layer_part *p, double factor, bool planes, void *to,
                    int64_t ld)
{
    struct move m = move_of(p, planes, to);
    gram_dtype dtype = side_of(p->layer, p->gradients)->dtype;

    m.factor = factor;
    m.ld = ld;
    if (has_patches(p))
        loops[dtype].patches(&m);
    else
        loops[dtype].rows(&m);
}

/* One stride a feature and one a position, of which one is 1 and the other steps over the rest. */
static bool is_direct(const struct cpu_layer_part *p, struct gram_blas_matrix *matrix)
{
    const struct gram_layer_side *s = side_of(p->layer, p->gradients);
    int64_t size = (int64_t)gram_dtype_size(s->dtype);
    int64_t feature = cpu_axes_step(&s->feature), position = cpu_axes_step(&s->position);
    bool planes = cpu_layer_planes(p->layer, p->gradients);
    int64_t unit = planes ? position : feature, ld = planes ? feature : position;
    int64_t count = gram_most(planes ? p->positions : p->features, 1);

    if (has_patches(p) || s->dtype != p->layer->dtype || s->feature.ndim > 1 ||
        s->position.ndim > 1)
        return false;
    if ((planes ? s->position.ndim : s->feature.ndim) == 0)
        unit = 1;
    if ((planes ? s->feature.ndim : s->position.ndim) == 0)
        ld = count;
    if (unit != 1 || ld < count || ld > INT32_MAX)
        return false;
    matrix->data = first_of(p) + (p->feature * feature + p->position * position) * size;
    matrix->ld = ld;
    matrix->transposed = planes;
    return true;
}

struct gram_blas_matrix cpu_layer_load(const struct cpu_layer_part *p, void *scratch)
{
    bool planes = cpu_layer_planes(p->layer, p->gradients);
    struct gram_blas_matrix m = {scratch, planes ? p->positions : p->features, planes};

    if (!is_direct(p, &m))
        cpu_layer_move(p, 1, planes, scratch, m.ld);
    return m;
}

void cpu_layer_sums(const struct cpu_layer_part *p, double *sums)
{
    bool planes = cpu_layer_planes(p->layer, p->gradients);
    gram_dtype dtype = side_of(p->layer, p->gradients)->dtype;
    struct move m = move_of(p, planes, sums);

    if (has_patches(p))
        loops[dtype].sum_patches(&m);
    else if (planes)
        loops[dtype].sum_inner(&m);
    else
        loops[dtype].sum_outer(&m);
}

/* ---- Outputs -------------------------------------------------------------------------------- */

void cpu_layer_store(const struct cpu_layer_store *s, const void *from, int64_t ld)
{
    loops[s->dtype].store(s, from, ld);
}

/* ---- Blocks of positions of all samples ----------------------------------------------------- */

int64_t cpu_layer_block_count(const struct gram_layer_op *layer, int64_t features, int64_t all)
{
    int64_t bytes = features * (int64_t)gram_dtype_size(layer->dtype);
    int64_t count = bytes > 0 ? BLOCK_BYTES / bytes / ROUND * ROUND : MOST_POSITIONS;

    if (count < LEAST_POSITIONS)
        count = LEAST_POSITIONS;
    return gram_least(gram_least(count, MOST_POSITIONS), all);
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

/* ---- Rows of an embedding's table ----------------------------------------------------------- */

gram_status cpu_layer_check_rows(gram_context *g, const struct gram_layer_op *l)
{
    for (int64_t n = 0; n < l->samples; n++)
        for (int64_t s = 0; s < l->positions; s++) {
            int64_t row = cpu_layer_row_at(l, n, s);
            if (row < 0 || row >= l->in)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "activations has row %lld in sample %lld, expected 0 to %lld",
                                 (long long)row, (long long)n, (long long)l->in - 1);
        }
    return GRAM_OK;
}
