/*
 * cuda_shampoo.c - what is Shampoo's alone on the device: roots in batches, products of f32 by f16
 *
 * Factors of a kind that are due go to gram_matrix_power's driver together; a root that could not
 * be taken is seen in info, on the device, and leaves the previous one in place.  With options.skip
 * so does one that still fits, which the device finds out by products of cuBLAS.
 *
 * Directions of f32 are products on the tensor cores of f16, in three parts.  An operand is scaled
 * by a power of two, its own, to a norm below 2^15 and cut into a high and a low f16, 22 bits
 * together; what is left of a product is
 *   high high + high low + low high
 * (Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores, 2022).  The summed
 * index being the slowest in memory, the three are one product of three times the length: the left
 * operand lies there as low, high, high, the right one as high, high, low.  Statistics are not made
 * so: tensor cores round sums towards zero, which takes up to some 1e-5 off the diagonal of a Gram
 * matrix, and small eigenvalues become negative ones.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cuda_optimizer.h"

static const struct cuda_kernel optimizer_squares = {"optimizer_block.cu", "optimizer_squares"};
static const struct cuda_kernel optimizer_count_failures = {"optimizer_matrix.cu",
                                                            "optimizer_count_failures"};
static const struct cuda_kernel optimizer_store_roots = {"optimizer_matrix.cu",
                                                         "optimizer_store_roots"};
static const struct cuda_kernel optimizer_unpack_items = {"optimizer_matrix.cu",
                                                          "optimizer_unpack_items"};
static const struct cuda_kernel shampoo_cut = {"shampoo.cu", "shampoo_cut"};
static const struct cuda_kernel shampoo_fits = {"shampoo.cu", "shampoo_fits"};
static const struct cuda_kernel shampoo_largest = {"shampoo.cu", "shampoo_largest"};
static const struct cuda_kernel shampoo_shift = {"shampoo.cu", "shampoo_shift"};

enum {
    LEAST = 64, /* the shortest side that is worth parts of f16 */
    TENSOR_ARCH = 80,
    MOST_BLOCKS = 1 << 16,
    BATCH_BYTES = 1 << 28 /* of factors: enough to fill any device */
};

/* ---- Products by f16 ------------------------------------------------------------------------- */

bool cuda_shampoo_is_halved(const gram_context *g, const gram_optimizer *o,
                            const struct gram_optimizer_block *b, gram_dtype work)
{
    const struct cuda_device *device = g->device;
    bool wide = b->order > 1;

    for (int k = 0; k < b->order; k++)
        wide = wide && b->size[k] >= LEAST;
    return wide && work == GRAM_F32 && device->arch >= TENSOR_ARCH &&
           o->options.method == GRAM_SHAMPOO;
}

/* ---- Scratch --------------------------------------------------------------------------------- */

void cuda_shampoo_take_halves(const struct cuda_optimizer_kind *kind, struct gram_layout *l,
                              struct optimizer_params *p)
{
    const size_t wave = (size_t)kind->wave, part = wave * CUDA_OPTIMIZER_PARTS * sizeof(uint16_t);

    gram_take(l, &p->array_halves, part * (size_t)kind->array);
    gram_take(l, &p->matrix_halves, part * (size_t)kind->matrix);
    gram_take(l, &p->units, 2 * wave * sizeof(double));
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Of from, count numbers per item: its parts to to. */
static gram_status cut(const struct cuda_optimizer_job *job, const struct cuda_optimizer_kind *kind,
                       struct optimizer_params p, int64_t count, int what)
{
    p.cut = what;
    p.count = count;
    p.tiles = gram_ceil_div(count, OPTIMIZER_TILE);
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_squares, p.blocks * p.tiles, &p));
    return cuda_optimizer_launch(job, kind->work, &shampoo_cut, p.blocks * p.tiles, &p);
}

/* The array, or the matrix, in parts.  After the first product the array is what products have made
 * of one that was cut. */
static gram_status cut_array(struct cuda_optimizer_group *u)
{
    struct optimizer_params q = u->p;

    q.from = u->x;
    q.to = q.array_halves;
    return cut(u->job, u->kind, q, q.count, q.k > 0 ? OPTIMIZER_CUT_AGAIN : OPTIMIZER_CUT_ARRAY);
}

static gram_status cut_matrix(struct cuda_optimizer_group *u)
{
    struct optimizer_params q = u->p;

    q.from = q.matrix;
    q.to = q.matrix_halves;
    q.array = q.n * q.n;
    return cut(u->job, u->kind, q, q.array, OPTIMIZER_CUT_MATRIX);
}

gram_status cuda_shampoo_multiply_halves(struct cuda_optimizer_group *u,
                                         struct cuda_gemm_items gemm)
{
    const struct optimizer_params *p = &u->p;

    TRY(cut_array(u));
    TRY(cut_matrix(u));
    gemm.inputs = GRAM_F16;
    gemm.k *= 3;
    gemm.a.data = p->matrix_halves;
    gemm.a.stride = 3 * p->n * p->n;
    gemm.b.data = p->array_halves;
    gemm.b.stride = 3 * p->array;
    return gram_cuda_gemm_items(u->job->step.g, u->job->blas, &gemm);
}

/* ---- Roots that still fit -------------------------------------------------------------------- */

struct fit {
    const struct cuda_optimizer_job *job;
    const struct cuda_optimizer_kind *kind;
    struct shampoo_fit fit;
    struct cuda_blas *blas;
};

/* The scratch of mark_fitting. */
struct fit_scratch {
    struct gram_shampoo_product product;
    char *vectors;
    double *largest;
    void *blas;
};

static void take_fit(const struct cuda_optimizer_kind *kind, int64_t n, int64_t items,
                     struct gram_layout *l, struct fit_scratch *s)
{
    const size_t size = gram_dtype_size(kind->work), all = (size_t)(items * n * n);

    gram_take_many(l, &s->product.shifted, all, size);
    gram_take_many(l, &s->product.root, all, size);
    gram_take_many(l, &s->product.y, all, size);
    gram_take_many(l, &s->product.z, all, size);
    gram_take_many(l, &s->vectors, (size_t)(2 * items * n), size);
    gram_take_many(l, &s->largest, (size_t)items, sizeof(double));
    gram_take(l, &s->blas, CUDA_BLAS_BYTES);
}

static gram_status multiply(const void *of, const void *a, const void *b, void *to)
{
    const struct fit *run = of;
    const int64_t n = run->fit.n;
    struct cuda_gemm gemm = {
        .dtype = run->kind->work,
        .compute = gram_cuda_compute_of(run->kind->work),
        .n = n,
        .ld = n,
        .count = run->fit.items,
        .a = a,
        .b = b,
        .alpha = 1,
    };

    gemm.c = to;
    return gram_cuda_gemm(run->job->step.g, run->blas, &gemm);
}

static gram_status launch(struct fit *run, const struct cuda_kernel *kernel, int64_t blocks)
{
    return cuda_optimizer_launch(run->job, run->kind->work, kernel, blocks, &run->fit);
}

/* Sets r->kept of the items, whose factors r->a.matrix has, in memory of take_fit. */
static gram_status mark_fitting(const struct cuda_optimizer_job *job,
                                const struct cuda_optimizer_kind *kind,
                                const struct optimizer_roots *r, char *memory)
{
    const gram_optimizer_options *o = &job->step.o->options;
    const int64_t n = r->a.n, all = r->items * n * n;
    const struct gram_matrix_power_op op =
        gram_optimizer_power(job->step.o, kind->block, n, kind->work, r->items);
    struct fit run = {
        .job = job,
        .kind = kind,
        .fit = {.n = n,
                .items = r->items,
                .factor = r->a.matrix,
                .kept = r->kept,
                .epsilon = o->epsilon,
                .relative = o->epsilon_relative != 0,
                .least = cuda_matrix_power_least_ridge(job->step.g, &op),
                .skip = o->skip},
    };
    struct optimizer_roots roots = *r;
    struct gram_layout layout = {0};
    struct fit_scratch s;

    take_fit(kind, n, r->items, &layout, &s);
    gram_layout_place(&layout, memory);
    run.fit.matrix = s.product.shifted;
    run.fit.vectors = s.vectors;
    run.fit.largest = s.largest;
    roots.a.is_root = 1;
    roots.a.matrix = s.product.root;
    TRY(gram_cuda_blas(job->step.g, s.blas, &run.blas));
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_unpack_items,
                              r->items * cuda_optimizer_pairs(n), &roots));
    TRY(launch(&run, &shampoo_largest, r->items));
    TRY(launch(&run, &shampoo_shift,
               gram_least(gram_ceil_div(all, OPTIMIZER_THREADS), MOST_BLOCKS)));
    TRY(gram_shampoo_multiply(multiply, &run, kind->block, &s.product));
    run.fit.matrix = s.product.y;
    return launch(&run, &shampoo_fits, r->items);
}

/* ---- Scratch of roots ------------------------------------------------------------------------ */

/* A batch of roots of a kind: matrices, roots, what became of them, and what the roots take or,
 * before them, mark_fitting. */
struct batch {
    char *in, *out, *power;
    int32_t *info;
    int *kept;
    size_t power_bytes;
};

static gram_status take_batch(gram_context *g, const gram_optimizer *o,
                              const struct cuda_optimizer_kind *kind, int k, struct gram_layout *l,
                              struct batch *batch)
{
    const int64_t n = kind->block->size[k], bytes = n * n * (int64_t)gram_dtype_size(kind->work);
    const int64_t items = gram_least(kind->count, OPTIMIZER_ITEMS);
    const size_t count = (size_t)gram_least(items, BATCH_BYTES / bytes + 1);
    struct gram_matrix_power_op op =
        gram_optimizer_power(o, kind->block, n, kind->work, (int64_t)count);
    struct gram_layout fit = {0};
    struct fit_scratch s;

    TRY(gram_measure(g, &batch->power_bytes, cuda_matrix_power(g, &op)));
    if (o->options.skip > 0)
        take_fit(kind, n, (int64_t)count, &fit, &s);
    gram_take_many(l, &batch->in, count, (size_t)bytes);
    gram_take_many(l, &batch->out, count, (size_t)bytes);
    gram_take_many(l, &batch->info, count, sizeof(int32_t));
    gram_take_many(l, &batch->kept, count, sizeof(int));
    gram_take(l, &batch->power, gram_most_bytes(batch->power_bytes, fit.bytes));
    return GRAM_OK;
}

gram_status cuda_shampoo_bytes(gram_context *g, const gram_optimizer *o,
                               const struct cuda_optimizer_kind *kind, int k, size_t *bytes)
{
    struct gram_layout layout = {0};
    struct batch batch;

    TRY(take_batch(g, o, kind, k, &layout, &batch));
    *bytes = gram_layout_bytes(&layout);
    return GRAM_OK;
}

/* ---- Roots ----------------------------------------------------------------------------------- */

static gram_status take_power(gram_context *g, const struct gram_matrix_power_op *op, char *memory,
                              size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = cuda_matrix_power(g, op);
    gram_scratch_return(g, &before);
    return status;
}

/* Roots of dimension k of the items of a batch. */
static gram_status take_roots(const struct cuda_optimizer_job *job,
                              const struct cuda_optimizer_kind *kind, int k,
                              struct optimizer_roots *r)
{
    struct gram_layout layout = {0};
    struct batch batch;
    struct gram_matrix_power_op op;
    int64_t pairs;

    TRY(take_batch(job->step.g, job->step.o, kind, k, &layout, &batch));
    gram_layout_place(&layout, job->shared);
    cuda_optimizer_dimension(kind->block, k, &r->a);
    pairs = cuda_optimizer_pairs(r->a.n);
    op = gram_optimizer_power(job->step.o, kind->block, r->a.n, kind->work, r->items);
    op.a.data = r->a.matrix = batch.in;
    op.out.data = batch.out;
    op.info.data = (char *)batch.info;
    r->info = batch.info;
    TRY(cuda_optimizer_launch(job, kind->work, &optimizer_unpack_items, r->items * pairs, r));
    r->kept = NULL;
    if (job->step.o->options.skip > 0) {
        r->kept = batch.kept;
        TRY(mark_fitting(job, kind, r, batch.power));
    }
    TRY(take_power(job->step.g, &op, batch.power, batch.power_bytes));
    r->a.matrix = op.out.data;
    return cuda_optimizer_launch(job, kind->work, &optimizer_store_roots, r->items * pairs, r);
}

static bool is_due(const struct cuda_optimizer_job *job, const struct gram_optimizer_block *b)
{
    return job->step.op->gradients[b->parameter] && gram_optimizer_due_now(&job->step, b);
}

/* What a batch has room for, of every dimension. */
static int64_t least_batch(const struct cuda_optimizer_kind *kind)
{
    int64_t most = 1;

    for (int k = 0; k < kind->block->order; k++)
        most = gram_most(most, kind->block->size[k]);
    most = BATCH_BYTES / (most * most * (int64_t)gram_dtype_size(kind->work)) + 1;
    return gram_least(most, OPTIMIZER_ITEMS);
}

gram_status cuda_shampoo_refresh(const struct cuda_optimizer_job *job,
                                 const struct cuda_optimizer_kind *kind)
{
    struct optimizer_roots r = {.a = cuda_optimizer_wave(job, kind, 0, kind->count)};
    const int64_t *order = job->c->order + kind->first, room = least_batch(kind);

    for (int64_t next = 0; next < kind->count;) {
        for (r.items = 0; next < kind->count && r.items < room; next++)
            if (is_due(job, &job->step.o->block[order[next]]))
                r.item[r.items++] = (int)next;
        for (int k = 0; r.items > 0 && k < kind->block->order; k++)
            TRY(take_roots(job, kind, k, &r));
        if (r.items > 0)
            TRY(cuda_optimizer_launch(job, kind->work, &optimizer_count_failures,
                                      gram_ceil_div(r.items, OPTIMIZER_THREADS), &r));
    }
    return GRAM_OK;
}
