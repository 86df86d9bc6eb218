/*
 * cuda_kfac_factors.c - gram_kfac_factors on the device: tiles of X^T X, or cuBLAS where X lies as
 * a matrix
 *
 * Positions are split where tiles alone do not fill the device; the splits are added in a fixed
 * order.  An embedding's factor A counts rows.  Nothing waits: a row beside the table makes A NaN.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "cuda_layer.h"

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

/* One side's factors, of all groups. */
struct factor_job {
    gram_dtype dtype, inputs; /* inputs: of what cuBLAS multiplies */
    bool reduced, by_blas, table;
    int64_t samples, groups;
    struct factor_params first, p; /* first: of factor_reduce, whose result p is about */
    int64_t ld;                    /* by_blas: from a position to the next */
    size_t partial_at, sums_at, blas_at, bytes; /* in scratch, behind what is reduced */
};

/* ---- The job -------------------------------------------------------------------------------- */

/* Samples as positions: what factor_reduce makes. */
static void reduce(struct factor_job *job, bool gradients)
{
    struct factor_params *p = &job->p;
    const bool grouped = job->groups > 1;

    job->first = *p;
    job->first.mean = gradients || p->l.positions == 0 ? 1 : 1 / (double)p->l.positions;
    p->l.a = (struct layer_side){
        .dtype = DEVICE_REAL,
        .sample_stride = p->features,
        .feature.ndim = grouped ? 2 : 1,
        .feature.shape = {grouped ? (int)job->groups : (int)p->features, (int)p->features},
        .feature.stride = {     grouped ? job->samples * p->features : 1,                1},
    };
    p->l.patches = 0;
    p->l.positions = 1;
    p->masked = p->planes = 0;
    p->count = job->samples;
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
    const struct layer_side *x = &p->l.a;
    const struct layer_axes *position = &x->position;

    job->ld = position->ndim == 0 ? x->sample_stride : position->stride[0];
    return !p->l.patches && !p->masked && job->groups == 1 && p->features >= LEAST_OF_BLAS &&
           is_for_blas(side->dtype, job) && x->feature.stride[0] == 1 && position->ndim <= 1 &&
           (position->ndim == 0 || job->samples == 1 ||
            x->sample_stride == position->shape[0] * position->stride[0]) &&
           job->ld >= p->features && job->ld <= INT32_MAX && p->count <= INT32_MAX &&
           p->features <= INT32_MAX;
}

/* Cuts the positions into splits and says where in scratch each result lies.  Behind what is
 * reduced come the tiles of all splits, or cuBLAS's product, then sums of columns, then the memory
 * of cuBLAS. */
static gram_status lay_out(gram_context *g, struct factor_job *job)
{
    const struct cuda_device *device = g->device;
    const size_t size = gram_dtype_size(job->dtype);
    struct factor_params *p = &job->p;
    int64_t order = p->features + p->ones, room, most;
    size_t reduced = 0, tiles;

    if (__builtin_mul_overflow(order, order, &room) ||
        __builtin_mul_overflow(room, job->groups, &room) || room > INT64_MAX / 64 ||
        __builtin_mul_overflow(job->samples * p->features, job->groups, &most) ||
        most > INT64_MAX / 64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of a factor overflows");
    p->sides = gram_ceil_div(order, FACTOR_SIDE);
    p->pairs = p->sides * (p->sides + 1) / 2;
    room = job->by_blas ? gram_ceil_div(order, FACTOR_THREADS) : p->pairs * job->groups;
    room = gram_ceil_div((int64_t)device->processors * BLOCKS_A_PROCESSOR, gram_most(room, 1));
    p->splits = gram_most(1, gram_least(room, gram_ceil_div(p->count, LEAST_OF_A_SPLIT)));
    p->each = gram_ceil_div(gram_ceil_div(p->count, p->splits), FACTOR_BATCH) * FACTOR_BATCH;
    if (p->pairs > MOST_TILES / job->groups / p->splits)
        return gram_fail(g, GRAM_UNSUPPORTED, "a factor of order %lld is too large",
                         (long long)order);
    if (job->reduced)
        reduced = gram_round64((size_t)most * size);
    tiles = job->by_blas ? (size_t)(p->features * p->features)
                         : (size_t)(p->splits * job->groups * p->pairs * FACTOR_SIDE * FACTOR_SIDE);
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

/* A factor from products: B from the gradients, or A. */
static gram_status make_job(gram_context *g, const struct gram_kfac_factors_op *op, bool gradients,
                            struct factor_job *job)
{
    const struct gram_layer_op *l = &op->layer;
    double weight = 1 - op->keep;

    *job = (struct factor_job){.dtype = l->dtype,
                               .reduced = op->setting == GRAM_KFAC_REDUCE,
                               .samples = l->samples,
                               .groups = l->groups};
    job->p = (struct factor_params){
        .l = cuda_layer_params(l),
        .masked = gradients && l->kind == GRAM_LAYER_EMBEDDING && l->padding_row >= 0,
        .count = l->samples * l->positions,
        .features = gradients ? l->out : l->in,
        .ones = !gradients && l->bias,
        .out = cuda_layer_output(gradients ? &op->b : &op->a),
        .keep = op->keep,
    };
    job->p.planes = gradients ? job->p.l.planes : l->patches || job->p.l.a_planes;
    if (gradients) { /* they are what is multiplied: see struct factor_params */
        const struct layer_side rows = job->p.l.a;
        job->p.l.a = job->p.l.g;
        job->p.l.g = rows;
        job->p.l.in = job->p.l.out;
        job->p.l.patches = 0;
    }
    if (job->p.count == 0)
        weight = 0;
    if (job->reduced)
        reduce(job, gradients);
    if (weight != 0)
        job->p.scale = weight * (gradients ? op->scale * op->scale / (double)l->samples
                                           : 1 / (double)job->p.count);
    job->by_blas = is_matrix(gradients ? &l->g : &l->a, job);
    job->inputs = job->reduced ? job->dtype : gradients ? l->g.dtype : l->a.dtype;
    TRY(lay_out(g, job));
    return cuda_layer_check(g, l, INT64_MAX);
}

/* An embedding's A, which is diagonal: how often each row of its table goes in. */
static gram_status make_table(gram_context *g, const struct gram_kfac_factors_op *op,
                              struct factor_job *job)
{
    const struct gram_layer_op *l = &op->layer;
    const double all = (double)l->samples * (double)l->positions;

    *job = (struct factor_job){.dtype = l->dtype, .table = true};
    job->p = (struct factor_params){
        .l = cuda_layer_params(l),
        .count = l->samples * l->positions,
        .reduces = op->setting == GRAM_KFAC_REDUCE,
        .out = cuda_layer_output(&op->a),
        .keep = op->keep,
    };
    job->p.l.g = job->p.l.a;
    if (all > 0)
        job->p.scale = (1 - op->keep) / all / (job->p.reduces ? (double)l->positions : 1);
    if (l->in > (INT64_MAX >> 8))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of a_factor overflows");
    job->bytes = gram_round64(((size_t)l->in + 1) * sizeof(unsigned long long));
    return cuda_layer_check(g, l, INT64_MAX);
}

/* Both factors take turns in one scratch of *bytes. */
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

/* Launches a pass over this many elements; with very many of them, its blocks loop. */
static gram_status pass(gram_context *g, const struct factor_job *job,
                        const struct cuda_kernel *kernel, int64_t elements,
                        const struct factor_params *p)
{
    if (elements == 0)
        return GRAM_OK;
    return launch(g, job, kernel, gram_least(gram_ceil_div(elements, FACTOR_THREADS), MOST_BLOCKS),
                  p);
}

/* X^T X by cuBLAS.  The feature that is 1 has no column in X: its products are the sums of the
 * others, which a kernel makes. */
static gram_status by_blas(gram_context *g, struct factor_job *job, char *scratch)
{
    struct factor_params *p = &job->p;
    const struct cuda_gemm_side x = {p->l.a.data, job->ld, 0, false};
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

/* Where the scale is 0, as it is without samples, the factor is keep times what it was. */
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
            p->l.a.data = scratch;
            TRY(pass(g, job, &factor_reduce, job->groups * job->samples * p->features,
                     &job->first));
        }
        if (job->by_blas)
            TRY(by_blas(g, job, scratch));
        else
            TRY(launch(g, job, &factor_products, p->splits * job->groups * p->pairs, p));
    }
    return pass(g, job, &factor_store, job->groups * order * order, p);
}

/* Counts are whole numbers, so that the order in which blocks add to them does not matter. */
static gram_status run_table(gram_context *g, struct factor_job *job, char *scratch)
{
    struct factor_params *p = &job->p;

    if (p->l.in == 0)
        return GRAM_OK;
    p->counts = (unsigned long long *)(void *)scratch;
    TRY(pass(g, job, &factor_clear, p->l.in + 1, p));
    TRY(pass(g, job, &factor_count, p->count, p));
    return pass(g, job, &factor_rows_store, p->l.in, p);
}

static gram_status run(gram_context *g, const struct gram_kfac_factors_op *op, struct factor_job *a,
                       struct factor_job *b, size_t bytes)
{
    struct gram_layout layout = {0};
    char *scratch; /* of A, and then of B */

    gram_take(&layout, &scratch, bytes);
    TRY(gram_layout_open(g, &layout));
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
