/*
 * agop.c - gram_agop: checks the arguments, describes the work, hands it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"

static gram_status check_shape(gram_context *g, const struct gram_agop_op *op)
{
    long long n = (long long)op->d.rows;

    if (op->diagonal && op->out.cols != n)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has %lld elements per item, expected %lld",
                         (long long)op->out.cols, n);
    if (!op->diagonal && (op->out.rows != n || op->out.cols != n))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is %lld by %lld, expected %lld by %lld",
                         (long long)op->out.rows, (long long)op->out.cols, n, n);
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct gram_grad_inputs *in,
                            const gram_agop_options *options, const gram_tensor *out,
                            struct gram_agop_op *op)
{
    gram_agop_options o = GRAM_AGOP_OPTIONS_INIT;
    struct gram_cdist_grad_op grad;

    TRY(gram_options_copy(g, &o, sizeof o, options));
    if (o.points < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.points is %lld, expected at least 0 (0: the points given)",
                         (long long)o.points);
    TRY(gram_grad_describe(g, in, &grad));
    *op = (struct gram_agop_op){
        .batch = grad.batch,
        .a = grad.a,
        .b = grad.b,
        .c = grad.c,
        .d = grad.d,
        .p = grad.p,
        .diagonal = o.diagonal != 0,
        .accumulate = o.accumulate != 0,
        .points = o.points ? o.points : grad.d.cols,
    };
    TRY(gram_view_of(g, &op->batch, "out", out, op->diagonal ? 1 : 2, GRAM_WRITE, &op->out));
    TRY(check_shape(g, op));
    TRY(gram_grad_check_out(g, in, out));
    if (!g->backend->agop)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_agop(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                      const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                      const gram_agop_options *options, gram_tensor *out)
{
    const struct gram_grad_inputs in = {a, b, c, d, p};
    struct gram_agop_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &in, options, out, &op));
    TRY(gram_grad_check_p(g, &op.batch, &op.p));
    return g->backend->agop(g, &op);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_agop_workspace(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                const gram_agop_options *options, const gram_tensor *out,
                                gram_workspace *need)
{
    const struct gram_grad_inputs in = {a, b, c, d, p};
    struct gram_agop_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &in, options, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->agop(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
