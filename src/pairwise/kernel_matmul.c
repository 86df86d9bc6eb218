/*
 * kernel_matmul.c - gram_kernel_matmul: checks the arguments, describes the work, hands it on
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "pairwise.h"

static gram_status check_dtype(gram_context *g, const char *name, const struct gram_view *view,
                               gram_dtype x)
{
    gram_dtype expected = x == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    if (view->dtype != expected)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected %s for x in %s", name,
                         gram_dtype_name(view->dtype), gram_dtype_name(expected),
                         gram_dtype_name(x));
    return GRAM_OK;
}

/* Of all points a rank has some rows of v and out. */
static gram_status check_shapes(gram_context *g, const struct gram_kernel_matmul_op *op,
                                bool some_rows)
{
    const struct gram_cdist_op *k = &op->kernel;
    const int64_t rows = some_rows ? op->out.rows : k->x.rows;

    if (op->v.rows != k->y.rows && !some_rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "v has %lld rows, expected %lld",
                         (long long)op->v.rows, (long long)k->y.rows);
    if (op->out.rows != rows || op->out.cols != op->v.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is %lld by %lld, expected %lld by %lld",
                         (long long)op->out.rows, (long long)op->out.cols, (long long)rows,
                         (long long)op->v.cols);
    if (!gram_blas_fits(op->v.cols, 0, 0))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "v has %lld columns, which is more than BLAS can count",
                         (long long)op->v.cols);
    return GRAM_OK;
}

gram_status gram_kernel_matmul_describe(gram_context *g, const struct gram_matmul_args *args,
                                        const gram_kernel_matmul_options *options,
                                        struct gram_kernel_matmul_op *op)
{
    const struct gram_pair pair = {.x = args->x, .y = args->y, .no_out = true, .v = args->v};
    const struct gram_batch *batch = &op->kernel.batch;

    *op = (struct gram_kernel_matmul_op){.accumulate = options->accumulate != 0};
    TRY(gram_kernel_describe(g, &pair, args->kernel, &op->kernel));
    TRY(gram_view_of(g, batch, "v", args->v, 2, GRAM_READ, &op->v));
    TRY(gram_view_of(g, batch, "out", args->out, 2, GRAM_WRITE, &op->out));
    TRY(check_dtype(g, "v", &op->v, op->kernel.x.dtype));
    TRY(check_dtype(g, "out", &op->out, op->kernel.x.dtype));
    TRY(check_shapes(g, op, options->all_points != 0));
    TRY(gram_check_apart(g, "out", args->out, "x", args->x));
    if (args->y)
        TRY(gram_check_apart(g, "out", args->out, "y", args->y));
    TRY(gram_check_apart(g, "out", args->out, "v", args->v));
    TRY(gram_metric_check_apart(g, args->kernel, "out", args->out));
    if (!g->backend->kernel_matmul)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* A call of this process alone. */
static gram_status describe(gram_context *g, const struct gram_matmul_args *args,
                            struct gram_kernel_matmul_op *op)
{
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;

    TRY(gram_options_copy(g, &options, sizeof options, args->options));
    if (options.communicator || options.all_points)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.%s is given, which only gram_kernel_matmul_multi takes",
                         options.communicator ? "communicator" : "all_points");
    return gram_kernel_matmul_describe(g, args, &options, op);
}

static gram_status run(gram_context *g, const void *work)
{
    return g->backend->kernel_matmul(g, work);
}

gram_status gram_kernel_matmul_run(gram_context *g, struct gram_kernel_matmul_op *op)
{
    return gram_lengths_call(g, &op->kernel, run, op);
}

gram_status gram_kernel_matmul(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *kernel, const gram_tensor *v,
                               const gram_kernel_matmul_options *options, gram_tensor *out)
{
    const struct gram_matmul_args args = {x, y, kernel, v, options, out};
    struct gram_kernel_matmul_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, &op));
    return gram_call_ended(g, gram_kernel_matmul_run(g, &op));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_matmul_workspace(gram_context *g, const gram_tensor *x,
                                         const gram_tensor *y, const gram_kernel_options *kernel,
                                         const gram_tensor *v,
                                         const gram_kernel_matmul_options *options,
                                         const gram_tensor *out, gram_workspace *need)
{
    const struct gram_matmul_args args = {x, y, kernel, v, options, out};
    struct gram_kernel_matmul_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, gram_kernel_matmul_run(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
