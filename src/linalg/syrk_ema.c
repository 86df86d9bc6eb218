/*
 * syrk_ema.c - gram_syrk_ema: checks the arguments, describes the work, hands it to the device
 *
 * A device sees G G^T alone, as strides say G^T as well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/scratch.h"
#include "kron/kron.h"
#include <float.h>

static gram_status view_inputs(gram_context *g, const gram_tensor *x,
                               const gram_syrk_ema_options *o, const gram_tensor *l,
                               struct gram_syrk_ema_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "x", x, 2));
    TRY(gram_check_real(g, "x", x));
    if (o->beta.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.beta", o->beta.tensor, 0));
    if (o->alpha.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.alpha", o->alpha.tensor, 0));
    TRY(gram_batch_join(g, &op->batch, "l", l, op->packed ? 1 : 2));
    TRY(gram_view_of(g, &op->batch, "x", x, 2, GRAM_READ, &op->x));
    if (o->transpose)
        gram_view_transpose(&op->x);
    TRY(gram_hyper_of(g, &op->batch, "options.beta", o->beta, &op->beta));
    TRY(gram_hyper_of(g, &op->batch, "options.alpha", o->alpha, &op->alpha));
    TRY(gram_hyper_check(g, &op->batch, "options.beta", &op->beta, 0, 1, false));
    return gram_hyper_check(g, &op->batch, "options.alpha", &op->alpha, -DBL_MAX, DBL_MAX, false);
}

static gram_status check_l(gram_context *g, const gram_tensor *x, const gram_syrk_ema_options *o,
                           const gram_tensor *l, struct gram_syrk_ema_op *op)
{
    int64_t n = op->x.rows, size = 0;

    TRY(gram_view_of(g, &op->batch, "l", l, op->packed ? 1 : 2, GRAM_WRITE, &op->l));
    TRY(gram_check_dtype(g, "l", l, x->dtype));
    if (op->packed && __builtin_mul_overflow(n, n + 1, &size))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the triangle of order %lld overflows",
                         (long long)n);
    if (op->packed && op->l.cols != size / 2)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "l has %lld elements per item, expected %lld for a packed triangle of "
                         "order %lld",
                         (long long)op->l.cols, (long long)size / 2, (long long)n);
    if (!op->packed && (op->l.rows != n || op->l.cols != n))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "l is %lld by %lld, expected %lld by %lld",
                         (long long)op->l.rows, (long long)op->l.cols, (long long)n, (long long)n);
    TRY(gram_check_apart(g, "l", l, "x", x));
    if (o->beta.tensor)
        TRY(gram_check_apart(g, "l", l, "options.beta", o->beta.tensor));
    if (o->alpha.tensor)
        TRY(gram_check_apart(g, "l", l, "options.alpha", o->alpha.tensor));
    return GRAM_OK;
}

static gram_status check_info(gram_context *g, const gram_tensor *x, const gram_syrk_ema_options *o,
                              const gram_tensor *l, const gram_tensor *info,
                              struct gram_syrk_ema_op *op)
{
    op->has_info = info != NULL;
    if (!info)
        return GRAM_OK;
    TRY(gram_view_number(g, &op->batch, "info", info, GRAM_I32, &op->info));
    TRY(gram_check_apart(g, "info", info, "x", x));
    TRY(gram_check_apart(g, "info", info, "l", l));
    if (o->beta.tensor)
        TRY(gram_check_apart(g, "info", info, "options.beta", o->beta.tensor));
    if (o->alpha.tensor)
        TRY(gram_check_apart(g, "info", info, "options.alpha", o->alpha.tensor));
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const gram_tensor *x,
                            const gram_syrk_ema_options *given, const gram_tensor *l,
                            const gram_tensor *info, struct gram_syrk_ema_op *op)
{
    gram_syrk_ema_options o = GRAM_SYRK_EMA_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, given));
    *op = (struct gram_syrk_ema_op){
        .batch.count = 1,
        .packed = o.packed != 0,
        .sum = o.sum != 0,
        .keep = o.keep != 0,
    };
    TRY(view_inputs(g, x, &o, l, op));
    TRY(check_l(g, x, &o, l, op));
    TRY(check_info(g, x, &o, l, info, op));
    if (!g->backend->syrk_ema)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_syrk_ema(gram_context *g, const gram_tensor *x,
                          const gram_syrk_ema_options *options, gram_tensor *l, gram_tensor *info)
{
    struct gram_syrk_ema_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, x, options, l, info, &op));
    return g->backend->syrk_ema(g, &op);
}

gram_status gram_syrk_ema_workspace(gram_context *g, const gram_tensor *x,
                                    const gram_syrk_ema_options *options, const gram_tensor *l,
                                    gram_workspace *need)
{
    struct gram_syrk_ema_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, x, options, l, NULL, &op));
    TRY(gram_measure(g, &bytes, g->backend->syrk_ema(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
