/*
 * lengths.c - kernels with a length for each coordinate: x and y are divided by them in scratch
 *
 * What a backend gets are the quotients u = (x - c) / l and v = (y - c) / l, dense, in the dtype of
 * the arithmetic, so that no kernel knows of lengths.  For a function of differences c is the first
 * row of y, since x / l alone would round away what tells points from each other that are far from
 * the origin; for inner products and for expressions that have |x| or |y| it is 0.
 *
 * The chain rule gives the gradients:
 *   dK / dx = dK / du / l,   dK / dl = -(sum_i u dK / du + sum_j v dK / dv) / l.
 * The second holds for any c, since dK / du and dK / dv add up to 0 for a function of differences.
 *
 * Gradients are found in the dtype of the arithmetic.  Halves without lengths are widened in the
 * same way: divided by 1.
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <float.h>

/* ---- The argument --------------------------------------------------------------------------- */

gram_status gram_lengths_join(gram_context *g, const gram_tensor *lengths, struct gram_batch *batch)
{
    return lengths ? gram_batch_join(g, batch, "options.lengths", lengths, 1) : GRAM_OK;
}

static double length_at(const struct gram_view *v, const char *item, int64_t k)
{
    return v->dtype == GRAM_F32 ? (double)((const float *)item)[k * v->col_stride]
                                : ((const double *)item)[k * v->col_stride];
}

/* Goes through the items that have lengths of their own. */
static gram_status check_values(gram_context *g, const struct gram_batch *batch,
                                const struct gram_view *v)
{
    struct gram_batch own = *batch;

    own.count = 1;
    for (int d = 0; d < own.ndim; d++) {
        if (v->batch_stride[d] == 0 && own.shape[d] > 0)
            own.shape[d] = 1;
        own.count *= own.shape[d];
    }
    for (int64_t item = 0; item < own.count; item++) {
        const char *at = gram_view_item(v, &own, item);
        for (int64_t k = 0; k < v->cols; k++) {
            double length = length_at(v, at, k);
            if (!(length > 0 && length <= DBL_MAX))
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "options.lengths is %g for coordinate %lld, expected a finite "
                                 "number of more than 0",
                                 length, (long long)k);
        }
    }
    return GRAM_OK;
}

gram_status gram_lengths_view(gram_context *g, const gram_tensor *lengths, struct gram_cdist_op *op)
{
    const gram_dtype expected = op->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    struct gram_view *v = &op->lengths;

    if (!lengths)
        return GRAM_OK;
    TRY(gram_view_of(g, &op->batch, "options.lengths", lengths, 1, GRAM_READ, v));
    if (v->dtype != expected)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT, "options.lengths has dtype %s, expected %s for x in %s",
            gram_dtype_name(v->dtype), gram_dtype_name(expected), gram_dtype_name(op->x.dtype));
    if (v->cols != op->x.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.lengths has %lld elements, expected one for each of the %lld "
                         "columns of x",
                         (long long)v->cols, (long long)op->x.cols);
    if (!v->data || v->cols == 0 || g->options.device.type != GRAM_CPU)
        return GRAM_OK; /* there are none, or they cannot be read here: the backend gives NaN */
    return check_values(g, &op->batch, v);
}

/* ---- The quotients -------------------------------------------------------------------------- */

/* Points in scratch.  Along a dimension in which neither x nor y nor the lengths differ, the
 * quotients are there once; `own` has size 1 there. */
struct divided {
    struct gram_batch own;
    struct gram_view x, y;
};

static bool differ(const struct gram_cdist_op *op, int d)
{
    return op->x.batch_stride[d] != 0 || op->y.batch_stride[d] != 0 ||
           op->lengths.batch_stride[d] != 0;
}

/* Where the quotients of v will be.  Strides are 0 in a batch that is empty, or has more elements
 * than can be counted, of which there will be no scratch. */
static struct gram_view dense_of(const struct divided *d, const struct gram_view *v)
{
    const gram_dtype dtype = v->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    struct gram_view dense = gram_view_dense(NULL, dtype, v->rows, v->cols);
    int64_t stride, whole;

    if (d->own.count == 0 || __builtin_mul_overflow(v->rows, v->cols, &stride) ||
        __builtin_mul_overflow(stride, d->own.count, &whole))
        return dense;
    for (int i = d->own.ndim - 1; i >= 0; stride *= d->own.shape[i], i--)
        dense.batch_stride[i] = d->own.shape[i] == 1 ? 0 : stride;
    return dense;
}

static struct divided plan(const struct gram_cdist_op *op)
{
    struct divided d = {.own = op->batch};

    d.own.count = 1;
    for (int i = 0; i < d.own.ndim; i++) {
        if (!differ(op, i) && d.own.shape[i] > 0)
            d.own.shape[i] = 1;
        d.own.count *= d.own.shape[i];
    }
    d.x = dense_of(&d, &op->x);
    d.y = dense_of(&d, &op->y);
    return d;
}

static void take_points(struct gram_layout *l, const struct divided *d, struct gram_view *v)
{
    int64_t elements;

    if (__builtin_mul_overflow(v->rows, v->cols, &elements) ||
        __builtin_mul_overflow(elements, d->own.count, &elements))
        elements = INT64_MAX;
    gram_take_many(l, &v->data, (size_t)elements, gram_dtype_size(v->dtype));
}

static void take(struct gram_layout *l, const struct gram_cdist_op *op, struct divided *d)
{
    take_points(l, d, &d->x);
    if (!op->symmetric)
        take_points(l, d, &d->y);
}

/* True if a call has points of another dtype than that of its arithmetic. */
static bool has_halves(const struct gram_cdist_op *op)
{
    return op->x.dtype == GRAM_F16 || op->x.dtype == GRAM_BF16;
}

/* The kernel of the quotients. */
static void put(const struct divided *d, struct gram_cdist_op *kernel)
{
    kernel->x = d->x;
    kernel->y = kernel->symmetric ? d->x : d->y;
    kernel->lengths = (struct gram_view){0};
}

void gram_lengths_settle(struct gram_cdist_op *kernel)
{
    const struct divided d = plan(kernel);

    if (kernel->lengths.data)
        put(&d, kernel);
}

/* Fills in the quotients of the points of op. */
static gram_status divide(gram_context *g, const struct gram_cdist_op *op, const struct divided *d)
{
    struct gram_lengths_divide_op work = {
        .name = "x", .batch = d->own, .in = op->x, .out = d->x, .lengths = op->lengths};

    if (op->lengths.data && op->inner == GRAM_DIFFERENCE && op->y.rows > 0 &&
        !(op->expression && op->expression->of_norms))
        work.centre = gram_view_rows(&op->y, 0, 1);
    TRY(g->backend->lengths_divide(g, &work));
    if (op->symmetric)
        return GRAM_OK;
    work.name = "y", work.in = op->y, work.out = d->y;
    return g->backend->lengths_divide(g, &work);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* Runs a part of a call in a piece of the call's scratch. */
static gram_status run_in(gram_context *g, gram_status (*run)(gram_context *g, const void *work),
                          const void *work, void *memory, size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = run(g, work);
    gram_scratch_return(g, &before);
    return status;
}

gram_status gram_lengths_call(gram_context *g, struct gram_cdist_op *kernel,
                              gram_status (*run)(gram_context *g, const void *work),
                              const void *work)
{
    const struct gram_cdist_op given = *kernel;
    struct gram_layout layout = {0};
    struct divided d;
    size_t bytes;
    void *lent;

    if (!given.lengths.data)
        return run(g, work);
    d = plan(&given);
    put(&d, kernel);
    TRY(gram_measure(g, &bytes, run(g, work)));
    take(&layout, &given, &d);
    gram_take(&layout, &lent, bytes);
    TRY(gram_layout_open(g, &layout));
    put(&d, kernel);
    TRY(divide(g, &given, &d));
    return run_in(g, run, work, lent, bytes);
}

/* ---- Gradients ------------------------------------------------------------------------------ */

static gram_status run_vjp(gram_context *g, const void *work)
{
    const struct gram_kernel_vjp_op *op = work;

    if (op->soft.what)
        return gram_reduce_vjp_run(g, op);
    return op->of_product ? gram_matmul_vjp_run(g, op) : g->backend->kernel_vjp(g, op);
}

static gram_status run_grad(gram_context *g, const void *work)
{
    return g->backend->lengths_grad(g, work);
}

/* The gradients to the quotients go where those of the points will be, or to scratch. */
struct length_job {
    struct gram_kernel_vjp_op inner; /* of the quotients */
    struct gram_lengths_grad_op grad;
    struct divided d;
    size_t bytes; /* lent to the parts */
    void *lent;
};

static void take_gradient(struct gram_layout *l, const struct gram_batch *batch,
                          struct gram_view *v, const struct gram_view *points)
{
    const struct divided whole = {.own = *batch};

    *v = dense_of(&whole, points);
    take_points(l, &whole, v);
}

static void lay_gradients(struct gram_layout *l, const struct gram_kernel_vjp_op *op,
                          struct length_job *job)
{
    const struct gram_batch *batch = &op->kernel.batch;

    if (!op->want_lengths)
        return;
    if (!op->want_x)
        take_gradient(l, batch, &job->inner.x, &op->kernel.x);
    job->inner.want_x = true;
    if (op->whole)
        return; /* x has all */
    if (!op->want_y)
        take_gradient(l, batch, &job->inner.y, &op->kernel.y);
    job->inner.want_y = true;
}

static void describe_grad(const struct gram_kernel_vjp_op *op, struct length_job *job)
{
    job->grad = (struct gram_lengths_grad_op){.batch = op->kernel.batch,
                                              .x = job->inner.kernel.x,
                                              .to_x = job->inner.x,
                                              .y = job->inner.kernel.y,
                                              .to_y = job->inner.y,
                                              .lengths = op->kernel.lengths,
                                              .out = op->lengths};
    if (op->whole)
        job->grad.y.rows = job->grad.to_y.rows = 0;
}

static gram_status open_job(gram_context *g, const struct gram_kernel_vjp_op *op,
                            struct length_job *job)
{
    struct gram_layout layout = {0};
    size_t bytes;

    *job = (struct length_job){.inner = *op, .d = plan(&op->kernel)};
    put(&job->d, &job->inner.kernel);
    lay_gradients(&layout, op, job);
    TRY(gram_measure(g, &job->bytes, run_vjp(g, &job->inner)));
    if (op->want_lengths) {
        describe_grad(op, job);
        TRY(gram_measure(g, &bytes, run_grad(g, &job->grad)));
        job->bytes = gram_most_bytes(job->bytes, bytes);
    }
    take(&layout, &op->kernel, &job->d);
    gram_take(&layout, &job->lent, job->bytes);
    TRY(gram_layout_open(g, &layout));
    put(&job->d, &job->inner.kernel);
    describe_grad(op, job);
    return GRAM_OK;
}

/* From the gradient to quotients to that of points, in place. */
static gram_status divide_gradient(gram_context *g, const struct gram_kernel_vjp_op *op,
                                   const struct gram_view *to)
{
    const struct gram_lengths_divide_op work = {
        .batch = op->kernel.batch, .in = *to, .out = *to, .lengths = op->kernel.lengths};

    return g->backend->lengths_divide(g, &work);
}

gram_status gram_lengths_vjp(gram_context *g, struct gram_kernel_vjp_op *op)
{
    struct length_job job;

    if (!op->kernel.lengths.data && !has_halves(&op->kernel))
        return run_vjp(g, op);
    TRY(open_job(g, op, &job));
    TRY(divide(g, &op->kernel, &job.d));
    TRY(run_in(g, run_vjp, &job.inner, job.lent, job.bytes));
    if (op->want_lengths)
        TRY(run_in(g, run_grad, &job.grad, job.lent, job.bytes));
    if (!op->kernel.lengths.data)
        return GRAM_OK;
    if (op->want_x)
        TRY(divide_gradient(g, op, &op->x));
    return op->want_y ? divide_gradient(g, op, &op->y) : GRAM_OK;
}
