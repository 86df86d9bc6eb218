/*
 * kernel_vjp.c - gram_kernel_vjp: checks the arguments, describes the work, hands it to the device
 *
 * gram_kernel_matmul_vjp (kernel_matmul_vjp.c) and gram_kernel_reduce_vjp (kernel_reduce_vjp.c) are
 * described here too: their cotangents have two factors.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "pairwise.h"
#include <string.h>

/* An output: its name, its tensor (NULL: not wanted), and its place in the operation. */
struct vjp_output {
    const char *name;
    const gram_tensor *t;
    int core;
    int64_t rows, cols;
    bool *want;
    struct gram_view *view;
};

static gram_status check_kernel(gram_context *g, gram_kernel_output output)
{
    if (output != GRAM_VALUE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.output is %d, expected GRAM_VALUE",
                         (int)output);
    return GRAM_OK;
}

/* Of v, of the cotangent and of gradients: of halves they are f32. */
static gram_dtype real_of(const struct gram_cdist_op *kernel)
{
    return kernel->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
}

static gram_status check_dtype(gram_context *g, const char *name, const struct gram_view *view,
                               const struct gram_cdist_op *kernel)
{
    if (view->dtype != real_of(kernel))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected %s for x in %s", name,
                         gram_dtype_name(view->dtype), gram_dtype_name(real_of(kernel)),
                         gram_dtype_name(kernel->x.dtype));
    return GRAM_OK;
}

/* The batch of grad broadcasts to that of the kernel, not beyond. */
static gram_status check_batch(gram_context *g, const struct gram_vjp_args *args,
                               const struct gram_cdist_op *k)
{
    struct gram_batch joined = k->batch;

    TRY(gram_batch_join(g, &joined, "grad", args->grad, 2));
    if (joined.ndim != k->batch.ndim ||
        memcmp(joined.shape, k->batch.shape, (size_t)joined.ndim * sizeof *joined.shape) != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "grad has %lld items, expected a shape that broadcasts to the %lld of the "
                         "kernel",
                         (long long)joined.count, (long long)k->batch.count);
    return GRAM_OK;
}

/* v has a row for each of y, and grad one for each of x; columns are those of the product. */
static gram_status view_product(gram_context *g, const struct gram_vjp_args *args,
                                struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;

    if (args->soft && !args->v) {
        op->v = gram_view_dense(NULL, real_of(k), k->y.rows, 0);
        return GRAM_OK;
    }
    TRY(gram_view_of(g, &k->batch, "v", args->v, 2, GRAM_READ, &op->v));
    TRY(check_dtype(g, "v", &op->v, k));
    if (op->v.rows != k->y.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "v has %lld rows, expected %lld",
                         (long long)op->v.rows, (long long)k->y.rows);
    if (!gram_blas_fits(op->v.cols, 0, 0))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "v has %lld columns, which is more than BLAS can count",
                         (long long)op->v.cols);
    return GRAM_OK;
}

/* grad has the shape of the kernel matrix, or of its product with v. */
static gram_status view_grad(gram_context *g, const struct gram_vjp_args *args,
                             struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;
    const int64_t cols = args->of_product ? op->v.cols : k->y.rows;
    const bool is_vector = args->soft && !args->v;

    TRY(gram_view_of(g, &k->batch, "grad", args->grad, is_vector ? 1 : 2, GRAM_READ, &op->grad));
    TRY(check_dtype(g, "grad", &op->grad, k));
    if (is_vector && op->grad.cols != k->x.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grad has %lld elements, expected %lld",
                         (long long)op->grad.cols, (long long)k->x.rows);
    if (is_vector) {
        gram_view_transpose(&op->grad);
        return GRAM_OK;
    }
    if (op->grad.rows != k->x.rows || op->grad.cols != cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grad is %lld by %lld, expected %lld by %lld",
                         (long long)op->grad.rows, (long long)op->grad.cols, (long long)k->x.rows,
                         (long long)cols);
    return GRAM_OK;
}

static gram_status view_log_weights(gram_context *g, const struct gram_vjp_args *args,
                                    struct gram_kernel_vjp_op *op)
{
    static const char name[] = "options.log_weights";
    const struct gram_cdist_op *k = &op->kernel;

    if (!args->log_weights)
        return GRAM_OK;
    TRY(gram_view_of(g, &k->batch, name, args->log_weights, 1, GRAM_READ, &op->soft.log_weights));
    TRY(check_dtype(g, name, &op->soft.log_weights, k));
    if (op->soft.log_weights.cols != k->y.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld elements, expected %lld", name,
                         (long long)op->soft.log_weights.cols, (long long)k->y.rows);
    op->soft.has_log_weights = true;
    return GRAM_OK;
}

/* Refuses an output that overlaps an input, a hyperparameter's tensor included. */
static gram_status check_inputs_apart(gram_context *g, const struct gram_vjp_args *args,
                                      const struct vjp_output *out)
{
    const gram_kernel_options *o = args->options;
    const struct {
        const char *name;
        const gram_tensor *t;
    } inputs[] = {
        {                     "x",                  args->x},
        {                     "y",                  args->y},
        {                  "grad",               args->grad},
        {                     "v",                  args->v},
        {             "options.p",              o->p.tensor},
        {   "options.outer_power",    o->outer_power.tensor},
        {     "options.bandwidth",      o->bandwidth.tensor},
        {      "options.exponent",       o->exponent.tensor},
        {         "options.alpha",          o->alpha.tensor},
        {         "options.gamma",          o->gamma.tensor},
        {         "options.coef0",          o->coef0.tensor},
        {        "options.degree",         o->degree.tensor},
        {"options.regularization", o->regularization.tensor},
        {       "options.lengths",               o->lengths},
        {   "options.log_weights",        args->log_weights},
    };

    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i].t)
            TRY(gram_check_apart(g, out->name, out->t, inputs[i].name, inputs[i].t));
    for (int i = 0; i < (int)o->parameter_count; i++)
        if (o->parameters[i].value.tensor)
            TRY(gram_check_apart(g, out->name, out->t, "options.parameters",
                                 o->parameters[i].value.tensor));
    return GRAM_OK;
}

static gram_status view_output(gram_context *g, const struct gram_vjp_args *args,
                               const struct gram_cdist_op *kernel, const struct vjp_output *out)
{
    struct gram_view *v = out->view;

    TRY(gram_view_of(g, &kernel->batch, out->name, out->t, out->core, GRAM_WRITE, v));
    TRY(check_dtype(g, out->name, v, kernel));
    if (v->rows != out->rows || v->cols != out->cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         out->name, (long long)v->rows, (long long)v->cols, (long long)out->rows,
                         (long long)out->cols);
    *out->want = true;
    return check_inputs_apart(g, args, out);
}

static gram_status view_outputs(gram_context *g, const struct gram_vjp_args *args,
                                struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;
    const gram_kernel_matmul_grads *to = args->grads;
    const gram_tensor *lengths = args->options->lengths ? to->lengths : NULL;
    const struct vjp_output outputs[] = {
        {             "grads.x",                to->x, 2, k->x.rows,  k->x.cols,                &op->want_x,&op->x                                                                                                            },
        {             "grads.y",                to->y, 2, k->y.rows,  k->y.cols,                &op->want_y,         &op->y},
        {     "grads.bandwidth",        to->bandwidth, 0,         1,          1,        &op->want_bandwidth, &op->bandwidth},
        {"grads.regularization",   to->regularization, 0,         1,          1,   &op->want_regularization,
         &op->regularization                                                                                               },
        {       "grads.lengths",              lengths, 1,         1,  k->x.cols,          &op->want_lengths,   &op->lengths},
        {             "grads.v",                to->v, 2, k->y.rows, op->v.cols,                &op->want_v,      &op->to_v},
        {   "grads.log_weights", args->to_log_weights, 1,         1,  k->y.rows, &op->soft.want_log_weights,
         &op->soft.to_log_weights                                                                                          },
    };

    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (!outputs[i].t)
            continue;
        TRY(view_output(g, args, k, &outputs[i]));
        for (size_t j = 0; j < i; j++)
            if (outputs[j].t)
                TRY(gram_check_apart(g, outputs[i].name, outputs[i].t, outputs[j].name,
                                     outputs[j].t));
    }
    return GRAM_OK;
}

/* The other expressions of a call than the derivative by s. */
static gram_status compile_others(gram_context *g, const gram_kernel_options *options,
                                  struct gram_kernel_vjp_op *op)
{
    struct gram_expression *made;
    const int by[] = {GRAM_EXPRESSION_BY_NORM_X, GRAM_EXPRESSION_BY_NORM_Y};
    const int by_sum[] = {GRAM_EXPRESSION_BY_SUM, GRAM_EXPRESSION_BY_SQUARES};

    for (int i = 0; op->kernel.expression && op->kernel.expression->of_sums && i < 2; i++) {
        if (!op->want_x && !op->want_y && !op->whole && !op->want_lengths)
            continue;
        TRY(gram_expression_compile(g, options, by_sum[i], &made));
        if (made->count > 1 || made->node[0].op != GRAM_OP_NUMBER || made->node[0].number != 0)
            op->by_sum[i] = made;
    }
    for (int i = 0; op->kernel.expression && op->kernel.expression->of_norms && i < 2; i++) {
        if (!(i ? op->want_y || op->whole : op->want_x) && !op->want_lengths)
            continue;
        TRY(gram_expression_compile(g, options, by[i], &made));
        op->by_norm[i] = made;
    }
    if (!op->kernel.expression || (!op->want_v && !op->soft.what))
        return GRAM_OK;
    TRY(gram_expression_compile(g, options, GRAM_EXPRESSION_ITSELF, &made));
    if (!op->soft.what)
        gram_expression_exchange(made);
    op->value = made;
    return GRAM_OK;
}

static gram_status check_grads(gram_context *g, const struct gram_vjp_args *args,
                               const struct gram_kernel_vjp_op *op)
{
    if (!args->grads)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grads is NULL");
    if (args->grads->bandwidth && op->kernel.function == GRAM_EXPRESSION)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "grads.bandwidth is given, expected NULL, because GRAM_EXPRESSION has no "
                         "bandwidth");
    if (args->grads->y && op->whole)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "grads.y is given, expected NULL, because y is NULL, and grads.x is the "
                         "whole gradient");
    return GRAM_OK;
}

gram_status gram_vjp_describe(gram_context *g, const struct gram_vjp_args *args,
                              struct gram_kernel_vjp_op *op)
{
    const struct gram_pair pair = {.x = args->x,
                                   .y = args->y,
                                   .no_out = true,
                                   .derivative = true,
                                   .v = args->v,
                                   .grad = args->of_product ? args->grad : NULL,
                                   .grad_is_vector = args->soft && !args->v,
                                   .log_weights = args->log_weights};
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    struct gram_vjp_args whole = *args;

    *op = (struct gram_kernel_vjp_op){.of_product = args->of_product,
                                      .whole = args->of_product && !args->y};
    if (args->soft)
        op->soft = *args->soft;
    TRY(gram_kernel_describe(g, &pair, args->options, &op->kernel));
    TRY(gram_options_copy(g, &options, sizeof options, args->options));
    whole.options = &options;
    TRY(check_kernel(g, options.output));
    TRY(args->of_product ? view_product(g, args, op) : check_batch(g, args, &op->kernel));
    TRY(view_grad(g, &whole, op));
    TRY(view_log_weights(g, args, op));
    TRY(check_grads(g, args, op));
    TRY(view_outputs(g, &whole, op));
    TRY(compile_others(g, &options, op));
    if (!g->backend->kernel_vjp || !g->backend->kernel_matmul_vjp || !g->backend->kernel_matmul)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* grads as those of a product; NULL stays NULL. */
static const gram_kernel_matmul_grads *wider(const gram_kernel_grads *grads,
                                             gram_kernel_matmul_grads *to)
{
    if (!grads)
        return NULL;
    *to = (gram_kernel_matmul_grads){.size = sizeof *to,
                                     .x = grads->x,
                                     .y = grads->y,
                                     .bandwidth = grads->bandwidth,
                                     .regularization = grads->regularization,
                                     .lengths = grads->lengths};
    return to;
}

gram_status gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                            const gram_kernel_options *options, const gram_tensor *grad,
                            const gram_kernel_grads *grads)
{
    gram_kernel_matmul_grads all;
    const struct gram_vjp_args args = {
        .x = x, .y = y, .options = options, .grad = grad, .grads = wider(grads, &all)};
    struct gram_kernel_vjp_op op;

    TRY(gram_begin(g, __func__));
    TRY(gram_vjp_describe(g, &args, &op));
    return gram_lengths_vjp(g, &op);
}

gram_status gram_kernel_vjp_workspace(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *options, const gram_tensor *grad,
                                      const gram_kernel_grads *grads, gram_workspace *need)
{
    gram_kernel_matmul_grads all;
    const struct gram_vjp_args args = {
        .x = x, .y = y, .options = options, .grad = grad, .grads = wider(grads, &all)};
    struct gram_kernel_vjp_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(gram_vjp_describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_vjp(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
