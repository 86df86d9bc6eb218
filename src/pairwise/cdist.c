/*
 * cdist.c - gram_cdist: check the arguments, describe the work, hand it to the device; and the
 * checks of x, y and out that it shares with gram_kernel
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

/* ---- x, y and out --------------------------------------------------------------------------- */

gram_status gram_pair_join(gram_context *g, const struct gram_pair *pair, struct gram_batch *batch)
{
    TRY(gram_batch_join(g, batch, "x", pair->x, 2));
    if (pair->y)
        TRY(gram_batch_join(g, batch, "y", pair->y, 2));
    if (pair->v)
        TRY(gram_batch_join(g, batch, "v", pair->v, 2));
    if (pair->grad)
        TRY(gram_batch_join(g, batch, "grad", pair->grad, pair->grad_is_vector ? 1 : 2));
    if (pair->log_weights)
        TRY(gram_batch_join(g, batch, "options.log_weights", pair->log_weights, 1));
    return GRAM_OK;
}

static gram_status check_dtypes(gram_context *g, const struct gram_pair *pair)
{
    gram_dtype x = pair->x->dtype;

    if (pair->bits && x != GRAM_U8)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has dtype %s, expected u8 with options.metric->bits",
                         gram_dtype_name(x));
    if (!pair->bits && x != GRAM_F32 && x != GRAM_F64 && x != GRAM_F16 && x != GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32, f64, f16 or bf16",
                         gram_dtype_name(x));
    if (pair->y && pair->y->dtype != x)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "y has dtype %s, expected that of x, %s",
                         gram_dtype_name(pair->y->dtype), gram_dtype_name(x));
    return GRAM_OK;
}

/* The vector of the distances with i < j, seen as m by m, and empty where it is. */
static gram_status view_condensed(gram_context *g, struct gram_cdist_op *op)
{
    const int64_t m = op->x.rows, most = INT64_C(1) << 31;

    if (m >= most)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "x has %lld rows, expected fewer than 2^31 with "
                         "options.condensed",
                         (long long)m);
    if (op->out.cols != m * (m - 1) / 2)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has %lld elements, expected %lld",
                         (long long)op->out.cols, (long long)(m * (m - 1) / 2));
    TRY(gram_metric_rows_fit(g, op));
    op->out.rows = op->out.cols = m < 2 ? 0 : m;
    op->condensed = true;
    return GRAM_OK;
}

static gram_status view_out(gram_context *g, const struct gram_pair *pair, struct gram_cdist_op *op)
{
    gram_dtype result = op->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    int core = pair->condensed ? 1 : 2;

    TRY(gram_view_of(g, &op->batch, "out", pair->out, core, GRAM_WRITE, &op->out));
    if (op->out.dtype != result)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has dtype %s, expected %s for x in %s",
                         gram_dtype_name(op->out.dtype), gram_dtype_name(result),
                         gram_dtype_name(op->x.dtype));
    if (pair->condensed)
        TRY(view_condensed(g, op));
    else if (op->out.rows != op->x.rows || op->out.cols != op->y.rows)
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
    if (pair->bits && op->x.cols != gram_ceil_div(pair->bits, 8))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has %lld columns, expected %lld, the bytes of options.metric->bits, "
                         "%lld",
                         (long long)op->x.cols, (long long)gram_ceil_div(pair->bits, 8),
                         (long long)pair->bits);
    return pair->no_out ? GRAM_OK : view_out(g, pair, op);
}

/* ---- gram_cdist ----------------------------------------------------------------------------- */

static gram_status describe(gram_context *g, struct gram_pair *pair, gram_scalar p,
                            const gram_cdist_options *options, struct gram_cdist_op *op)
{
    gram_cdist_options o = GRAM_CDIST_OPTIONS_INIT;
    gram_distance metric = GRAM_DISTANCE_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, options));
    if (o.metric)
        TRY(gram_metric_copy(g, o.metric, &metric));
    gram_metric_take_bits(g, &metric);
    pair->bits = metric.bits;
    pair->condensed = o.condensed != 0;
    if (o.condensed && pair->y)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "y is not NULL, expected distances between the rows of x with "
                         "options.condensed");
    *op = (struct gram_cdist_op){.batch.count = 1,
                                 .inner = GRAM_DIFFERENCE,
                                 .root = !o.no_root,
                                 .outer_power.value = 1,
                                 .function = GRAM_IDENTITY,
                                 .output = GRAM_VALUE};
    TRY(gram_pair_join(g, pair, &op->batch));
    if (o.metric)
        TRY(gram_metric_join(g, &metric, &op->batch));
    else if (p.tensor)
        TRY(gram_batch_join(g, &op->batch, "p", p.tensor, 0));
    TRY(gram_pair_view(g, pair, op));
    if (o.metric) {
        TRY(gram_metric_view(g, &metric, o.no_root != 0, op));
        if (metric.weights)
            TRY(gram_check_apart(g, "out", pair->out, "options.metric->weights", metric.weights));
    } else {
        TRY(gram_hyper_of(g, &op->batch, "p", p, &op->p));
        TRY(gram_hyper_check(g, &op->batch, "p", &op->p, 0, INFINITY, false));
    }
    if (!g->backend->cdist)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y, gram_scalar p,
                       const gram_cdist_options *options, gram_tensor *out)
{
    struct gram_pair pair = {.x = x, .y = y, .out = out};
    struct gram_cdist_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(describe(g, &pair, p, options, &op));
    return g->backend->cdist(g, &op);
}

gram_status gram_cdist_workspace(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                 gram_scalar p, const gram_cdist_options *options,
                                 const gram_tensor *out, gram_workspace *need)
{
    struct gram_pair pair = {.x = x, .y = y, .out = out};
    struct gram_cdist_op op;
    size_t bytes;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &pair, p, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->cdist(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
