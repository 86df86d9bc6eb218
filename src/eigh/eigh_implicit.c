/*
 * eigh_implicit.c - gram_eigh_operator and gram_eigh_kernel: check the arguments, describe the work
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "eigh.h"
#include "pairwise/pairwise.h"
#include <math.h>
#include <string.h>

gram_status gram_eigh_check_krylov(gram_context *g, const gram_eigh_options *o)
{
    if (!(o->tolerance >= 0) || o->tolerance > 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.tolerance is %g, expected 0 to 1",
                         o->tolerance);
    if (o->products < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.products is %lld, expected 0 or more",
                         (long long)o->products);
    if (o->report && o->report->size < sizeof o->report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.report has size %zu, expected sizeof(gram_eigh_report)",
                         o->report->size);
    return GRAM_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of LAPACK */
static int small_eigh(int64_t n, double *a, int64_t ld, double *w, double *work, int64_t lwork,
                      int32_t *iwork, int64_t liwork)
{
    gram_blas_one_thread();
    return gram_blas_syevd(GRAM_F64, GRAM_UPPER, n, a, ld, w, work, lwork, iwork, liwork);
}

static const struct gram_small_eigh lapack = {gram_blas_syevd_sizes, small_eigh};

void gram_eigh_krylov(const gram_eigh_options *o, gram_eigh_report *report, struct gram_eigh_op *op)
{
    op->driver = o->driver;
    op->background = o->background != 0;
    op->tolerance = o->tolerance;
    op->products = o->products;
    op->seed = o->seed;
    op->small_eigh = &lapack;
    op->report = report;
}

gram_status gram_eigh_ended(gram_context *g, gram_status status, const gram_eigh_options *given,
                            const gram_eigh_report *report)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    size_t size;

    if (given && (status == GRAM_OK || status == GRAM_NUMERICAL)) {
        memcpy(&o, given, given->size);
        if (o.report) {
            size = o.report->size;
            memcpy(o.report, report, size < sizeof *report ? size : sizeof *report);
            o.report->size = size;
        }
    }
    return gram_call_ended(g, status);
}

/* What the calls and the queries are given. */
struct implicit_args {
    const gram_eigh_options *options;
    const gram_tensor *values, *vectors, *info;
    const gram_tensor *x; /* of a kernel; else NULL */
    const gram_kernel_options *kernel;
};

static gram_status check_options(gram_context *g, const gram_eigh_options *o)
{
    if (o->select != GRAM_EIGH_LARGEST && o->select != GRAM_EIGH_SMALLEST)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.select is %d, expected GRAM_EIGH_LARGEST or GRAM_EIGH_SMALLEST",
                         (int)o->select);
    if (o->driver != GRAM_EIGH_DRIVER_AUTO && o->driver != GRAM_EIGH_DRIVER_KRYLOV)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.driver is %d, expected GRAM_EIGH_DRIVER_AUTO or "
                         "GRAM_EIGH_DRIVER_KRYLOV",
                         (int)o->driver);
    if (o->found)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.found is given, expected NULL unless options.select is "
                         "GRAM_EIGH_VALUE");
    return gram_eigh_check_krylov(g, o);
}

/* An output: that it has the dtype and is apart from x and the weights of a metric. */
static gram_status check_output(gram_context *g, const struct implicit_args *args, const char *name,
                                const gram_tensor *t, gram_dtype dtype)
{
    TRY(gram_check_dtype(g, name, t, dtype));
    if (!args->x)
        return GRAM_OK;
    TRY(gram_check_apart(g, name, t, "x", args->x));
    return gram_metric_check_apart(g, args->kernel, name, t);
}

static gram_status view_outputs(gram_context *g, const struct implicit_args *args,
                                struct gram_eigh_op *op)
{
    const gram_tensor *values = args->values, *vectors = args->vectors, *info = args->info;

    TRY(gram_view_of(g, &op->batch, "values", values, 1, GRAM_WRITE, &op->values));
    TRY(check_output(g, args, "values", values, op->a.dtype));
    if (op->values.cols != op->count)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "values has %lld elements, expected %lld",
                         (long long)op->values.cols, (long long)op->count);
    if (vectors) {
        op->has_vectors = true;
        TRY(gram_view_of(g, &op->batch, "vectors", vectors, 2, GRAM_WRITE, &op->vectors));
        TRY(check_output(g, args, "vectors", vectors, op->a.dtype));
        if (op->vectors.rows != op->a.rows || op->vectors.cols != op->count)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "vectors is %lld by %lld, expected %lld by %lld",
                             (long long)op->vectors.rows, (long long)op->vectors.cols,
                             (long long)op->a.rows, (long long)op->count);
        TRY(gram_check_apart(g, "vectors", vectors, "values", values));
    }
    if (!info)
        return GRAM_OK;
    op->has_info = true;
    TRY(gram_view_of(g, &op->batch, "info", info, 0, GRAM_WRITE, &op->info));
    TRY(check_output(g, args, "info", info, GRAM_I32));
    TRY(gram_check_apart(g, "info", info, "values", values));
    return vectors ? gram_check_apart(g, "info", info, "vectors", vectors) : GRAM_OK;
}

/* op->batch and the shape of op->a are set. */
static gram_status describe(gram_context *g, const struct implicit_args *args,
                            gram_eigh_report *report, struct gram_eigh_op *op)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, args->options));
    TRY(check_options(g, &o));
    gram_eigh_krylov(&o, report, op);
    op->driver = GRAM_EIGH_DRIVER_KRYLOV;
    op->count = o.count;
    if (o.count < 0 || o.count > op->a.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.count is %lld, expected 0 to %lld",
                         (long long)o.count, (long long)op->a.rows);
    op->first = o.select == GRAM_EIGH_LARGEST ? op->a.rows - o.count : 0;
    TRY(view_outputs(g, args, op));
    if (!g->backend->eigh)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* The caller's operator, and one in its place that says why it failed. */
struct operator_memory {
    gram_context *g;
    const gram_operator *given;
    gram_operator own;
    gram_eigh_report report;
};

static gram_status apply_given(void *user, const gram_tensor *in, gram_tensor *out)
{
    const struct operator_memory *memory = user;
    gram_status status = memory->given->apply(memory->given->user, in, out);

    if (status != GRAM_OK)
        return gram_fail(memory->g, status, "a.apply returned %s", gram_status_name(status));
    return GRAM_OK;
}

static gram_status describe_operator(gram_context *g, const gram_operator *a,
                                     const struct implicit_args *args,
                                     struct operator_memory *memory, struct gram_eigh_op *op)
{
    if (!a || !a->apply)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, a ? "a.apply is NULL" : "a is NULL");
    if (a->n < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a.n is %lld, expected 0 or more",
                         (long long)a->n);
    if (a->dtype != GRAM_F32 && a->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a.dtype is %s, expected f32 or f64",
                         gram_dtype_name(a->dtype));
    *memory = (struct operator_memory){.g = g, .given = a, .own = *a};
    memory->own.apply = apply_given;
    memory->own.user = memory;
    *op = (struct gram_eigh_op){.batch.count = 1, .apply = &memory->own};
    op->a = (struct gram_view){.dtype = a->dtype, .planes = 1, .rows = a->n, .cols = a->n};
    return describe(g, args, &memory->report, op);
}

gram_status gram_eigh_operator(gram_context *g, const gram_operator *a,
                               const gram_eigh_options *options, gram_tensor *values,
                               gram_tensor *vectors, gram_tensor *info)
{
    const struct implicit_args args = {options, values, vectors, info, NULL, NULL};
    struct operator_memory memory;
    struct gram_eigh_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_operator(g, a, &args, &memory, &op));
    return gram_eigh_ended(g, g->backend->eigh(g, &op), options, &memory.report);
}

gram_status gram_eigh_operator_workspace(gram_context *g, const gram_operator *a,
                                         const gram_eigh_options *options,
                                         const gram_tensor *values, const gram_tensor *vectors,
                                         gram_workspace *need)
{
    const struct implicit_args args = {options, values, vectors, NULL, NULL, NULL};
    struct operator_memory memory;
    struct gram_eigh_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe_operator(g, a, &args, &memory, &op));
    TRY(gram_measure(g, &bytes, g->backend->eigh(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* Where the description of a kernel lies during the call. */
struct kernel_memory {
    struct gram_kernel_matmul_op product;
    gram_eigh_report report;
};

static gram_status describe_kernel(gram_context *g, const gram_kernel_options *kernel,
                                   const struct implicit_args *args, struct kernel_memory *memory,
                                   struct gram_eigh_op *op)
{
    const struct gram_pair pair = {.x = args->x, .no_out = true};
    struct gram_cdist_op *k = &memory->product.kernel;
    gram_dtype dtype;

    memory->report = (gram_eigh_report){0};
    memory->product = (struct gram_kernel_matmul_op){0};
    TRY(gram_kernel_describe(g, &pair, kernel, k));
    if (k->metric.kind == GRAM_DISTANCE_KULLBACK_LEIBLER)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT,
            "kernel.metric->kind is GRAM_DISTANCE_KULLBACK_LEIBLER, expected a distance "
            "that is the same both ways, because eigenvalues are those of a symmetric "
            "matrix");
    if (k->row_offset != k->column_offset && gram_cdist_regularized(k))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel.row_offset is %lld and kernel.column_offset is %lld, expected "
                         "equal offsets",
                         (long long)k->row_offset, (long long)k->column_offset);
    dtype = k->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    *op = (struct gram_eigh_op){.batch = k->batch, .product = &memory->product};
    op->a = (struct gram_view){.dtype = dtype, .planes = 1, .rows = k->x.rows, .cols = k->x.rows};
    return describe(g, args, &memory->report, op);
}

static gram_status run(gram_context *g, const void *work)
{
    return g->backend->eigh(g, work);
}

gram_status gram_eigh_kernel(gram_context *g, const gram_tensor *x,
                             const gram_kernel_options *kernel, const gram_eigh_options *options,
                             gram_tensor *values, gram_tensor *vectors, gram_tensor *info)
{
    const struct implicit_args args = {options, values, vectors, info, x, kernel};
    struct kernel_memory memory;
    struct gram_eigh_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_kernel(g, kernel, &args, &memory, &op));
    return gram_eigh_ended(g, gram_lengths_call(g, &memory.product.kernel, run, &op), options,
                           &memory.report);
}

gram_status gram_eigh_kernel_workspace(gram_context *g, const gram_tensor *x,
                                       const gram_kernel_options *kernel,
                                       const gram_eigh_options *options, const gram_tensor *values,
                                       const gram_tensor *vectors, gram_workspace *need)
{
    const struct implicit_args args = {options, values, vectors, NULL, x, kernel};
    struct kernel_memory memory;
    struct gram_eigh_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe_kernel(g, kernel, &args, &memory, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_call(g, &memory.product.kernel, run, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
