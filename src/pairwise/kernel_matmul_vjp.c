/*
 * kernel_matmul_vjp.c - gram_kernel_matmul_vjp: checks the arguments, and shares the gradients out
 *
 *   grads.v = K(y, x) grad
 * is a product with the transposed matrix, whose points, their places on the diagonal, and their
 * norms in an expression are exchanged.  All other gradients are those of K with the cotangent grad
 * v^T, of which a backend holds the two factors.
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"

static struct gram_kernel_matmul_op transposed_product(const struct gram_kernel_vjp_op *op)
{
    struct gram_kernel_matmul_op product = {.kernel = op->kernel, .v = op->grad, .out = op->to_v};

    if (op->value) {
        product.kernel.expression = op->value;
        /* The derivative of s + |x| by s is the same for both halves; its value is not. */
        product.kernel.symmetric &= op->value->mirrors;
    }
    product.kernel.x = op->kernel.y;
    product.kernel.y = op->kernel.x;
    product.kernel.row_offset = op->kernel.column_offset;
    product.kernel.column_offset = op->kernel.row_offset;
    return product;
}

static gram_status run_product(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_kernel_matmul_op product = transposed_product(op);

    return op->want_v ? g->backend->kernel_matmul(g, &product) : GRAM_OK;
}

static gram_status run_others(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const bool wanted = op->want_x || op->want_y || op->want_bandwidth || op->want_regularization;

    return wanted ? g->backend->kernel_matmul_vjp(g, op) : GRAM_OK;
}

gram_status gram_matmul_vjp_run(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return gram_vjp_parts(g, op, (gram_vjp_part *const[]){run_product, run_others}, 2);
}

/* What the call and its workspace query are given. */
struct product_args {
    const gram_tensor *x, *y; /* y NULL: x itself */
    const gram_kernel_options *kernel;
    const gram_tensor *v, *grad;
    const gram_kernel_matmul_grads *grads;
};

static gram_status describe(gram_context *g, const struct product_args *args,
                            struct gram_kernel_vjp_op *op)
{
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;

    if (!args->grads)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "grads is NULL");
    TRY(gram_options_copy(g, &grads, sizeof grads, args->grads));
    return gram_vjp_describe(g,
                             &(struct gram_vjp_args){.x = args->x,
                                                     .y = args->y,
                                                     .options = args->kernel,
                                                     .grad = args->grad,
                                                     .grads = &grads,
                                                     .of_product = true,
                                                     .v = args->v},
                             op);
}

gram_status gram_kernel_matmul_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   const gram_kernel_options *kernel, const gram_tensor *v,
                                   const gram_tensor *grad, const gram_kernel_matmul_grads *grads)
{
    const struct product_args args = {x, y, kernel, v, grad, grads};
    struct gram_kernel_vjp_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, &op));
    return gram_call_ended(g, gram_lengths_vjp(g, &op));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_kernel_matmul_vjp_workspace(gram_context *g, const gram_tensor *x,
                                             const gram_tensor *y,
                                             const gram_kernel_options *kernel,
                                             const gram_tensor *v, const gram_tensor *grad,
                                             const gram_kernel_matmul_grads *grads,
                                             gram_workspace *need)
{
    const struct product_args args = {x, y, kernel, v, grad, grads};
    struct gram_kernel_vjp_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, gram_lengths_vjp(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
