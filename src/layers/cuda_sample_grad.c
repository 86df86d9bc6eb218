/*
 * cuda_sample_grad.c - gram_sample_grad on the device: see cuda_sample_grad.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_sample_grad.h"
#include "cuda/arena.h"

enum {
    BLOCKS_EACH = 8,            /* of a processor, where sums are cut: a few waves */
    WARPS = SAMPLE_THREADS / 32 /* of a block: positions whose moments it makes */
};

static const struct cuda_sample_family *family_of(gram_layer_kind kind)
{
    static const struct cuda_sample_family *const families[] = {
        [GRAM_LAYER_LINEAR] = &cuda_sample_products,
        [GRAM_LAYER_CONVOLUTION] = &cuda_sample_products,
        [GRAM_LAYER_EMBEDDING] = &cuda_sample_table,
        [GRAM_LAYER_NORM] = &cuda_sample_affine,
        [GRAM_LAYER_GROUP_NORM] = &cuda_sample_affine};

    return families[kind];
}

/* ---- What kernels are told ----------------------------------------------------------------- */

static struct sample_axes axes_of(const struct gram_axes *axes)
{
    struct sample_axes a = {.ndim = axes->ndim};

    for (int d = 0; d < axes->ndim; d++) {
        a.stride[d] = axes->stride[d];
        a.shape[d] = (int)axes->shape[d];
    }
    return a;
}

static struct sample_side side_of(const struct gram_layer_side *side)
{
    static const int types[] = {
        [GRAM_F32] = SAMPLE_REAL,  [GRAM_F64] = SAMPLE_REAL, [GRAM_F16] = SAMPLE_F16,
        [GRAM_BF16] = SAMPLE_BF16, [GRAM_I32] = SAMPLE_I32,  [GRAM_I64] = SAMPLE_I64};

    return (struct sample_side){.data = side->data,
                                .type = types[side->dtype],
                                .sample_stride = side->sample_stride,
                                .feature = axes_of(&side->feature),
                                .position = axes_of(&side->position)};
}

struct sample_output cuda_sample_output(const struct gram_layer_output *out)
{
    return (struct sample_output){.data = out->wanted ? out->data : NULL,
                                  .sample_stride = out->sample_stride,
                                  .row = axes_of(&out->row),
                                  .col = axes_of(&out->col)};
}

static int64_t last_stride(const struct gram_axes *axes)
{
    int64_t stride = axes->ndim ? axes->stride[axes->ndim - 1] : INT64_MAX;

    return stride < 0 ? -stride : stride;
}

/* Whether positions lie closer together than features. */
static bool in_planes(const struct gram_layer_side *side)
{
    return last_stride(&side->position) < last_stride(&side->feature);
}

static void fill_params(struct cuda_sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const struct gram_layer_op *l = &op->layer;
    struct sample_params *p = &job->params;

    *p = (struct sample_params){
        .samples = (int)l->samples,
        .positions = (int)l->positions,
        .groups = (int)l->groups,
        .in = (int)l->in,
        .out = (int)l->out,
        .channels = (int)l->channels,
        .patches = l->patches,
        .affine = l->kind == GRAM_LAYER_NORM         ? 1
                  : l->kind == GRAM_LAYER_GROUP_NORM ? 2
                                                     : 0,
        .planes = in_planes(&l->g),
        .a_planes = l->patches ? l->size_stride[2] <= 1 : in_planes(&l->a),
        .biased = l->bias,
        .padding_row = l->padding_row,
        .scale = op->scale,
        .clip = op->clip,
        .clips = op->clip > 0,
        .epsilon = l->epsilon,
        .a = side_of(&l->a),
        .g = side_of(&l->g),
        .accumulate = op->accumulate,
        .has_coefficients = op->coefficients.wanted,
    };
    for (int d = 0; d < 3; d++) {
        p->size[d] = l->patches ? (int)l->size[d] : 1;
        p->kernel[d] = (int)l->kernel[d], p->place[d] = (int)l->place[d];
        p->stride[d] = (int)l->stride[d], p->padding[d] = (int)l->padding[d];
        p->dilation[d] = (int)l->dilation[d];
        p->size_stride[d] = l->size_stride[d];
    }
}

/* Places in scratch, once it is there. */
static void place_scratch(struct cuda_sample_job *job)
{
    struct sample_params *p = &job->params;
    char *s = job->scratch;

    p->square_count = (int)(job->product_squares + job->row_squares);
    p->squares = job->squares ? (double *)(void *)(s + job->squares_at) : NULL;
    p->factors = (double *)(void *)(s + job->factors_at);
    p->moments = (double *)(void *)(s + job->moments_at);
    for (int i = 0; i < 2; i++)
        p->partial[i] = (double *)(void *)(s + job->partial_at[i]);
    p->head = (int *)(void *)(s + job->head_at);
    p->next = (int *)(void *)(s + job->next_at);
}

/* ---- The plan ------------------------------------------------------------------------------ */

struct cuda_sample_parts cuda_sample_cut(const struct cuda_sample_job *job, int64_t tiles,
                                         int64_t least)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct cuda_device *device = job->g->device;
    const int64_t all = l->samples * l->positions;
    int64_t parts = gram_ceil_div(BLOCKS_EACH * (int64_t)device->processors, gram_most(tiles, 1));
    struct cuda_sample_parts cut = {.count = 1, .length = gram_most(all, 1)};

    parts = gram_most(gram_least(parts, all / least), gram_ceil_div(all, INT32_MAX / 2));
    if (parts > 1) {
        cut.length = gram_ceil_div(all, parts);
        cut.count = gram_ceil_div(all, cut.length);
    }
    return cut;
}

/* Kernels count features, positions and samples in 32 bits. */
static gram_status check_sizes(gram_context *g, const struct gram_layer_op *l)
{
    bool fits = l->samples <= INT32_MAX && l->positions <= INT32_MAX / 2 && l->groups <= INT32_MAX;

    fits = fits && l->in <= INT32_MAX && l->out <= INT32_MAX;
    fits = fits && (double)gram_most(l->in, l->out) * (double)l->groups <= INT32_MAX;
    fits = fits && (double)l->samples * (double)l->positions <= (double)(INT64_MAX / 256);
    for (int d = 0; l->patches && d < 3; d++)
        fits = fits && (double)l->size[d] + 2 * (double)l->padding[d] <= INT32_MAX / 2;
    if (!fits)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a layer of %lld by %lld features, %lld groups, %lld samples and %lld "
                         "positions is too large for the device: they are counted in 32 bits",
                         (long long)l->in, (long long)l->out, (long long)l->groups,
                         (long long)l->samples, (long long)l->positions);
    return GRAM_OK;
}

/* Moves *at behind count numbers of size; false if that overflows. */
static bool take(size_t *at, double count, size_t size)
{
    if (count * (double)size > (double)(INT64_MAX / 64))
        return false;
    *at += gram_round64((size_t)count * size);
    return *at <= INT64_MAX / 4;
}

static gram_status make_job(gram_context *g, const struct gram_sample_grad_op *op,
                            struct cuda_sample_job *job)
{
    const struct gram_layer_op *l = &op->layer;
    double samples = (double)l->samples, counts[5];
    size_t *const places[] = {&job->factors_at, &job->moments_at, &job->partial_at[0],
                              &job->partial_at[1], &job->head_at};
    bool fits;

    TRY(check_sizes(g, l));
    *job = (struct cuda_sample_job){.g = g, .op = op};
    job->sums = op->sum_weight.wanted || op->sum_bias.wanted;
    job->squares = op->norms.wanted || (job->sums && op->clip > 0);
    job->each = op->weight.wanted || op->bias.wanted || job->squares;
    fill_params(job);
    family_of(l->kind)->plan(job);
    counts[0] = job->squares ? samples * (double)(job->product_squares + job->row_squares) : 0;
    counts[1] = samples;
    counts[2] = l->kind == GRAM_LAYER_NORM         ? 2 * samples * (double)l->positions
                : l->kind == GRAM_LAYER_GROUP_NORM ? 2 * samples * (double)l->groups
                                                   : 0;
    counts[3] = 0;
    counts[4] = 0;
    if (op->sum_weight.wanted && job->params.affine)
        counts[3] = (double)job->row_parts.count * (double)l->out;
    else if (op->sum_weight.wanted && job->product_parts.count > 1)
        counts[3] = (double)job->product_parts.count * (double)(l->groups * l->out) * (double)l->in;
    if (op->sum_bias.wanted)
        counts[4] = (double)job->row_parts.count * (double)(job->params.affine ? 1 : l->groups) *
                    (double)l->out;
    fits = true;
    for (int i = 0; i < 5; i++) {
        fits = fits && take(&job->bytes, counts[i], sizeof(double));
        *places[i] = job->bytes;
    }
    job->next_at = job->head_at;
    if (l->kind == GRAM_LAYER_EMBEDDING) {
        fits = fits && take(&job->bytes, samples * (double)l->positions, sizeof(int));
        job->next_at = job->bytes;
        fits = fits && take(&job->bytes, samples * (double)l->positions, sizeof(int));
    }
    if (!fits || job->product_squares + job->row_squares > INT32_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of the scratch overflows");
    return GRAM_OK;
}

gram_status cuda_sample_grad_workspace(gram_context *g, const struct gram_sample_grad_op *op,
                                       size_t *bytes)
{
    struct cuda_sample_job job;

    TRY(make_job(g, op, &job));
    *bytes = job.bytes;
    return GRAM_OK;
}

/* ---- The work ------------------------------------------------------------------------------ */

gram_status cuda_sample_launch(struct cuda_sample_job *job, enum cuda_variant_file kernel,
                               struct sample_params *p, int64_t blocks)
{
    p->blocks = blocks;
    if (blocks == 0)
        return GRAM_OK;
    return gram_cuda_launch_plain(job->g, kernel, job->op->layer.dtype, blocks, SAMPLE_THREADS, p);
}

gram_status cuda_sample_reduce(struct cuda_sample_job *job, int which, int64_t rows, int64_t cols,
                               const struct cuda_sample_parts *parts)
{
    struct sample_params p = job->params;

    p.out = (int)rows;
    p.in = (int)cols;
    p.parts = (int)parts->count;
    p.add = job->op->accumulate;
    if (which == 0)
        p.weight = cuda_sample_output(&job->op->sum_weight);
    else
        p.bias = cuda_sample_output(&job->op->sum_bias);
    return cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_REDUCE, &p,
                              gram_ceil_div(rows * cols, SAMPLE_THREADS));
}

static gram_status find_factors(struct cuda_sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    struct sample_params p = job->params;

    p.norms = cuda_sample_output(&op->norms);
    p.coefficients = cuda_sample_output(&op->coefficients);
    if (!job->squares)
        p.square_count = 0;
    return cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_FACTORS, &p, op->layer.samples);
}

static gram_status run(struct cuda_sample_job *job)
{
    const struct cuda_sample_family *family = family_of(job->op->layer.kind);
    void *scratch;

    TRY(gram_cuda_scratch(job->g, job->bytes, &scratch));
    job->scratch = scratch;
    place_scratch(job);
    if (job->params.affine && (job->each || job->sums)) {
        const struct gram_layer_op *l = &job->op->layer;
        struct sample_params p = job->params;
        const int64_t blocks = p.affine == 1 ? gram_ceil_div(l->samples * l->positions, WARPS)
                                             : l->samples * l->groups;
        TRY(cuda_sample_launch(job, CUDA_VARIANT_SAMPLE_MOMENTS, &p, blocks));
    }
    if (job->each)
        TRY(family->each(job));
    if (job->squares || job->sums)
        TRY(find_factors(job));
    return job->sums ? family->sums(job) : GRAM_OK;
}

static gram_status check_pointers(gram_context *g, const struct gram_sample_grad_op *op)
{
    const struct {
        const char *name, *data;
    } all[] = {
        {         "activations",      op->layer.a.data},
        {           "gradients",      op->layer.g.data},
        {              "weight",       op->weight.data},
        {                "bias",         op->bias.data},
        {               "norms",        op->norms.data},
        {          "sum_weight",   op->sum_weight.data},
        {            "sum_bias",     op->sum_bias.data},
        {"options.coefficients", op->coefficients.data},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct gram_view view = {.data = (char *)all[i].data};
        TRY(gram_cuda_check_pointer(g, all[i].name, &view));
    }
    return GRAM_OK;
}

gram_status cuda_sample_grad(gram_context *g, const struct gram_sample_grad_op *op)
{
    struct cuda_sample_job job;
    gram_status status;
    bool entered;

    TRY(check_pointers(g, op));
    TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = run(&job);
    gram_cuda_leave(g->device, entered);
    return status;
}
