/*
 * median.c - gram_median_distance: check the arguments, describe the work, hand it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

enum {
    DEFAULT_ROWS = 2000
};

static gram_status describe(gram_context *g, const gram_tensor *x, gram_scalar p,
                            const gram_median_options *options, const gram_tensor *out,
                            struct gram_median_op *op)
{
    gram_median_options o = GRAM_MEDIAN_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, options));
    if (o.rows < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.rows is %lld, expected at least 0",
                         (long long)o.rows);
    *op = (struct gram_median_op){.batch.count = 1, .root = !o.no_root, .seed = o.seed};
    TRY(gram_batch_join(g, &op->batch, "x", x, 2));
    if (p.tensor)
        TRY(gram_batch_join(g, &op->batch, "p", p.tensor, 0));
    TRY(gram_view_of(g, &op->batch, "x", x, 2, GRAM_READ, &op->x));
    if (x->dtype != GRAM_F32 && x->dtype != GRAM_F64 && x->dtype != GRAM_F16 &&
        x->dtype != GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32, f64, f16 or bf16",
                         gram_dtype_name(x->dtype));
    TRY(gram_hyper_of(g, &op->batch, "p", p, &op->p));
    TRY(gram_hyper_check(g, &op->batch, "p", &op->p, 0, INFINITY, false));
    TRY(gram_view_of(g, &op->batch, "out", out, 0, GRAM_WRITE, &op->out));
    if (out->dtype != (x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has dtype %s, expected %s for x in %s",
                         gram_dtype_name(out->dtype), x->dtype == GRAM_F64 ? "f64" : "f32",
                         gram_dtype_name(x->dtype));
    TRY(gram_check_apart(g, "out", out, "x", x));
    op->rows = o.rows == 0 ? DEFAULT_ROWS : o.rows;
    if (op->rows > op->x.rows)
        op->rows = op->x.rows;
    if (!g->backend->median)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_median_distance(gram_context *g, const gram_tensor *x, gram_scalar p,
                                 const gram_median_options *options, gram_tensor *out)
{
    struct gram_median_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(describe(g, x, p, options, out, &op));
    return g->backend->median(g, &op);
}

gram_status gram_median_distance_workspace(gram_context *g, const gram_tensor *x, gram_scalar p,
                                           const gram_median_options *options,
                                           const gram_tensor *out, gram_workspace *need)
{
    struct gram_median_op op;
    size_t bytes;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, x, p, options, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->median(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
