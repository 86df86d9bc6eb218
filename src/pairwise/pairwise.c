/*
 * pairwise.c - the checks of x, y and out
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"

gram_status gram_pair_join(gram_context *g, const struct gram_pair *pair, struct gram_batch *batch)
{
    TRY(gram_batch_join(g, batch, "x", pair->x, 2));
    if (pair->y)
        TRY(gram_batch_join(g, batch, "y", pair->y, 2));
    if (pair->v)
        TRY(gram_batch_join(g, batch, "v", pair->v, 2));
    return GRAM_OK;
}

static gram_status check_dtypes(gram_context *g, const struct gram_pair *pair)
{
    gram_dtype x = pair->x->dtype;

    if (x != GRAM_F32 && x != GRAM_F64 && x != GRAM_F16 && x != GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32, f64, f16 or bf16",
                         gram_dtype_name(x));
    if (pair->y && pair->y->dtype != x)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "y has dtype %s, expected that of x, %s",
                         gram_dtype_name(pair->y->dtype), gram_dtype_name(x));
    return GRAM_OK;
}

static gram_status view_out(gram_context *g, const struct gram_pair *pair, struct gram_cdist_op *op)
{
    gram_dtype result = op->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    TRY(gram_view_of(g, &op->batch, "out", pair->out, 2, GRAM_WRITE, &op->out));
    if (op->out.dtype != result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has dtype %s, expected %s for x in %s",
                         gram_dtype_name(op->out.dtype), gram_dtype_name(result),
                         gram_dtype_name(op->x.dtype));
    if (op->out.rows != op->x.rows || op->out.cols != op->y.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is %lld by %lld, expected %lld by %lld",
                         (long long)op->out.rows, (long long)op->out.cols, (long long)op->x.rows,
                         (long long)op->y.rows);
    TRY(gram_check_apart(g, "out", pair->out, "x", pair->x));
    return pair->y ? gram_check_apart(g, "out", pair->out, "y", pair->y) : GRAM_OK;
}

gram_status gram_pair_view(gram_context *g, const struct gram_pair *pair, struct gram_cdist_op *op)
{
    const gram_tensor *y = pair->y ? pair->y : pair->x;

    TRY(gram_view_of(g, &op->batch, "x", pair->x, 2, GRAM_READ, &op->x));
    TRY(gram_view_of(g, &op->batch, pair->y ? "y" : "x", y, 2, GRAM_READ, &op->y));
    TRY(check_dtypes(g, pair));
    op->symmetric = gram_tensors_same(pair->x, y);
    if (op->x.cols != op->y.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has %lld columns but y has %lld",
                         (long long)op->x.cols, (long long)op->y.cols);
    return pair->no_out ? GRAM_OK : view_out(g, pair, op);
}
