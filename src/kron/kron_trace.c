/*
 * kron_trace.c - gram_kron_trace and gram_kron_logdet: numbers of a Kronecker product
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron.h"

/* The factors, square, and one number an item for each output that is not NULL. */
static gram_status describe(gram_context *g, const gram_tensor *const *factors, int64_t count,
                            const gram_tensor *sign, const gram_tensor *out,
                            struct gram_kron_number_op *op)
{
    const struct {
        const char *name;
        const gram_tensor *t;
        struct gram_view *view;
    } outputs[] = {
        {"sign", sign, &op->sign},
        { "out",  out,  &op->out},
    };
    int64_t size[2];

    *op = (struct gram_kron_number_op){
        .batch.count = 1, .count = (int)count, .has_sign = sign != NULL};
    TRY(gram_factors_take(g, &op->batch, factors, count, op->factor, size));
    TRY(gram_factors_square(g, op->factor, op->count));
    op->order = size[0];
    for (int i = sign ? 0 : 1; i < 2; i++) {
        TRY(gram_view_of(g, &op->batch, outputs[i].name, outputs[i].t, 0, GRAM_WRITE,
                         outputs[i].view));
        TRY(gram_factors_dtype(g, outputs[i].name, outputs[i].view, op->factor[0].dtype));
        TRY(gram_factors_apart(g, outputs[i].name, outputs[i].t, factors, count));
    }
    return sign ? gram_check_apart(g, "sign", sign, "out", out) : GRAM_OK;
}

static gram_status describe_trace(gram_context *g, const gram_tensor *const *factors, int64_t count,
                                  const gram_tensor *out, struct gram_kron_number_op *op)
{
    TRY(describe(g, factors, count, NULL, out, op));
    if (op->out.dtype == GRAM_F16 || op->out.dtype == GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "factors[0] has dtype %s, expected f32, f64, i32 or i64",
                         gram_dtype_name(op->out.dtype));
    if (!g->backend->kron_trace)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no kron_trace", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_trace(gram_context *g, const gram_tensor *const *factors, int64_t count,
                            gram_tensor *out)
{
    struct gram_kron_number_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_trace(g, factors, count, out, &op));
    return g->backend->kron_trace(g, &op);
}

static gram_status describe_logdet(gram_context *g, const gram_tensor *const *factors,
                                   int64_t count, const gram_tensor *sign, const gram_tensor *out,
                                   struct gram_kron_number_op *op)
{
    TRY(describe(g, factors, count, sign, out, op));
    if (op->out.dtype != GRAM_F32 && op->out.dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "factors[0] has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->out.dtype));
    if (!g->backend->kron_logdet)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no kron_logdet", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_logdet(gram_context *g, const gram_tensor *const *factors, int64_t count,
                             gram_tensor *sign, gram_tensor *out)
{
    struct gram_kron_number_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_logdet(g, factors, count, sign, out, &op));
    return g->backend->kron_logdet(g, &op);
}

gram_status gram_kron_logdet_workspace(gram_context *g, const gram_tensor *const *factors,
                                       int64_t count, const gram_tensor *sign,
                                       const gram_tensor *out, gram_workspace *need)
{
    struct gram_kron_number_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe_logdet(g, factors, count, sign, out, &op));
    TRY(g->backend->kron_logdet_workspace(g, &op, &bytes));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
