/*
 * kernel_vjp.c - gram_kernel_vjp: checks the arguments, describes the work, hands it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <string.h>

/* What the call and its workspace query are given. */
struct vjp_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    const gram_kernel_options *options;
    const gram_tensor *grad;
    const gram_kernel_grads *grads;
};

/* An output: its name, its tensor (NULL: not wanted), and its place in the operation. */
struct vjp_output {
    const char *name;
    const gram_tensor *t;
    int core;
    int64_t rows, cols;
    bool *want;
    struct gram_view *view;
};

static gram_status check_kernel(gram_context *g, gram_kernel_output output,
                                const struct gram_cdist_op *op)
{
    if (output != GRAM_VALUE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.output is %d, expected GRAM_VALUE",
                         (int)output);
    if (op->x.dtype != GRAM_F32 && op->x.dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->x.dtype));
    return GRAM_OK;
}

/* grad has the shape of the kernel matrix; its batch broadcasts to the call's, not beyond. */
static gram_status view_grad(gram_context *g, const struct vjp_args *args,
                             struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;
    struct gram_batch joined = k->batch;

    TRY(gram_batch_join(g, &joined, "grad", args->grad, 2));
    if (joined.ndim != k->batch.ndim ||
        memcmp(joined.shape, k->batch.shape, (size_t)joined.ndim * sizeof *joined.shape) != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "grad has %lld items, expected a shape that broadcasts to the %lld of the "
                         "kernel",
                         (long long)joined.count, (long long)k->batch.count);
    TRY(gram_view_of(g, &k->batch, "grad", args->grad, 2, GRAM_READ, &op->grad));
    if (op->grad.dtype != k->x.dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grad has dtype %s, expected that of x, %s",
                         gram_dtype_name(op->grad.dtype), gram_dtype_name(k->x.dtype));
    if (op->grad.rows != k->x.rows || op->grad.cols != k->y.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grad is %lld by %lld, expected %lld by %lld",
                         (long long)op->grad.rows, (long long)op->grad.cols, (long long)k->x.rows,
                         (long long)k->y.rows);
    return GRAM_OK;
}

/* Refuses an output that overlaps an input, a hyperparameter's tensor included. */
static gram_status check_inputs_apart(gram_context *g, const struct vjp_args *args,
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

static gram_status view_output(gram_context *g, const struct vjp_args *args,
                               const struct gram_cdist_op *kernel, const struct vjp_output *out)
{
    struct gram_view *v = out->view;

    TRY(gram_view_of(g, &kernel->batch, out->name, out->t, out->core, GRAM_WRITE, v));
    if (v->dtype != kernel->x.dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected that of x, %s",
                         out->name, gram_dtype_name(v->dtype), gram_dtype_name(kernel->x.dtype));
    if (v->rows != out->rows || v->cols != out->cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         out->name, (long long)v->rows, (long long)v->cols, (long long)out->rows,
                         (long long)out->cols);
    *out->want = true;
    return check_inputs_apart(g, args, out);
}

static gram_status view_outputs(gram_context *g, const struct vjp_args *args,
                                struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;
    const gram_kernel_grads *to = args->grads;
    const gram_tensor *lengths = args->options->lengths ? to->lengths : NULL;
    const struct vjp_output outputs[] = {
        {             "grads.x",              to->x, 2, k->x.rows, k->x.cols,              &op->want_x,&op->x                                                                                                       },
        {             "grads.y",              to->y, 2, k->y.rows, k->y.cols,              &op->want_y,         &op->y},
        {     "grads.bandwidth",      to->bandwidth, 0,         1,         1,      &op->want_bandwidth, &op->bandwidth},
        {"grads.regularization", to->regularization, 0,         1,         1, &op->want_regularization,
         &op->regularization                                                                                          },
        {       "grads.lengths",            lengths, 1,         1, k->x.cols,        &op->want_lengths,   &op->lengths},
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

/* The expressions of a call: the derivative by s, and those by |x| and |y|. */
struct vjp_expressions {
    struct gram_expression by_s, by_norm[2];
};

static gram_status compile_norms(gram_context *g, const gram_kernel_options *options,
                                 struct vjp_expressions *expressions, struct gram_kernel_vjp_op *op)
{
    const int by[] = {GRAM_EXPRESSION_BY_NORM_X, GRAM_EXPRESSION_BY_NORM_Y};

    for (int i = 0; op->kernel.expression && op->kernel.expression->of_norms && i < 2; i++) {
        if (!(i ? op->want_y : op->want_x) && !op->want_lengths)
            continue;
        TRY(gram_expression_compile(g, options, by[i], &expressions->by_norm[i]));
        op->by_norm[i] = &expressions->by_norm[i];
    }
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct vjp_args *args,
                            struct vjp_expressions *expressions, struct gram_kernel_vjp_op *op)
{
    const struct gram_pair pair = {.x = args->x, .y = args->y, .no_out = true, .derivative = true};
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    struct vjp_args whole = *args;

    *op = (struct gram_kernel_vjp_op){0};
    TRY(gram_kernel_describe(g, &pair, args->options, &expressions->by_s, &op->kernel));
    TRY(gram_options_copy(g, &options, sizeof options, args->options));
    whole.options = &options;
    TRY(check_kernel(g, options.output, &op->kernel));
    TRY(view_grad(g, &whole, op));
    if (!args->grads)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grads is NULL");
    if (args->grads->bandwidth && op->kernel.function == GRAM_EXPRESSION)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "grads.bandwidth is given, expected NULL, because GRAM_EXPRESSION has no "
                         "bandwidth");
    TRY(view_outputs(g, &whole, op));
    TRY(compile_norms(g, &options, expressions, op));
    if (!g->backend->kernel_vjp)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                            const gram_kernel_options *options, const gram_tensor *grad,
                            const gram_kernel_grads *grads)
{
    const struct vjp_args args = {x, y, options, grad, grads};
    struct vjp_expressions expressions;
    struct gram_kernel_vjp_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, &expressions, &op));
    return gram_lengths_vjp(g, &op);
}

gram_status gram_kernel_vjp_workspace(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                      const gram_kernel_options *options, const gram_tensor *grad,
                                      const gram_kernel_grads *grads, gram_workspace *need)
{
    const struct vjp_args args = {x, y, options, grad, grads};
    struct vjp_expressions expressions;
    struct gram_kernel_vjp_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &expressions, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_vjp(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
