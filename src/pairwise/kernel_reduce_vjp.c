/*
 * kernel_reduce_vjp.c - gram_kernel_reduce_vjp: checks the arguments, and describes the work
 *
 * With the exponents e[i][j] = scale K[i][j] + l[j] and the weights w[i][j] = exp(e[i][j] - the
 * logarithm of the row), the cotangent of the exponents is
 *   logarithm    d[i][j] = w[i][j] grad[i]
 *   average      d[i][j] = w[i][j] (sum_c grad[i][c] v[j][c] - sum_c grad[i][c] out[i][c]),
 * that of K is scale d, from which the gradients follow as those of a product do; the gradient to l
 * has the sums of the columns of d, and that to v is the transposed matrix of the weights times
 * grad.  A backend reduces the rows once more for the logarithms and the averages.
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

/* What the call and its workspace query are given. */
struct reduce_vjp_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    const gram_kernel_options *kernel;
    gram_reduction what;
    const gram_tensor *v;
    const gram_kernel_reduce_options *options;
    const gram_tensor *grad;
    const gram_kernel_reduce_grads *grads;
};

static gram_status check_given(gram_context *g, const struct reduce_vjp_args *args,
                               const gram_kernel_reduce_grads *grads)
{
    const bool weighted = args->what == GRAM_REDUCE_SOFTMAX;

    if (!weighted && args->what != GRAM_REDUCE_LOGSUMEXP)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "what is %d, expected %d or %d, GRAM_REDUCE_LOGSUMEXP or _SOFTMAX, which "
                         "have gradients",
                         (int)args->what, (int)GRAM_REDUCE_LOGSUMEXP, (int)GRAM_REDUCE_SOFTMAX);
    if (weighted && !args->v)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "v is NULL, expected a matrix with GRAM_REDUCE_SOFTMAX");
    if (!weighted && args->v)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "v is given, expected NULL without GRAM_REDUCE_SOFTMAX");
    if (!weighted && grads->v)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "grads.v is given, expected NULL without GRAM_REDUCE_SOFTMAX");
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct reduce_vjp_args *args,
                            struct gram_kernel_vjp_op *op)
{
    gram_kernel_reduce_options o = GRAM_KERNEL_REDUCE_OPTIONS_INIT;
    gram_kernel_reduce_grads to = GRAM_KERNEL_REDUCE_GRADS_INIT;
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    struct gram_soft_op soft;

    TRY(gram_options_copy(g, &o, sizeof o, args->options));
    if (!args->grads)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grads is NULL");
    TRY(gram_options_copy(g, &to, sizeof to, args->grads));
    TRY(check_given(g, args, &to));
    if (!isfinite(o.scale))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.scale is %g, expected a finite number",
                         o.scale);
    soft = (struct gram_soft_op){.what = args->what, .scale = o.scale};
    grads.x = to.x, grads.y = to.y, grads.v = to.v, grads.lengths = to.lengths;
    grads.bandwidth = to.bandwidth, grads.regularization = to.regularization;
    return gram_vjp_describe(g,
                             &(struct gram_vjp_args){.x = args->x,
                                                     .y = args->y,
                                                     .options = args->kernel,
                                                     .grad = args->grad,
                                                     .grads = &grads,
                                                     .of_product = true,
                                                     .v = args->v,
                                                     .soft = &soft,
                                                     .log_weights = o.log_weights,
                                                     .to_log_weights = to.log_weights},
                             op);
}

/* ---- The reduction, and what is made of it -------------------------------------------------- */

/* The logarithms of the rows, and their averages. */
static gram_status run_reduction(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    struct gram_kernel_reduce_op reduction = {.kernel = op->kernel,
                                              .what = op->soft.what,
                                              .scale = op->soft.scale,
                                              .v = op->v,
                                              .log_weights = op->soft.log_weights,
                                              .has_log_weights = op->soft.has_log_weights,
                                              .out = op->soft.averages,
                                              .has_out = op->soft.what == GRAM_REDUCE_SOFTMAX,
                                              .logarithms = op->soft.logarithms};

    if (op->value)
        reduction.kernel.expression = op->value;
    return g->backend->kernel_reduce(g, &reduction);
}

static gram_status run_gradients(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return g->backend->kernel_reduce_vjp(g, op);
}

static gram_status run_parts(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return gram_vjp_parts(g, op, (gram_vjp_part *const[]){run_reduction, run_gradients}, 2);
}

gram_status gram_reduce_vjp_run(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const size_t rows = (size_t)op->kernel.x.rows, items = (size_t)batch->count;
    struct gram_kernel_vjp_op work = *op;
    struct gram_scratch_before before;
    struct gram_layout layout = {0};
    gram_status status;
    size_t bytes;
    void *lent;

    work.soft.averages =
        gram_view_dense_items(NULL, op->kernel.x.dtype, op->grad.rows, op->v.cols, batch);
    TRY(gram_measure(g, &bytes, run_parts(g, &work)));
    gram_take_many(&layout, &work.soft.logarithms, items, rows * sizeof(double));
    gram_take_many(&layout, &work.soft.averages.data, items,
                   rows * (size_t)op->v.cols * gram_dtype_size(op->kernel.x.dtype));
    gram_take(&layout, &lent, bytes);
    TRY(gram_layout_open(g, &layout));
    gram_scratch_lend(g, lent, bytes, &before);
    status = run_parts(g, &work);
    gram_scratch_return(g, &before);
    return status;
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_reduce_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   const gram_kernel_options *kernel, gram_reduction what,
                                   const gram_tensor *v, const gram_kernel_reduce_options *options,
                                   const gram_tensor *grad, const gram_kernel_reduce_grads *grads)
{
    const struct reduce_vjp_args args = {x, y, kernel, what, v, options, grad, grads};
    struct gram_kernel_vjp_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, &op));
    return gram_call_ended(g, gram_lengths_vjp(g, &op));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_reduce_vjp_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *kernel,
    gram_reduction what, const gram_tensor *v, const gram_kernel_reduce_options *options,
    const gram_tensor *grad, const gram_kernel_reduce_grads *grads, gram_workspace *need)
{
    const struct reduce_vjp_args args = {x, y, kernel, what, v, options, grad, grads};
    struct gram_kernel_vjp_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_vjp(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
