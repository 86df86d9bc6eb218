/*
 * kernel_reduce.c - gram_kernel_reduce: checks the arguments, describes the work, hands it on
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

/* What the call and its workspace query are given. */
struct reduce_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    const gram_kernel_options *kernel;
    gram_reduction what;
    const gram_tensor *v;
    const gram_kernel_reduce_options *options;
    const gram_tensor *out, *indices;
    const gram_tensor *log_weights; /* of the options */
};

static bool is_extreme(gram_reduction what)
{
    return what == GRAM_REDUCE_MIN || what == GRAM_REDUCE_MAX;
}

/* Which tensors belong to the reduction. */
static gram_status check_given(gram_context *g, const struct reduce_args *args)
{
    if (args->what < GRAM_REDUCE_MIN || args->what > GRAM_REDUCE_SOFTMAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "what is %d, expected a gram_reduction, %d to %d", (int)args->what,
                         (int)GRAM_REDUCE_MIN, (int)GRAM_REDUCE_SOFTMAX);
    if (args->what == GRAM_REDUCE_SOFTMAX && !args->v)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "v is NULL, expected a matrix with GRAM_REDUCE_SOFTMAX");
    if (args->what != GRAM_REDUCE_SOFTMAX && args->v)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "v is given, expected NULL without GRAM_REDUCE_SOFTMAX");
    if (is_extreme(args->what) && args->log_weights)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.log_weights is given, expected NULL with GRAM_REDUCE_MIN and "
                         "_MAX");
    if (!is_extreme(args->what) && args->indices)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "indices is given, expected NULL without GRAM_REDUCE_MIN and _MAX");
    if (!args->out && !args->indices)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL%s",
                         is_extreme(args->what) ? ", and indices too" : "");
    return GRAM_OK;
}

/* An output, which must not overlap the inputs. */
static gram_status view_output(gram_context *g, const struct reduce_args *args, const char *name,
                               const gram_tensor *t, gram_dtype dtype,
                               struct gram_kernel_reduce_op *op)
{
    struct gram_view *view = t == args->indices ? &op->indices : &op->out;
    const bool is_matrix = op->what == GRAM_REDUCE_SOFTMAX;
    const int64_t rows = op->kernel.x.rows;

    TRY(gram_view_of(g, &op->kernel.batch, name, t, is_matrix ? 2 : 1, GRAM_WRITE, view));
    TRY(gram_check_dtype(g, name, t, dtype));
    if (is_matrix && (view->rows != rows || view->cols != op->v.cols))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         name, (long long)view->rows, (long long)view->cols, (long long)rows,
                         (long long)op->v.cols);
    if (!is_matrix && view->cols != rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld elements, expected %lld", name,
                         (long long)view->cols, (long long)rows);
    TRY(gram_check_apart(g, name, t, "x", args->x));
    if (args->y)
        TRY(gram_check_apart(g, name, t, "y", args->y));
    if (args->v)
        TRY(gram_check_apart(g, name, t, "v", args->v));
    if (args->log_weights)
        TRY(gram_check_apart(g, name, t, "options.log_weights", args->log_weights));
    return gram_metric_check_apart(g, args->kernel, name, t);
}

static gram_status view_log_weights(gram_context *g, const gram_tensor *t, gram_dtype dtype,
                                    struct gram_kernel_reduce_op *op)
{
    static const char name[] = "options.log_weights";

    TRY(gram_view_of(g, &op->kernel.batch, name, t, 1, GRAM_READ, &op->log_weights));
    TRY(gram_check_dtype(g, name, t, dtype));
    if (op->log_weights.cols != op->kernel.y.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld elements, expected %lld", name,
                         (long long)op->log_weights.cols, (long long)op->kernel.y.rows);
    op->has_log_weights = true;
    return GRAM_OK;
}

static gram_status view_tensors(gram_context *g, const struct reduce_args *args,
                                struct gram_kernel_reduce_op *op)
{
    const gram_dtype real = op->kernel.x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    op->has_out = args->out, op->has_indices = args->indices;
    if (args->v) {
        TRY(gram_view_of(g, &op->kernel.batch, "v", args->v, 2, GRAM_READ, &op->v));
        TRY(gram_check_dtype(g, "v", args->v, real));
        if (op->v.rows != op->kernel.y.rows)
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "v has %lld rows, expected %lld",
                             (long long)op->v.rows, (long long)op->kernel.y.rows);
    }
    if (args->log_weights)
        TRY(view_log_weights(g, args->log_weights, real, op));
    if (args->out)
        TRY(view_output(g, args, "out", args->out, real, op));
    if (args->indices)
        TRY(view_output(g, args, "indices", args->indices, GRAM_I64, op));
    if (args->out && args->indices)
        return gram_check_apart(g, "indices", args->indices, "out", args->out);
    return GRAM_OK;
}

static gram_status describe(gram_context *g, struct reduce_args *args,
                            struct gram_kernel_reduce_op *op)
{
    struct gram_pair pair = {.x = args->x, .y = args->y, .no_out = true, .v = args->v};
    gram_kernel_reduce_options o = GRAM_KERNEL_REDUCE_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, args->options));
    args->log_weights = pair.log_weights = o.log_weights;
    TRY(check_given(g, args));
    if (!isfinite(o.scale))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.scale is %g, expected a finite number",
                         o.scale);
    *op = (struct gram_kernel_reduce_op){.what = args->what, .scale = o.scale};
    TRY(gram_kernel_describe(g, &pair, args->kernel, &op->kernel));
    TRY(view_tensors(g, args, op));
    if (!g->backend->kernel_reduce)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

static gram_status run(gram_context *g, const void *work)
{
    return g->backend->kernel_reduce(g, work);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_reduce(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *kernel, gram_reduction what,
                               const gram_tensor *v, const gram_kernel_reduce_options *options,
                               gram_tensor *out, gram_tensor *indices)
{
    struct reduce_args args = {x, y, kernel, what, v, options, out, indices, NULL};
    struct gram_kernel_reduce_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(describe(g, &args, &op));
    return gram_call_ended(g, gram_lengths_call(g, &op.kernel, run, &op));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_reduce_workspace(gram_context *g, const gram_tensor *x,
                                         const gram_tensor *y, const gram_kernel_options *kernel,
                                         gram_reduction what, const gram_tensor *v,
                                         const gram_kernel_reduce_options *options,
                                         const gram_tensor *out, const gram_tensor *indices,
                                         gram_workspace *need)
{
    struct reduce_args args = {x, y, kernel, what, v, options, out, indices, NULL};
    struct gram_kernel_reduce_op op;
    size_t bytes;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_call(g, &op.kernel, run, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
