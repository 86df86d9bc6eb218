/*
 * kron.c - gram_kron: checks the arguments, describes the work, hands it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron.h"

static gram_status describe(gram_context *g, const gram_tensor *const *factors, int64_t count,
                            const gram_tensor *out, struct gram_kron_op *op)
{
    int64_t size[2];

    *op = (struct gram_kron_op){.batch.count = 1, .count = (int)count};
    TRY(gram_factors_take(g, &op->batch, factors, count, op->factor, size));
    TRY(gram_view_of(g, &op->batch, "out", out, 2, GRAM_WRITE, &op->out));
    TRY(gram_factors_dtype(g, "out", &op->out, op->factor[0].dtype));
    if (op->out.rows != size[0] || op->out.cols != size[1])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "out is %lld by %lld, expected %lld by %lld, the products of the rows and "
                         "of the columns of the factors",
                         (long long)op->out.rows, (long long)op->out.cols, (long long)size[0],
                         (long long)size[1]);
    TRY(gram_factors_apart(g, "out", out, factors, count));
    if (!g->backend->kron)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no Kronecker product", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                      gram_tensor *out)
{
    struct gram_kron_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, factors, count, out, &op));
    return g->backend->kron(g, &op);
}

gram_status gram_kron_workspace(gram_context *g, const gram_tensor *const *factors, int64_t count,
                                const gram_tensor *out, gram_workspace *need)
{
    struct gram_kron_op op;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, factors, count, out, &op));
    *need = gram_workspace_on(g, g->backend->kron_workspace(g, &op));
    return GRAM_OK;
}
