/*
 * cuda_eigh_krylov.c - few pairs of a large matrix by krylov.c: stored, a kernel, or products
 *
 * The calling thread looks at the numbers of every step and does the small eigenproblems itself,
 * by LAPACK: it is kept until the pairs are there, and nothing of it can be captured.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cuda_move.h"
#include "cuda_eigh.h"
#include "cuda_krylov.h"
#include "pairwise/cuda_cdist.h"
#include "pairwise/pairwise.h"
#include <math.h>

static const struct cuda_kernel krylov_product = {"krylov_symmetric.cu", "krylov_product"};
static const struct cuda_kernel krylov_sum = {"krylov_symmetric.cu", "krylov_sum"};

/* As struct krylov counts them, for an H200: a step of n = 10,000 takes 0.25 ms, most of it
 * whatever n, a small eigenproblem of n = 180 on the host 5. */
static const double small_flops = 16e3, step_flops = 1e9;

enum {
    MOST_BLOCKS = 1 << 16, /* beyond these, blocks loop */
    PRODUCT_BLOCKS = 1600, /* of krylov_product: twice as many as an H200 has at a time */
    MOST_PARTS = 10,       /* shares of a sum */
    MORE = 140,            /* vectors of a basis */
    FEW = 92 /* with a filter: small eigenproblems are kept small, at the price of restarts */
};

/* ---- Products of a stored matrix ------------------------------------------------------------- */

/* Products of one item of a stored matrix. */
struct cuda_symmetric {
    gram_context *g;
    const struct eigh_call *call;
    int64_t item;
    gram_dtype dtype;
    const void *a; /* of the item */
    char *sums;    /* scratch */
    double scale;  /* a power of 2: products are those of scale^2 A, out of danger */
};

/* Shares of the columns, from n alone: so that sums do not depend on the device. */
static void shares(int64_t n, int64_t *parts, int64_t *chunk)
{
    int64_t strips = gram_ceil_div(n, KRYLOV_ROWS);
    int64_t most = gram_least(gram_least(gram_ceil_div(PRODUCT_BLOCKS, strips), MOST_PARTS),
                              gram_ceil_div(n, KRYLOV_DEPTH));

    *chunk = gram_ceil_div(gram_ceil_div(n, most), KRYLOV_DEPTH) * KRYLOV_DEPTH;
    *parts = gram_ceil_div(n, *chunk);
}

/* Takes the scratch of products with a matrix of order n, of a->dtype. */
static void symmetric_take(struct cuda_symmetric *a, int64_t n, struct gram_layout *l)
{
    int64_t parts, chunk;

    shares(n, &parts, &chunk);
    gram_take_many(l, &a->sums, (size_t)(parts * n * KRYLOV_COLUMNS), gram_dtype_size(a->dtype));
}

/* A krylov_multiply; user is a struct cuda_symmetric. */
static gram_status symmetric_multiply(void *user, int64_t columns, const void *in, void *out)
{
    const struct cuda_symmetric *a = user;
    int64_t parts, chunk, n = a->call->n;
    struct krylov_product_params p = {
        .n = n,
        .columns = columns,
        .a = a->a,
        .row_stride = a->call->a.row_stride,
        .col_stride = a->call->a.col_stride,
        .x = in,
        .y = out,
        .sums = a->sums,
        .scale = a->scale,
    };

    shares(n, &parts, &chunk);
    p.parts = parts;
    p.chunk = chunk;
    TRY(cuda_launch_plain(a->g, &krylov_product, a->dtype, gram_ceil_div(n, KRYLOV_ROWS) * parts,
                          KRYLOV_PRODUCT, &p));
    return cuda_launch_plain(a->g, &krylov_sum, a->dtype,
                             gram_least(gram_ceil_div(n * columns, KRYLOV_THREADS), MOST_BLOCKS),
                             KRYLOV_THREADS, &p);
}

/* The largest magnitude of the triangle; not finite if one is not. */
static gram_status largest_of(const struct cuda_symmetric *a, double *largest)
{
    const struct cuda_device *device = a->g->device;
    const struct cuda_driver *driver = device->driver;
    double found[EIGH_PARTS];
    struct eigh_chunk_params p = {
        .call = *a->call,
        .begin = a->item,
        .items = 1,
        .largest = a->sums,
        .parts = gram_least(a->call->n, EIGH_PARTS),
    };
    size_t bytes = (size_t)p.parts * gram_dtype_size(a->dtype);

    TRY(cuda_eigh_launch(a->g, EIGH_SCAN, a->dtype, p.parts, 1, &p));
    TRY(gram_cuda_check(a->g, driver,
                        driver->memory_copy((CUdeviceptr)(uintptr_t)found,
                                            (CUdeviceptr)(uintptr_t)a->sums, bytes, device->stream),
                        "cuMemcpyAsync"));
    TRY(gram_cuda_check(a->g, driver, driver->stream_synchronize(device->stream),
                        "cuStreamSynchronize"));
    *largest = 0;
    for (int64_t i = 0; i < p.parts; i++) {
        double one =
            a->dtype == GRAM_F32 ? (double)((const float *)(const void *)found)[i] : found[i];
        *largest = isfinite(one) ? fmax(*largest, one) : INFINITY;
        if (!isfinite(one))
            break;
    }
    return GRAM_OK;
}

/* Chooses the scale, waiting for the device; *finite: the triangle holds neither NaN nor
 * infinity. */
static gram_status symmetric_prepare(struct cuda_symmetric *a, bool *finite)
{
    int exponent, far = a->dtype == GRAM_F32 ? 40 : 300;
    double largest;

    TRY(largest_of(a, &largest));
    *finite = isfinite(largest) != 0;
    a->scale = 1;
    if (!*finite)
        return GRAM_OK;
    frexp(largest, &exponent);
    if (largest > 0 && (exponent > far || exponent < -far))
        a->scale = ldexp(1, -exponent / 2);
    return GRAM_OK;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* What an item's products need, and where. */
struct source {
    gram_context *g;
    const struct cuda_eigh_plan *plan;
    struct cuda_symmetric stored;
    struct cuda_kernel_product product;
    char *in, *out; /* of an operator: by rows */
};

/* An item under way: the solver, its products, and on the host the values and the columns of V. */
struct work {
    struct krylov z;
    struct cuda_krylov d;
    struct source from;
    void *blas_memory;
    char *values;
    int32_t *order;
};

/* w->z is the problem of any item, its device in w. */
static void describe(gram_context *g, const struct cuda_eigh_plan *plan, struct work *w)
{
    const struct gram_eigh_op *op = plan->op;
    struct krylov z = gram_krylov_problem(g, op, plan->falls_back);

    z.ops = &cuda_krylov_ops;
    z.filters = true;
    z.more = MORE;
    z.few = FEW;
    z.small_flops = small_flops;
    z.step_flops = step_flops;
    z.block = gram_least(KRYLOV_COLUMNS, op->a.rows);
    gram_krylov_plan(&z);
    *w = (struct work){
        .z = z, .from = {.g = g, .plan = plan}
    };
    w->z.device = &w->d;
    w->from.stored.dtype = z.dtype;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Between columns one after the other and rows. */
static gram_status move(const struct source *from, int64_t columns, const void *in, void *out,
                        bool by_rows)
{
    const struct gram_view *a = &from->plan->op->a;
    const struct device_view one_by_one = {.row_stride = 1, .col_stride = a->rows};
    const struct device_view rows = {.row_stride = columns, .col_stride = 1};
    struct move_params p = {
        .count = 1,
        .rows = a->rows,
        .cols = columns,
        .from.view = by_rows ? one_by_one : rows,
        .to.view = by_rows ? rows : one_by_one,
        .alpha.value = 1,
    };

    p.from.view.data = (char *)in;
    p.to.view.data = out;
    return cuda_move(from->g, a->dtype, NULL, &p);
}

static gram_status multiply_operator(void *user, int64_t columns, const void *in, void *out)
{
    const struct source *from = user;
    const gram_operator *a = from->plan->op->apply;
    gram_tensor x = gram_matrix(from->in, a->n, columns, a->dtype);
    gram_tensor y = gram_matrix(from->out, a->n, columns, a->dtype);

    x.device = y.device = from->g->options.device;
    TRY(move(from, columns, in, from->in, true));
    TRY(a->apply(a->user, &x, &y));
    return move(from, columns, from->out, out, false);
}

static gram_status multiply_kernel(void *user, int64_t columns, const void *in, void *out)
{
    struct source *from = user;
    const struct gram_view *a = &from->plan->op->a;

    from->product.columns = columns;
    from->product.v = in;
    from->product.out = out;
    TRY(cuda_memory_zero(from->g, out, (size_t)(a->rows * columns) * gram_dtype_size(a->dtype)));
    return cuda_kernel_product(from->g, &from->product);
}

/* Takes the scratch of products and of cuBLAS. */
static void take_product(struct work *w, struct gram_layout *l)
{
    const struct gram_eigh_op *op = w->from.plan->op;
    const struct krylov *z = &w->z;
    const size_t vectors = (size_t)(z->n * z->block);

    gram_take(l, &w->blas_memory, CUDA_BLAS_BYTES);
    if (op->apply) {
        gram_take_many(l, &w->from.in, vectors, z->element);
        gram_take_many(l, &w->from.out, vectors, z->element);
    } else if (op->product) {
        struct cuda_kernel_product *p = &w->from.product;
        p->kernel = gram_cdist_alone(&op->product->kernel, 0);
        p->mirrors = true;
        p->dtype = z->dtype;
        p->columns = z->block;
        gram_take(l, &p->scratch, cuda_kernel_product_bytes(w->from.g, p));
    } else {
        symmetric_take(&w->from.stored, z->n, l);
    }
}

/* Brings the item to where z multiplies by it; *finite: it holds neither NaN nor infinity. */
static gram_status open_source(struct source *from, int64_t item, struct krylov *z, bool *finite)
{
    const struct gram_eigh_op *op = from->plan->op;
    const struct cuda_krylov *d = z->device;

    *finite = true;
    z->user = from;
    from->stored.scale = 1;
    if (op->apply) {
        z->multiply = multiply_operator;
        return GRAM_OK;
    }
    if (op->product) {
        z->multiply = multiply_kernel;
        from->product.kernel = gram_cdist_alone(&op->product->kernel, item);
        from->product.blas = d->blas;
        return GRAM_OK;
    }
    z->multiply = symmetric_multiply;
    z->user = &from->stored;
    from->stored.g = from->g;
    from->stored.call = &from->plan->call;
    from->stored.item = item;
    from->stored.a = gram_view_item(&op->a, &op->batch, item);
    return symmetric_prepare(&from->stored, finite);
}

/* ---- Results --------------------------------------------------------------------------------- */

static gram_status write_info(gram_context *g, const struct gram_eigh_op *op, int64_t item,
                              int32_t info)
{
    if (!op->has_info)
        return GRAM_OK;
    return cuda_memory_copy(g, gram_view_item(&op->info, &op->batch, item), &info, sizeof info);
}

/* Columns of from, or NaN where that is NULL, to the item of a tensor. */
static gram_status write_columns(gram_context *g, const struct gram_eigh_op *op,
                                 const struct gram_view *to, int64_t item,
                                 const struct device_view *from, const int *order)
{
    struct move_params p = {
        .count = 1,
        .rows = to->rows,
        .cols = op->count,
        .to.view = {.data = gram_view_item(to, &op->batch, item),
                    .row_stride = to->row_stride,
                    .col_stride = to->col_stride},
        .from.view = *from,
        .alpha.value = 1,
        .order = order,
        .fill = (double)NAN,
    };

    return cuda_move(g, op->a.dtype, NULL, &p);
}

static gram_status fail_item(gram_context *g, const struct gram_eigh_op *op, int64_t item,
                             int32_t info)
{
    const struct device_view nothing = {0};

    TRY(write_columns(g, op, &op->values, item, &nothing, NULL));
    if (op->has_vectors)
        TRY(write_columns(g, op, &op->vectors, item, &nothing, NULL));
    return write_info(g, op, item, info);
}

static gram_status store(gram_context *g, const struct gram_eigh_op *op, int64_t item,
                         struct work *w)
{
    struct krylov *z = &w->z;
    const double scale = w->from.stored.scale;
    const struct device_view values = {.data = (char *)w->d.values, .col_stride = 1};
    const struct device_view vectors = {.data = (char *)z->v, .row_stride = 1, .col_stride = z->n};

    gram_krylov_order(z, w->order);
    for (int64_t i = 0; i < z->k; i++) {
        double value = z->wanted[w->order[i]] / scale / scale;
        if (z->dtype == GRAM_F32)
            ((float *)(void *)w->values)[i] = (float)value;
        else
            ((double *)(void *)w->values)[i] = value;
    }
    TRY(cuda_krylov_send(z, w->values, w->order));
    TRY(write_columns(g, op, &op->values, item, &values, NULL));
    if (op->has_vectors)
        TRY(write_columns(g, op, &op->vectors, item, &vectors, w->d.order));
    return write_info(g, op, item, EIGH_INFO_DONE);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* An item by Xsyevdx. */
static struct gram_eigh_op dense_item(const struct gram_eigh_op *op, int64_t item)
{
    struct gram_eigh_op one = *op;

    one.batch = (struct gram_batch){.count = 1};
    one.a = gram_view_alone(&op->a, &op->batch, item);
    one.values = gram_view_alone(&op->values, &op->batch, item);
    one.vectors = gram_view_alone(&op->vectors, &op->batch, item);
    one.info = gram_view_alone(&op->info, &op->batch, item);
    one.driver = GRAM_EIGH_DRIVER_BISECTION;
    one.background = false;
    one.report = NULL;
    return one;
}

static gram_status run_dense(gram_context *g, const struct gram_eigh_op *op, int64_t item)
{
    const struct gram_eigh_op one = dense_item(op, item);
    struct cuda_eigh_plan plan;

    TRY(cuda_eigh_plan(g, &one, &plan));
    return cuda_eigh_bisection.run(g, &plan);
}

static gram_status fall_back(gram_context *g, const struct gram_eigh_op *op, int64_t item)
{
    if (op->report)
        op->report->dense++;
    return run_dense(g, op, item);
}

/* The host's memory of an item's work. */
static void take_host(struct work *w, struct gram_layout *l)
{
    gram_krylov_take(&w->z, l);
    cuda_krylov_take_staging(&w->z, l);
    gram_take_many(l, &w->values, (size_t)w->z.k, w->z.element);
    gram_take_many(l, &w->order, (size_t)w->z.k, sizeof(int32_t));
}

/* A query also asks for what an item takes that is given up; in a call that may grow the
 * scratch. */
static gram_status open_scratch(gram_context *g, struct work *w)
{
    const struct cuda_eigh_plan *plan = w->from.plan;
    struct gram_layout layout = {0}, own = {0};
    size_t bytes = 0;
    void *memory;

    w->z.ops->take(&w->z, &own);
    take_product(w, &own);
    if (g->measure && plan->falls_back)
        TRY(gram_measure(g, &bytes, run_dense(g, plan->op, 0)));
    if (plan->op->count > 0)
        bytes = gram_most_bytes(bytes, gram_layout_bytes(&own));
    gram_take(&layout, &memory, bytes);
    TRY(gram_layout_open(g, &layout));
    gram_layout_place(&own, memory);
    return GRAM_OK;
}

/* The pairs of an item; *info: what became of them, -1: it is to fall back. */
static gram_status solve_item(gram_context *g, const struct cuda_eigh_plan *plan, int64_t item,
                              char *host, int32_t *info)
{
    struct gram_layout layout = {0};
    struct work w;
    bool finite;

    describe(g, plan, &w);
    take_host(&w, &layout);
    gram_layout_place(&layout, host);
    cuda_krylov_place_staging(&w.z);
    TRY(open_scratch(g, &w));
    TRY(gram_cuda_blas(g, w.blas_memory, &w.d.blas));
    TRY(open_source(&w.from, item, &w.z, &finite));
    *info = EIGH_INFO_NOT_FINITE;
    if (!finite)
        return GRAM_OK;
    TRY(gram_krylov_run(&w.z));
    gram_krylov_report(&w.z, plan->op->report);
    if (w.z.not_finite)
        return GRAM_OK;
    *info = plan->falls_back ? -1 : EIGH_INFO_NOT_CONVERGED;
    if (!w.z.complete || w.z.converged < w.z.k)
        return GRAM_OK;
    *info = EIGH_INFO_DONE;
    return store(g, plan->op, item, &w);
}

static gram_status run_item(gram_context *g, const struct cuda_eigh_plan *plan, int64_t item,
                            char *host, int32_t *info)
{
    *info = EIGH_INFO_DONE;
    if (plan->op->count == 0)
        return write_info(g, plan->op, item, EIGH_INFO_DONE);
    TRY(solve_item(g, plan, item, host, info));
    if (*info < 0) {
        *info = EIGH_INFO_DONE;
        return fall_back(g, plan->op, item);
    }
    return *info == EIGH_INFO_DONE ? GRAM_OK : fail_item(g, plan->op, item, *info);
}

/* What a call says that was given no info: the first item that failed. */
static gram_status verdict(gram_context *g, int64_t item, int32_t info)
{
    if (info == EIGH_INFO_NOT_FINITE)
        return gram_fail(g, GRAM_NUMERICAL, "item %lld of a holds NaN or infinity",
                         (long long)item);
    return gram_fail(g, GRAM_NUMERICAL, "item %lld of a: block Lanczos did not converge",
                     (long long)item);
}

static gram_status run_items(gram_context *g, const struct cuda_eigh_plan *plan, char *host)
{
    int64_t failed = -1;
    int32_t info, why = EIGH_INFO_DONE;

    for (int64_t item = 0; item < plan->op->batch.count; item++) {
        TRY(run_item(g, plan, item, host, &info));
        if (info != EIGH_INFO_DONE && failed < 0) {
            failed = item;
            why = info;
        }
    }
    return failed < 0 || plan->op->has_info ? GRAM_OK : verdict(g, failed, why);
}

static gram_status check_capture(gram_context *g)
{
    bool capturing;

    TRY(gram_cuda_capturing(g, &capturing));
    if (capturing)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "block Lanczos reads its numbers in every step, so it cannot be captured "
                         "in a graph");
    return GRAM_OK;
}

/* A query goes no further than to the scratch, and needs no memory of the host. */
static gram_status run(gram_context *g, const struct cuda_eigh_plan *plan)
{
    struct gram_layout layout = {0};
    gram_status status;
    struct work w;
    size_t size;
    char *host;

    describe(g, plan, &w);
    if (g->measure)
        return open_scratch(g, &w);
    TRY(check_capture(g));
    take_host(&w, &layout);
    size = gram_layout_bytes(&layout);
    host = gram_alloc(g, size);
    if (!host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", size);
    status = run_items(g, plan, host);
    gram_free(g, host, size);
    return status;
}

static bool takes(const struct gram_eigh_op *op)
{
    return gram_krylov_takes(op) && op->a.rows <= INT32_MAX; /* cuBLAS counts in 32 bits */
}

const struct cuda_eigh_driver cuda_eigh_krylov = {"block Lanczos", takes, run};
