/*
 * kron_matmul_vjp.c - gram_kron_matmul_vjp: checks the arguments, describes the work
 *
 * Every call becomes one from the right: y = (F1 (x) F2) x is y^T = x^T (F1^T (x) F2^T), and a
 * transposed matrix is a view with its strides exchanged, its gradient too.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "kron.h"
#include <float.h>
#include <string.h>

/* What the call and its workspace query are given. */
struct vjp_args {
    const gram_tensor *x;
    const gram_tensor *const *factors;
    int64_t count;
    const gram_kron_options *options;
    const gram_tensor *grad;
    const gram_kron_grads *grads;
};

static uint32_t transposed_factors(const gram_kron_options *o)
{
    return o->side == GRAM_LEFT ? ~o->transpose_factors : o->transpose_factors;
}

static bool transposed_x(const gram_kron_options *o)
{
    return (o->side == GRAM_LEFT) != (o->transpose_x != 0);
}

static gram_status check_dtype(gram_context *g, const char *name, const struct gram_view *v,
                               gram_dtype expected)
{
    if (v->dtype != expected)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected that of x, %s", name,
                         gram_dtype_name(v->dtype), gram_dtype_name(expected));
    return GRAM_OK;
}

static gram_status read_options(gram_context *g, const gram_kron_options *given,
                                gram_kron_options *o)
{
    *o = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    TRY(gram_kron_check_alone(g, o));
    if (o->side != GRAM_RIGHT && o->side != GRAM_LEFT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.side is %d, expected GRAM_RIGHT or GRAM_LEFT", (int)o->side);
    return GRAM_OK;
}

/* The batch, and the views of what is read. */
static gram_status view_inputs(gram_context *g, const struct vjp_args *args,
                               struct gram_kron_matmul_vjp_op *op, int64_t size[2])
{
    const gram_kron_options *o = args->options;

    TRY(gram_batch_join(g, &op->batch, "x", args->x, 2));
    TRY(gram_factors_join(g, &op->batch, args->factors, args->count));
    op->count = (int)args->count;
    if (o->alpha.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.alpha", o->alpha.tensor, 0));
    TRY(gram_batch_join(g, &op->batch, "grad", args->grad, 2));
    TRY(gram_view_of(g, &op->batch, "x", args->x, 2, GRAM_READ, &op->x));
    TRY(gram_view_of(g, &op->batch, "grad", args->grad, 2, GRAM_READ, &op->grad));
    TRY(gram_factors_view(g, &op->batch, args->factors, args->count, transposed_factors(o),
                          op->factor, size));
    TRY(gram_hyper_of(g, &op->batch, "options.alpha", o->alpha, &op->alpha));
    TRY(gram_hyper_check(g, &op->batch, "options.alpha", &op->alpha, -DBL_MAX, DBL_MAX, false));
    if (op->x.dtype != GRAM_F32 && op->x.dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->x.dtype));
    TRY(check_dtype(g, "factors[0]", &op->factor[0], op->x.dtype));
    return check_dtype(g, "grad", &op->grad, op->x.dtype);
}

/* x and grad have the sizes that the factors give them; both are turned to the right side. */
static gram_status check_sizes(gram_context *g, const struct vjp_args *args,
                               struct gram_kron_matmul_vjp_op *op, const int64_t size[2])
{
    bool left = args->options->side == GRAM_LEFT;

    if (transposed_x(args->options))
        gram_view_transpose(&op->x);
    if (op->x.cols != size[0])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has %lld %s, expected %lld, the product of the factors' %s",
                         (long long)op->x.cols, transposed_x(args->options) ? "rows" : "columns",
                         (long long)size[0], left ? "columns" : "rows");
    if (left)
        gram_view_transpose(&op->grad);
    if (op->grad.rows != op->x.rows || op->grad.cols != size[1])
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grad is %lld by %lld, expected %lld by %lld",
                         (long long)(left ? op->grad.cols : op->grad.rows),
                         (long long)(left ? op->grad.rows : op->grad.cols),
                         (long long)(left ? size[1] : op->x.rows),
                         (long long)(left ? op->x.rows : size[1]));
    return GRAM_OK;
}

/* Views the gradient to an input, which has the input's shape and is summed over the rest of the
 * batch; refuses it where it overlaps what is read. */
static gram_status view_gradient(gram_context *g, const struct vjp_args *args, const char *name,
                                 const gram_tensor *t, const gram_tensor *input,
                                 const struct gram_batch *batch, struct gram_view *out)
{
    struct gram_batch own = {.count = 1};

    TRY(gram_batch_join(g, &own, name, t, 2));
    TRY(gram_view_of(g, &own, name, t, 2, GRAM_WRITE, out));
    TRY(check_dtype(g, name, out, args->x->dtype));
    if (t->ndim != input->ndim ||
        memcmp(t->shape, input->shape, (size_t)t->ndim * sizeof *t->shape) != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is %lld by %lld with %d dimensions, expected the shape of its input, "
                         "which is %lld by %lld with %d dimensions",
                         name, (long long)out->rows, (long long)out->cols, (int)t->ndim,
                         (long long)input->shape[input->ndim - 2],
                         (long long)input->shape[input->ndim - 1], (int)input->ndim);
    TRY(gram_check_apart(g, name, t, "x", args->x));
    TRY(gram_check_apart(g, name, t, "grad", args->grad));
    if (args->options->alpha.tensor)
        TRY(gram_check_apart(g, name, t, "options.alpha", args->options->alpha.tensor));
    TRY(gram_factors_apart(g, name, t, args->factors, args->count));
    return gram_view_of(g, batch, name, t, 2, GRAM_READ, out);
}

/* Refuses two gradients in one place. */
static gram_status check_gradients_apart(gram_context *g, const struct vjp_args *args, int of,
                                         const char *name)
{
    const gram_kron_grads *to = args->grads;
    char other[GRAM_FACTOR_NAME_BYTES];

    if (to->x)
        TRY(gram_check_apart(g, name, to->factors[of], "grads.x", to->x));
    for (int i = 0; i < of; i++)
        if (to->factors[i])
            TRY(gram_check_apart(g, name, to->factors[of], gram_factor_name(other, i),
                                 to->factors[i]));
    return GRAM_OK;
}

static gram_status view_outputs(gram_context *g, const struct vjp_args *args,
                                struct gram_kron_matmul_vjp_op *op)
{
    const gram_kron_grads *to = args->grads;
    char name[GRAM_FACTOR_NAME_BYTES + 8];

    if (!to)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grads is NULL");
    op->want_x = to->x != NULL;
    if (to->x) {
        TRY(view_gradient(g, args, "grads.x", to->x, args->x, &op->batch, &op->to_x));
        if (transposed_x(args->options))
            gram_view_transpose(&op->to_x);
    }
    for (int i = 0; to->factors && i < op->count; i++) {
        if (!to->factors[i])
            continue;
        memcpy(name, "grads.", sizeof "grads.");
        gram_factor_name(name + strlen(name), i);
        TRY(view_gradient(g, args, name, to->factors[i], args->factors[i], &op->batch,
                          &op->to_factor[i]));
        TRY(check_gradients_apart(g, args, i, name));
        if (transposed_factors(args->options) >> i & 1)
            gram_view_transpose(&op->to_factor[i]);
        op->want_factor[i] = true;
    }
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct vjp_args *given,
                            struct gram_kron_matmul_vjp_op *op)
{
    gram_kron_options options;
    struct vjp_args args = *given;
    int64_t size[2];

    *op = (struct gram_kron_matmul_vjp_op){.batch.count = 1};
    TRY(read_options(g, given->options, &options));
    args.options = &options;
    TRY(view_inputs(g, &args, op, size));
    TRY(check_sizes(g, &args, op, size));
    TRY(view_outputs(g, &args, op));
    if (!g->backend->kron_matmul_vjp)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                 const gram_tensor *const *factors, int64_t count,
                                 const gram_kron_options *options, const gram_tensor *grad,
                                 const gram_kron_grads *grads)
{
    const struct vjp_args args = {x, factors, count, options, grad, grads};
    struct gram_kron_matmul_vjp_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, &op));
    return g->backend->kron_matmul_vjp(g, &op);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_kron_matmul_vjp_workspace(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options,
                                           const gram_tensor *grad, const gram_kron_grads *grads,
                                           gram_workspace *need)
{
    const struct vjp_args args = {x, factors, count, options, grad, grads};
    struct gram_kron_matmul_vjp_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, g->backend->kron_matmul_vjp(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
