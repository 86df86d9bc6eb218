/*
 * natural_gradient.c - gram_natural_gradient: checks the arguments, describes the work, hands it to
 * the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/scratch.h"
#include <float.h>

static gram_status view_inputs(gram_context *g, const gram_tensor *gradients, const gram_tensor *v,
                               gram_scalar damping, struct gram_natural_gradient_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "gradients", gradients, 2));
    TRY(gram_check_real(g, "gradients", gradients));
    TRY(gram_batch_join(g, &op->batch, "v", v, 1));
    TRY(gram_check_dtype(g, "v", v, gradients->dtype));
    if (damping.tensor)
        TRY(gram_batch_join(g, &op->batch, "damping", damping.tensor, 0));
    TRY(gram_hyper_of(g, &op->batch, "damping", damping, &op->damping));
    TRY(gram_hyper_check(g, &op->batch, "damping", &op->damping, 0, DBL_MAX, true));
    TRY(gram_view_of(g, &op->batch, "gradients", gradients, 2, GRAM_READ, &op->gradients));
    TRY(gram_view_of(g, &op->batch, "v", v, 1, GRAM_READ, &op->v));
    if (op->v.cols != op->gradients.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "v has %lld elements per item, expected %lld, the number of columns of "
                         "gradients",
                         (long long)op->v.cols, (long long)op->gradients.cols);
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const gram_tensor *gradients, const gram_tensor *v,
                            gram_scalar damping, const gram_tensor *out, const gram_tensor *info,
                            struct gram_natural_gradient_op *op)
{
    *op = (struct gram_natural_gradient_op){.batch.count = 1, .has_info = info != NULL};
    TRY(view_inputs(g, gradients, v, damping, op));
    TRY(gram_view_of(g, &op->batch, "out", out, 1, GRAM_WRITE, &op->out));
    TRY(gram_check_dtype(g, "out", out, gradients->dtype));
    if (op->out.cols != op->v.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has %lld elements per item, expected %lld",
                         (long long)op->out.cols, (long long)op->v.cols);
    TRY(gram_check_apart(g, "out", out, "gradients", gradients));
    if (!gram_tensors_same(out, v))
        TRY(gram_check_apart(g, "out", out, "v", v));
    if (damping.tensor)
        TRY(gram_check_apart(g, "out", out, "damping", damping.tensor));
    if (info) {
        TRY(gram_view_number(g, &op->batch, "info", info, GRAM_I32, &op->info));
        TRY(gram_check_apart(g, "info", info, "gradients", gradients));
        TRY(gram_check_apart(g, "info", info, "v", v));
        TRY(gram_check_apart(g, "info", info, "out", out));
        if (damping.tensor)
            TRY(gram_check_apart(g, "info", info, "damping", damping.tensor));
    }
    if (!g->backend->natural_gradient)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_natural_gradient(gram_context *g, const gram_tensor *gradients,
                                  const gram_tensor *v, gram_scalar damping, gram_tensor *out,
                                  gram_tensor *info)
{
    struct gram_natural_gradient_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, gradients, v, damping, out, info, &op));
    return g->backend->natural_gradient(g, &op);
}

gram_status gram_natural_gradient_workspace(gram_context *g, const gram_tensor *gradients,
                                            const gram_tensor *v, gram_scalar damping,
                                            const gram_tensor *out, gram_workspace *need)
{
    struct gram_natural_gradient_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, gradients, v, damping, out, NULL, &op));
    TRY(gram_measure(g, &bytes, g->backend->natural_gradient(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
