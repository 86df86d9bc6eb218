/*
 * cdist.c - gram_cdist: check the arguments, describe the work, hand it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "pairwise.h"
#include <math.h>

static gram_status describe(gram_context *g, const struct gram_pair *pair, gram_scalar p,
                            const gram_cdist_options *options, struct gram_cdist_op *op)
{
    gram_cdist_options o = GRAM_CDIST_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, options));
    *op = (struct gram_cdist_op){.batch.count = 1,
                                 .inner = GRAM_DIFFERENCE,
                                 .root = !o.no_root,
                                 .outer_power.value = 1,
                                 .function = GRAM_IDENTITY,
                                 .output = GRAM_VALUE};
    TRY(gram_pair_join(g, pair, &op->batch));
    if (p.tensor)
        TRY(gram_batch_join(g, &op->batch, "p", p.tensor, 0));
    TRY(gram_pair_view(g, pair, op));
    TRY(gram_hyper_of(g, &op->batch, "p", p, &op->p));
    TRY(gram_hyper_check(g, &op->batch, "p", &op->p, 0, INFINITY, false));
    if (!g->backend->cdist)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no cdist", g->backend->name);
    return GRAM_OK;
}

gram_status gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y, gram_scalar p,
                       const gram_cdist_options *options, gram_tensor *out)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    struct gram_cdist_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(describe(g, &pair, p, options, &op));
    return g->backend->cdist(g, &op);
}

gram_status gram_cdist_workspace(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                 gram_scalar p, const gram_cdist_options *options,
                                 const gram_tensor *out, gram_workspace *need)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    struct gram_cdist_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &pair, p, options, &op));
    *need = gram_workspace_on(g, g->backend->cdist_workspace(g, &op));
    return GRAM_OK;
}
