/*
 * kron_diagonal.c - gram_kron_diagonal: the product of the factors' diagonals, which are rows
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron.h"

/* A diagonal is a row whose steps go down and to the right at once. */
static void take_diagonal(struct gram_view *v)
{
    v->col_stride += v->row_stride;
    v->rows = 1, v->row_stride = 0;
}

static gram_status describe(gram_context *g, const gram_tensor *const *factors, int64_t count,
                            const gram_tensor *out, struct gram_kron_op *op)
{
    int64_t size[2];

    *op = (struct gram_kron_op){.batch.count = 1, .count = (int)count};
    TRY(gram_factors_take(g, &op->batch, factors, count, op->factor, size));
    TRY(gram_factors_square(g, op->factor, op->count));
    TRY(gram_view_of(g, &op->batch, "out", out, 1, GRAM_WRITE, &op->out));
    TRY(gram_factors_dtype(g, "out", &op->out, op->factor[0].dtype));
    if (op->out.cols != size[0])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "out has %lld elements, expected %lld, the product of the orders of the "
                         "factors",
                         (long long)op->out.cols, (long long)size[0]);
    TRY(gram_factors_apart(g, "out", out, factors, count));
    for (int i = 0; i < op->count; i++)
        take_diagonal(&op->factor[i]);
    if (!g->backend->kron)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no Kronecker product", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_diagonal(gram_context *g, const gram_tensor *const *factors, int64_t count,
                               gram_tensor *out)
{
    struct gram_kron_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, factors, count, out, &op));
    return g->backend->kron(g, &op);
}

gram_status gram_kron_diagonal_workspace(gram_context *g, const gram_tensor *const *factors,
                                         int64_t count, const gram_tensor *out,
                                         gram_workspace *need)
{
    struct gram_kron_op op;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, factors, count, out, &op));
    *need = gram_workspace_on(g, g->backend->kron_workspace(g, &op));
    return GRAM_OK;
}
