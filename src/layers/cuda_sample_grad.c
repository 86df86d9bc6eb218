/*
 * cuda_sample_grad.c - gram_sample_grad on the device
 *
 * First every sample is dealt with for itself: its gradient goes to where it is wanted and the
 * squares of its parts to a table in scratch, in places of their own.  From these one kernel makes
 * norms and the factors of the samples, and with them the sums are made, in parts that are added in
 * order: results do not depend on what runs when.
 *
 * There are three families of layers.
 *
 * Products (linear layers, convolutions): a weight's gradient is made tile by tile, and patches
 * only in a tile's shared memory; its norm is that of the tiles, or, where 2 S^2 <= I O, comes from
 * tiles of positions ("ghost").  Tiles of samples are those of tensor cores (sample_mma.cu) where
 * the layer is one that they serve.
 *
 * Normalisations have two rows a sample, weight and bias; so have the biases of products.
 *
 * Embeddings: positions with one row are linked first, so that each row's sum is taken in order by
 * one block.  For sums samples are linked together, several at a time, and their rows added to the
 * sums.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "cuda_layer.h"
#include <math.h>

static const struct cuda_kernel sample_blocks = {"sample_product.cu", "sample_blocks"};
static const struct cuda_kernel sample_sums = {"sample_product.cu", "sample_sums"};
static const struct cuda_kernel sample_ghost = {"sample_ghost.cu", "sample_ghost"};
static const struct cuda_kernel sample_ghost_one = {"sample_ghost.cu", "sample_ghost_one"};
static const struct cuda_kernel sample_mma_blocks = {"sample_mma.cu", "sample_mma_blocks"};
static const struct cuda_kernel sample_mma_ghost = {"sample_mma.cu", "sample_mma_ghost"};
static const struct cuda_kernel sample_moments = {"sample_affine.cu", "sample_moments"};
static const struct cuda_kernel sample_affine = {"sample_affine.cu", "sample_affine"};
static const struct cuda_kernel sample_affine_sums = {"sample_affine.cu", "sample_affine_sums"};
static const struct cuda_kernel sample_factors = {"sample_finish.cu", "sample_factors"};
static const struct cuda_kernel sample_reduce = {"sample_finish.cu", "sample_reduce"};
static const struct cuda_kernel sample_fill = {"sample_finish.cu", "sample_fill"};
static const struct cuda_kernel sample_link = {"sample_table.cu", "sample_link"};
static const struct cuda_kernel sample_table = {"sample_table.cu", "sample_table"};
static const struct cuda_kernel sample_table_sums = {"sample_table.cu", "sample_table_sums"};

enum {
    BLOCKS_EACH = 8,               /* of a processor, where sums are cut: a few waves */
    WARPS = SAMPLE_THREADS / 32,   /* of a block: positions whose moments it makes */
    LEAST_TERMS = 4 * SAMPLE_STEP, /* positions of a part of a product's sums */
    LEAST_POSITIONS = 256,         /* the same of rows */
    TABLE_PARTS = 64,              /* blocks of a sample of an embedding */
    LINKED = 8192 /* positions of a launch of an embedding's sums, about: comparisons grow with
                     their square */
};

/* Sums over the positions of all samples in `count` parts of `length` positions. */
struct sum_parts {
    int64_t count, length;
};

struct sample_job {
    gram_context *g;
    const struct gram_sample_grad_op *op;
    bool each, squares, sums; /* what is wanted: something of each sample; its norm; sums */
    bool ghost, mma;          /* norms without gradients; tiles by tensor cores */
    int64_t product_squares, row_squares; /* of a sample: of its weight's tiles; of its rows */
    struct sum_parts product_parts, row_parts;
    int64_t span; /* positions of an embedding that are linked for sums */
    struct sample_params params;
};

/* One family of layers: sizes in a job, the samples, the sums. */
struct sample_family {
    void (*plan)(struct sample_job *job);
    gram_status (*each)(struct sample_job *job);
    gram_status (*sums)(struct sample_job *job);
};

/* ---- What kernels are told ----------------------------------------------------------------- */

/* What all launches of the call share; each adds what it alone needs to a copy. */
static void fill_params(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const struct gram_layer_op *l = &op->layer;
    struct sample_params *p = &job->params;

    *p = (struct sample_params){
        .l = cuda_layer_params(l),
        .affine = l->kind == GRAM_LAYER_NORM         ? 1
                  : l->kind == GRAM_LAYER_GROUP_NORM ? 2
                                                     : 0,
        .biased = l->bias,
        .scale = op->scale,
        .clip = op->clip,
        .clips = op->clip > 0,
        .epsilon = l->epsilon,
        .accumulate = op->accumulate,
        .has_coefficients = op->coefficients.wanted,
    };
}

static gram_status launch(struct sample_job *job, const struct cuda_kernel *kernel,
                          struct sample_params *p, int64_t blocks)
{
    p->blocks = blocks;
    if (blocks == 0)
        return GRAM_OK;
    return cuda_launch_plain(job->g, kernel, job->op->layer.dtype, blocks, SAMPLE_THREADS, p);
}

/* Adds up the parts of partial[which], rows by cols. */
static gram_status add_parts(struct sample_job *job, int which, int64_t rows, int64_t cols,
                             const struct sum_parts *parts)
{
    struct sample_params p = job->params;

    p.l.out = (int)rows;
    p.l.in = (int)cols;
    p.parts = (int)parts->count;
    p.add = job->op->accumulate;
    if (which == 0)
        p.weight = cuda_layer_output(&job->op->sum_weight);
    else
        p.bias = cuda_layer_output(&job->op->sum_bias);
    return launch(job, &sample_reduce, &p, gram_ceil_div(rows * cols, SAMPLE_THREADS));
}

/* How to cut sums so that `tiles` blocks a part fill the device. */
static struct sum_parts cut_sums(const struct sample_job *job, int64_t tiles, int64_t least)
{
    const struct gram_layer_op *l = &job->op->layer;
    const struct cuda_device *device = job->g->device;
    const int64_t all = l->samples * l->positions;
    int64_t parts = gram_ceil_div(BLOCKS_EACH * (int64_t)device->processors, gram_most(tiles, 1));
    struct sum_parts cut = {.count = 1, .length = gram_most(all, 1)};

    parts = gram_most(gram_least(parts, all / least), gram_ceil_div(all, INT32_MAX / 2));
    if (parts > 1) {
        cut.length = gram_ceil_div(all, parts);
        cut.count = gram_ceil_div(all, cut.length);
    }
    return cut;
}

/* Blocks of a sample of sample_blocks or sample_sums. */
static int64_t weight_tiles(const struct gram_layer_op *l)
{
    return l->groups * gram_ceil_div(l->out, SAMPLE_TILE) * gram_ceil_div(l->in, SAMPLE_TILE);
}

/* Blocks of a sample of sample_ghost: tiles of positions on and below the diagonal. */
static int64_t ghost_tiles(const struct gram_layer_op *l)
{
    int64_t tiles = gram_ceil_div(l->positions, SAMPLE_TILE);

    return l->groups * tiles * (tiles + 1) / 2;
}

/* ---- Biases and normalisations ------------------------------------------------------------- */

/* Features of all groups, for which biases and normalisations have one number each. */
static int64_t row_features(const struct sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    return job->params.affine ? l->out : l->out * l->groups;
}

static int64_t row_tiles(const struct sample_job *job)
{
    return gram_ceil_div(row_features(job), job->params.l.planes ? SAMPLE_THREADS / 32 : 32);
}

/* The parameters of rows: features of all groups. */
static struct sample_params row_params(const struct sample_job *job)
{
    struct sample_params p = job->params;

    p.l.out = (int)row_features(job);
    p.square_first = (int)job->product_squares;
    p.length = job->row_parts.length;
    return p;
}

static gram_status each_rows(struct sample_job *job)
{
    struct sample_params p = row_params(job);

    p.weight = cuda_layer_output(&job->op->weight);
    p.bias = cuda_layer_output(&job->op->bias);
    if (job->row_squares == 0)
        p.squares = NULL;
    return launch(job, &sample_affine, &p, job->op->layer.samples * row_tiles(job));
}

static gram_status sum_rows(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const int64_t features = row_features(job);
    struct sample_params p = row_params(job);

    p.weight = cuda_layer_output(&op->sum_weight);
    p.bias = cuda_layer_output(&op->sum_bias);
    TRY(launch(job, &sample_affine_sums, &p, job->row_parts.count * row_tiles(job)));
    if (p.affine && op->sum_weight.wanted)
        TRY(add_parts(job, 0, features, 1, &job->row_parts));
    return op->sum_bias.wanted ? add_parts(job, 1, features, 1, &job->row_parts) : GRAM_OK;
}

/* The bias of a product counts in its norm only if the layer has one. */
static void plan_rows(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;

    if (job->squares && (job->params.affine || op->layer.bias))
        job->row_squares = row_tiles(job);
    job->row_parts = cut_sums(job, row_tiles(job), LEAST_POSITIONS);
}

static const struct sample_family normalisations = {plan_rows, each_rows, sum_rows};

/* ---- Tensor cores ---------------------------------------------------------------------------- */

/* The farthest that an element of a sample lies from its first one. */
static double extent(const struct gram_axes *axes)
{
    double sum = 0;

    for (int d = 0; d < axes->ndim; d++)
        sum += (double)(axes->shape[d] - 1) * fabs((double)axes->stride[d]);
    return sum;
}

/* The same of an image of a convolution, with the padding around it. */
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
static void choose_mma(struct sample_job *job)
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
    p->a_wide = !l->patches && is_wide(&l->a, p->l.a_planes, l->in);
    p->g_wide = is_wide(&l->g, p->l.planes, l->out);
}

/* ---- Products ------------------------------------------------------------------------------ */

static void plan_products(struct sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    job->ghost = gram_sample_grad_is_ghost(job->op);
    choose_mma(job);
    if (job->squares && l->in > 0 && l->out > 0)
        job->product_squares = !job->ghost         ? weight_tiles(l)
                               : l->positions == 1 ? l->groups
                                                   : ghost_tiles(l);
    job->product_parts = cut_sums(job, weight_tiles(l), LEAST_TERMS);
    plan_rows(job);
}

/* Of every sample the weight's gradient, or its norm alone. */
static gram_status each_weight(struct sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;

    p.weight = cuda_layer_output(&job->op->weight);
    if (job->ghost && l->positions == 1)
        return launch(job, &sample_ghost_one, &p, l->samples * job->product_squares);
    if (job->ghost)
        return launch(job, job->mma ? &sample_mma_ghost : &sample_ghost, &p,
                      l->samples * job->product_squares);
    return launch(job, job->mma ? &sample_mma_blocks : &sample_blocks, &p,
                  l->samples * weight_tiles(l));
}

static gram_status each_products(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;

    if (op->layer.in > 0 && op->layer.out > 0 && (op->weight.wanted || job->squares))
        TRY(each_weight(job));
    return op->bias.wanted || job->row_squares > 0 ? each_rows(job) : GRAM_OK;
}

static gram_status sum_products(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const struct gram_layer_op *l = &op->layer;
    struct sample_params p = job->params;

    if (op->sum_weight.wanted && l->in > 0 && l->out > 0) {
        p.weight = cuda_layer_output(&op->sum_weight);
        p.add = op->accumulate;
        p.parts = (int)job->product_parts.count;
        p.length = job->product_parts.length;
        TRY(launch(job, &sample_sums, &p, p.parts * weight_tiles(l)));
        if (p.parts > 1)
            TRY(add_parts(job, 0, l->groups * l->out, l->in, &job->product_parts));
    }
    return op->sum_bias.wanted ? sum_rows(job) : GRAM_OK;
}

static const struct sample_family products = {plan_products, each_products, sum_products};

/* ---- Embeddings ----------------------------------------------------------------------------- */

static void plan_table(struct sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;

    job->product_squares = job->squares ? gram_least(TABLE_PARTS, l->positions) : 0;
    job->span = l->positions * gram_most(1, LINKED / gram_most(1, l->positions));
}

/* Writes zeros to tables, in which only some rows get a gradient. */
static gram_status fill_table(struct sample_job *job, const struct gram_layer_output *out,
                              int64_t samples)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;

    p.weight = cuda_layer_output(out);
    p.l.samples = (int)samples;
    return launch(job, &sample_fill, &p, gram_ceil_div(samples * l->in * l->out, SAMPLE_THREADS));
}

/* Links the positions of a span that have the same row. */
static gram_status link_rows(struct sample_job *job, int64_t span)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;
    int64_t all = l->samples * l->positions;

    p.span = (int)span;
    return span == 0 ? GRAM_OK
                     : launch(job, &sample_link, &p,
                              gram_ceil_div(all, span) * gram_ceil_div(span, SAMPLE_THREADS));
}

static gram_status each_table(struct sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    struct sample_params p = job->params;

    if (job->op->weight.wanted && l->in > 0)
        TRY(fill_table(job, &job->op->weight, l->samples));
    TRY(link_rows(job, l->positions));
    p.weight = cuda_layer_output(&job->op->weight);
    p.parts = (int)gram_least(TABLE_PARTS, l->positions);
    return launch(job, &sample_table, &p, l->samples * p.parts);
}

static gram_status sum_table(struct sample_job *job)
{
    const struct gram_layer_op *l = &job->op->layer;
    const int64_t all = l->samples * l->positions;
    struct sample_params p = job->params;

    if (!job->op->sum_weight.wanted)
        return GRAM_OK;
    if (!job->op->accumulate)
        TRY(fill_table(job, &job->op->sum_weight, 1));
    TRY(link_rows(job, job->span));
    p.weight = cuda_layer_output(&job->op->sum_weight);
    p.span = (int)job->span;
    for (int64_t first = 0; first < all; first += job->span, p.first++)
        TRY(launch(job, &sample_table_sums, &p, gram_least(job->span, all - first)));
    return GRAM_OK;
}

static const struct sample_family embeddings = {plan_table, each_table, sum_table};

/* ---- The call ------------------------------------------------------------------------------- */

static const struct sample_family *family_of(gram_layer_kind kind)
{
    static const struct sample_family *const families[] = {[GRAM_LAYER_LINEAR] = &products,
                                                           [GRAM_LAYER_CONVOLUTION] = &products,
                                                           [GRAM_LAYER_EMBEDDING] = &embeddings,
                                                           [GRAM_LAYER_NORM] = &normalisations,
                                                           [GRAM_LAYER_GROUP_NORM] =
                                                               &normalisations};

    return families[kind];
}

/* Takes count numbers of a size; false if that overflows. */
static bool take(struct gram_layout *layout, void *pointer, double count, size_t size)
{
    if (count * (double)size > (double)(INT64_MAX / 64))
        return false;
    gram_take(layout, pointer, gram_round64((size_t)count * size));
    return layout->bytes <= INT64_MAX / 4;
}

/* Gives kernels their places in scratch. */
static gram_status lay_out(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    const struct gram_layer_op *l = &op->layer;
    const double samples = (double)l->samples, squares = (double)job->params.square_count;
    const double positions = l->kind == GRAM_LAYER_EMBEDDING ? samples * (double)l->positions : 0;
    struct sample_params *p = &job->params;
    double moments = 0, weights = 0, biases = 0;
    struct gram_layout layout = {0};
    bool fits;

    if (p->affine)
        moments = 2 * samples * (double)(p->affine == 1 ? l->positions : l->groups);
    if (op->sum_weight.wanted && p->affine)
        weights = (double)job->row_parts.count * (double)l->out;
    else if (op->sum_weight.wanted && job->product_parts.count > 1)
        weights = (double)job->product_parts.count * (double)(l->groups * l->out) * (double)l->in;
    if (op->sum_bias.wanted)
        biases =
            (double)job->row_parts.count * (double)(p->affine ? 1 : l->groups) * (double)l->out;
    fits = take(&layout, &p->squares, job->squares ? samples * squares : 0, sizeof(double));
    fits = fits && take(&layout, &p->factors, samples, sizeof(double));
    fits = fits && take(&layout, &p->moments, moments, sizeof(double));
    fits = fits && take(&layout, &p->partial[0], weights, sizeof(double));
    fits = fits && take(&layout, &p->partial[1], biases, sizeof(double));
    fits = fits && take(&layout, &p->head, positions, sizeof(int));
    fits = fits && take(&layout, &p->next, positions, sizeof(int));
    if (!fits)
        return gram_fail(job->g, GRAM_INVALID_ARGUMENT, "the size of the scratch memory overflows");
    TRY(gram_layout_open(job->g, &layout));
    if (!job->squares)
        p->squares = NULL;
    return GRAM_OK;
}

static gram_status make_job(gram_context *g, const struct gram_sample_grad_op *op,
                            struct sample_job *job)
{
    const struct gram_layer_op *l = &op->layer;

    TRY(cuda_layer_check(g, l, INT32_MAX));
    *job = (struct sample_job){.g = g, .op = op};
    job->sums = op->sum_weight.wanted || op->sum_bias.wanted;
    job->squares = op->norms.wanted || (job->sums && op->clip > 0);
    job->each = op->weight.wanted || op->bias.wanted || job->squares;
    fill_params(job);
    family_of(l->kind)->plan(job);
    if (job->product_squares + job->row_squares > INT32_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of the scratch memory overflows");
    job->params.square_count = (int)(job->product_squares + job->row_squares);
    return GRAM_OK;
}

/* The norms of the samples, and from them what multiplies each sample's gradient in the sums. */
static gram_status find_factors(struct sample_job *job)
{
    const struct gram_sample_grad_op *op = job->op;
    struct sample_params p = job->params;

    p.norms = cuda_layer_output(&op->norms);
    p.coefficients = cuda_layer_output(&op->coefficients);
    if (!job->squares)
        p.square_count = 0;
    return launch(job, &sample_factors, &p, op->layer.samples);
}

/* Normalisations need the moments of what went in before anything else. */
static gram_status run(struct sample_job *job)
{
    const struct sample_family *family = family_of(job->op->layer.kind);

    TRY(lay_out(job));
    if (job->params.affine && (job->each || job->sums)) {
        const struct gram_layer_op *l = &job->op->layer;
        struct sample_params p = job->params;
        const int64_t blocks = p.affine == 1 ? gram_ceil_div(l->samples * l->positions, WARPS)
                                             : l->samples * l->groups;
        TRY(launch(job, &sample_moments, &p, blocks));
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
    struct sample_job job;
    gram_status status;
    bool entered;

    TRY(check_pointers(g, op));
    TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = run(&job);
    gram_cuda_leave(g->device, entered);
    return status;
}
