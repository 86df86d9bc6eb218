/*
 * cuda_kfac_factors.c - gram_kfac_factors on the device: tiles of X^T X, or cuBLAS where X lies as
 * a matrix
 *
 * Positions are split where tiles alone do not fill the device; the splits are added in a fixed
 * order.  An embedding's factor A counts rows.  Nothing waits: a row beside the table makes A NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cublas.h"
#include "cuda_kfac.h"
#include "factor_params.h"
#include "layer.h"

static const struct cuda_kernel factor_products = {"kfac_factors.cu", "factor_products"};
static const struct cuda_kernel factor_sums = {"kfac_factors.cu", "factor_sums"};
static const struct cuda_kernel factor_store = {"kfac_factors.cu", "factor_store"};
static const struct cuda_kernel factor_reduce = {"kfac_factors.cu", "factor_reduce"};
static const struct cuda_kernel factor_clear = {"kfac_factors.cu", "factor_clear"};
static const struct cuda_kernel factor_count = {"kfac_factors.cu", "factor_count"};
static const struct cuda_kernel factor_rows_store = {"kfac_factors.cu", "factor_rows_store"};

enum {
    BLOCKS_A_PROCESSOR = 6, /* that fit there side by side, and some more */
    LEAST_OF_A_SPLIT = 256, /* positions, so that a tile is worth what adding it costs */
    LEAST_OF_BLAS = 64,     /* features: of fewer, one tile holds all products */
    MOST_BLOCKS = 1 << 16,  /* of passes over elements: beyond these, blocks loop */
    MOST_TILES = 1 << 30
};

_Static_assert(FACTOR_DIMS == GRAM_MAX_DIMS, "factor_params.h repeats a number of gram.h");

/* One side's factors, of all groups. */
struct factor_job {
    gram_dtype dtype, inputs; /* inputs: of what cuBLAS multiplies */
    bool reduced, by_blas, table;
    struct factor_params first, p; /* first: of factor_reduce, whose result p is about */
    int64_t ld;                    /* by_blas: from a position to the next */
    size_t partial_at, sums_at, blas_at, bytes; /* in scratch, behind what is reduced */
};

/* ---- What the kernels are told -------------------------------------------------------------- */

static int type_of(gram_dtype dtype)
{
    static const int types[] = {
        [GRAM_F32] = FACTOR_F32,   [GRAM_F64] = FACTOR_F64, [GRAM_F16] = FACTOR_F16,
        [GRAM_BF16] = FACTOR_BF16, [GRAM_I32] = FACTOR_I32, [GRAM_I64] = FACTOR_I64,
    };

    return types[dtype];
}

static struct factor_axes axes_of(const struct gram_axes *a)
{
    struct factor_axes axes = {.ndim = a->ndim};

    for (int d = 0; d < a->ndim; d++) {
        axes.shape[d] = a->shape[d];
        axes.stride[d] = a->stride[d];
    }
    return axes;
}

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Features of a layer without patches have one stride: they are one dimension of a tensor. */
static struct factor_side side_of(const struct gram_layer_op *l, bool gradients)
{
    const struct gram_layer_side *s = gradients ? &l->g : &l->a;
    const int64_t feature = s->feature.ndim ? s->feature.stride[0] : 0;
    const int64_t features = gradients ? l->out : l->channels > 0 ? l->channels : l->in;
    struct factor_side x = {
        .data = s->data,
        .type = type_of(s->dtype),
        .sample_stride = s->sample_stride,
        .group_stride = features * feature,
        .feature_stride = feature,
        .position = axes_of(&s->position),
        .patches = l->patches && !gradients,
    };

    x.planes =
        x.patches || (s->position.ndim > 0 &&
                      magnitude(s->position.stride[s->position.ndim - 1]) < magnitude(feature));
    for (int i = 0; x.patches && i < 3; i++) {
        x.size[i] = l->size[i];
        x.size_stride[i] = l->size_stride[i];
        x.place[i] = l->place[i];
        x.kernel[i] = l->kernel[i];
        x.stride[i] = l->stride[i];
        x.padding[i] = l->padding[i];
        x.dilation[i] = l->dilation[i];
    }
    return x;
}

static struct factor_rows rows_of(const struct gram_layer_op *l)
{
    return (struct factor_rows){.data = l->a.data,
                                .type = type_of(l->a.dtype),
                                .sample_stride = l->a.sample_stride,
                                .position = axes_of(&l->a.position),
                                .rows = l->in,
                                .padding = l->padding_row < l->in ? l->padding_row : -1};
}

static struct factor_output output_of(const struct gram_layer_output *out)
{
    return (struct factor_output){.data = out->data,
                                  .group_stride = out->sample_stride,
                                  .row = axes_of(&out->row),
                                  .col = axes_of(&out->col)};
}

/* ---- The job -------------------------------------------------------------------------------- */

/* Samples as positions: what factor_reduce makes. */
static void reduce(struct factor_job *job, bool gradients)
{
    struct factor_params *p = &job->p;

    job->first = *p;
    job->first.mean = gradients || p->positions == 0 ? 1 : 1 / (double)p->positions;
    p->x = (struct factor_side){.type = type_of(job->dtype),
                                .sample_stride = p->features,
                                .group_stride = p->samples * p->features,
                                .feature_stride = 1};
    p->mask = (struct factor_rows){.padding = -1};
    p->count = p->samples;
    p->positions = 1;
}

/* A dtype that cuBLAS multiplies as it is; halves that are summed over positions no more are. */
static bool is_for_blas(gram_dtype dtype, const struct factor_job *job)
{
    return job->reduced || dtype == job->dtype ||
           (job->dtype == GRAM_F32 && (dtype == GRAM_F16 || dtype == GRAM_BF16));
}

/* X as rows without gaps in an order that cuBLAS takes. */
static bool is_matrix(const struct gram_layer_side *side, struct factor_job *job)
{
    const struct factor_params *p = &job->p;
    const struct factor_axes *position = &p->x.position;

    job->ld = position->ndim == 0 ? p->x.sample_stride : position->stride[0];
    return !p->x.patches && !p->mask.data && p->groups == 1 && p->features >= LEAST_OF_BLAS &&
           is_for_blas(side->dtype, job) && p->x.feature_stride == 1 && position->ndim <= 1 &&
           (position->ndim == 0 || p->samples == 1 ||
            p->x.sample_stride == position->shape[0] * position->stride[0]) &&
           job->ld >= p->features && job->ld <= INT32_MAX && p->count <= INT32_MAX &&
           p->features <= INT32_MAX;
}

static gram_status lay_out(gram_context *g, struct factor_job *job)
{
    const struct cuda_device *device = g->device;
    const size_t size = gram_dtype_size(job->dtype);
    struct factor_params *p = &job->p;
    int64_t order = p->features + p->ones, room, most;
    size_t reduced = 0, tiles;

    if (__builtin_mul_overflow(order, order, &room) ||
        __builtin_mul_overflow(room, p->groups, &room) || room > INT64_MAX / 64 ||
        __builtin_mul_overflow(p->samples * p->features, p->groups, &most) || most > INT64_MAX / 64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of a factor overflows");
    p->sides = gram_ceil_div(order, FACTOR_SIDE);
    p->pairs = p->sides * (p->sides + 1) / 2;
    room = job->by_blas ? gram_ceil_div(order, FACTOR_THREADS) : p->pairs * p->groups;
    room = gram_ceil_div((int64_t)device->processors * BLOCKS_A_PROCESSOR, gram_most(room, 1));
    p->splits = gram_most(1, gram_least(room, gram_ceil_div(p->count, LEAST_OF_A_SPLIT)));
    p->each = gram_ceil_div(gram_ceil_div(p->count, p->splits), FACTOR_BATCH) * FACTOR_BATCH;
    if (p->pairs > MOST_TILES / p->groups / p->splits)
        return gram_fail(g, GRAM_UNSUPPORTED, "a factor of order %lld is too large",
                         (long long)order);
    if (job->reduced)
        reduced = gram_round64((size_t)most * size);
    tiles = job->by_blas ? (size_t)(p->features * p->features)
                         : (size_t)(p->splits * p->groups * p->pairs * FACTOR_SIDE * FACTOR_SIDE);
    job->partial_at = reduced;
    job->sums_at = reduced + gram_round64(tiles * size);
    job->blas_at = job->sums_at;
    if (job->by_blas && p->ones)
        job->blas_at += gram_round64((size_t)(p->splits * p->features) * sizeof(double));
    job->bytes = job->blas_at + (job->by_blas ? CUDA_BLAS_BYTES : 0);
    if (p->scale == 0 || order == 0)
        job->bytes = 0;
    return GRAM_OK;
}

static gram_status make_job(gram_context *g, const struct gram_kfac_factors_op *op, bool gradients,
                            struct factor_job *job)
{
    const struct gram_layer_op *l = &op->layer;
    double weight = 1 - op->keep;

    *job = (struct factor_job){.dtype = l->dtype, .reduced = op->setting == GRAM_KFAC_REDUCE};
    job->p = (struct factor_params){
        .x = side_of(l, gradients),
        .mask.padding = -1,
        .groups = l->groups,
        .samples = l->samples,
        .positions = l->positions,
        .count = l->samples * l->positions,
        .features = gradients ? l->out : l->in,
        .ones = !gradients && l->bias,
        .out = output_of(gradients ? &op->b : &op->a),
        .keep = op->keep,
    };
    if (gradients && l->kind == GRAM_LAYER_EMBEDDING && l->padding_row >= 0)
        job->p.mask = rows_of(l);
    if (job->p.count == 0)
        weight = 0;
    if (job->reduced)
        reduce(job, gradients);
    if (weight != 0)
        job->p.scale = weight * (gradients ? op->scale * op->scale / (double)l->samples
                                           : 1 / (double)job->p.count);
    job->by_blas = is_matrix(gradients ? &l->g : &l->a, job);
    job->inputs = job->reduced ? job->dtype : gradients ? l->g.dtype : l->a.dtype;
    return lay_out(g, job);
}

/* An embedding's A. */
static gram_status make_table(gram_context *g, const struct gram_kfac_factors_op *op,
                              struct factor_job *job)
{
    const struct gram_layer_op *l = &op->layer;
    const double all = (double)l->samples * (double)l->positions;

    *job = (struct factor_job){.dtype = l->dtype, .table = true};
    job->p = (struct factor_params){
        .mask = rows_of(l),
        .samples = l->samples,
        .positions = l->positions,
        .count = l->samples * l->positions,
        .reduces = op->setting == GRAM_KFAC_REDUCE,
        .out = output_of(&op->a),
        .keep = op->keep,
    };
    if (all > 0)
        job->p.scale = (1 - op->keep) / all / (job->p.reduces ? (double)l->positions : 1);
    if (l->in > (INT64_MAX >> 8))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of a_factor overflows");
    job->bytes = gram_round64(((size_t)l->in + 1) * sizeof(unsigned long long));
    return GRAM_OK;
}

static gram_status make_jobs(gram_context *g, const struct gram_kfac_factors_op *op,
                             struct factor_job *a, struct factor_job *b, size_t *bytes)
{
    *a = *b = (struct factor_job){0};
    if (op->a.wanted)
        TRY(op->layer.kind == GRAM_LAYER_EMBEDDING ? make_table(g, op, a)
                                                   : make_job(g, op, false, a));
    if (op->b.wanted)
        TRY(make_job(g, op, true, b));
    *bytes = gram_most_bytes(a->bytes, b->bytes);
    return GRAM_OK;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static gram_status launch(gram_context *g, const struct factor_job *job,
                          const struct cuda_kernel *kernel, int64_t blocks,
                          const struct factor_params *p)
{
    return cuda_launch_plain(g, kernel, job->dtype, blocks, FACTOR_THREADS, (void *)p);
}

/* A pass over `elements` elements. */
static gram_status pass(gram_context *g, const struct factor_job *job,
                        const struct cuda_kernel *kernel, int64_t elements,
                        const struct factor_params *p)
{
    if (elements == 0)
        return GRAM_OK;
    return launch(g, job, kernel, gram_least(gram_ceil_div(elements, FACTOR_THREADS), MOST_BLOCKS),
                  p);
}

static gram_status by_blas(gram_context *g, struct factor_job *job, char *scratch)
{
    struct factor_params *p = &job->p;
    const struct cuda_gemm_side x = {p->x.data, job->ld, 0, false};
    struct cuda_gemm_items gemm = {.dtype = job->dtype,
                                   .inputs = job->inputs,
                                   .compute = gram_cuda_compute_of(job->dtype),
                                   .m = p->features,
                                   .n = p->features,
                                   .k = p->count,
                                   .count = 1,
                                   .a = x,
                                   .b = x,
                                   .c = p->partial,
                                   .ldc = p->features,
                                   .alpha = 1};
    struct cuda_blas *blas;

    gemm.b.transposed = true;
    p->product = p->partial;
    p->sums = (double *)(void *)(scratch + job->sums_at);
    TRY(gram_cuda_blas(g, scratch + job->blas_at, &blas));
    TRY(gram_cuda_gemm_items(g, blas, &gemm));
    if (!p->ones)
        return GRAM_OK;
    return launch(g, job, &factor_sums, gram_ceil_div(p->features, FACTOR_THREADS) * p->splits, p);
}

static gram_status run_job(gram_context *g, struct factor_job *job, char *scratch)
{
    struct factor_params *p = &job->p;
    const int64_t order = p->features + p->ones;

    if (order == 0)
        return GRAM_OK;
    if (p->scale != 0) {
        p->partial = scratch + job->partial_at;
        if (job->reduced) {
            job->first.reduced = scratch;
            p->x.data = scratch;
            TRY(pass(g, job, &factor_reduce, p->groups * p->samples * p->features, &job->first));
        }
        if (job->by_blas)
            TRY(by_blas(g, job, scratch));
        else
            TRY(launch(g, job, &factor_products, p->splits * p->groups * p->pairs, p));
    }
    return pass(g, job, &factor_store, p->groups * order * order, p);
}

static gram_status run_table(gram_context *g, struct factor_job *job, char *scratch)
{
    struct factor_params *p = &job->p;

    if (p->mask.rows == 0)
        return GRAM_OK;
    p->counts = (unsigned long long *)(void *)scratch;
    TRY(pass(g, job, &factor_clear, p->mask.rows + 1, p));
    TRY(pass(g, job, &factor_count, p->count, p));
    return pass(g, job, &factor_rows_store, p->mask.rows, p);
}

static gram_status run(gram_context *g, const struct gram_kfac_factors_op *op, struct factor_job *a,
                       struct factor_job *b, size_t bytes)
{
    void *scratch;

    TRY(gram_cuda_scratch(g, bytes, &scratch));
    if (op->a.wanted)
        TRY(a->table ? run_table(g, a, scratch) : run_job(g, a, scratch));
    return op->b.wanted ? run_job(g, b, scratch) : GRAM_OK;
}

static gram_status check_pointer(gram_context *g, const char *name, const char *data)
{
    const struct gram_view view = {.data = (char *)data};

    return data ? gram_cuda_check_pointer(g, name, &view) : GRAM_OK;
}

gram_status cuda_kfac_factors(gram_context *g, const struct gram_kfac_factors_op *op)
{
    const bool empty = op->layer.samples == 0 || op->layer.positions == 0;
    struct factor_job a, b;
    gram_status status;
    bool entered;
    size_t bytes;

    if (!empty) {
        TRY(check_pointer(g, "activations", op->layer.a.data));
        TRY(check_pointer(g, "gradients", op->layer.g.data));
    }
    TRY(check_pointer(g, "a_factor", op->a.data));
    TRY(check_pointer(g, "b_factor", op->b.data));
    TRY(make_jobs(g, op, &a, &b, &bytes));
    entered = gram_cuda_enter(g->device);
    status = run(g, op, &a, &b, bytes);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_kfac_factors_workspace(gram_context *g, const struct gram_kfac_factors_op *op,
                                        size_t *bytes)
{
    struct factor_job a, b;

    return make_jobs(g, op, &a, &b, bytes);
}
