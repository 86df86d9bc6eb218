/*
 * cdist_grad.c - gram_cdist_grad: checks the arguments, describes the work, hands it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

static gram_status check_dtypes(gram_context *g, const struct gram_grad_inputs *in)
{
    const struct {
        const char *name;
        const gram_tensor *t;
    } inputs[] = {
        {"b", in->b},
        {"c", in->c},
        {"d", in->d},
    };

    TRY(gram_check_real(g, "a", in->a));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i].t->dtype != in->a->dtype)
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected that of a, %s",
                             inputs[i].name, gram_dtype_name(inputs[i].t->dtype),
                             gram_dtype_name(in->a->dtype));
    return GRAM_OK;
}

static gram_status check_shapes(gram_context *g, const struct gram_cdist_grad_op *op)
{
    if (op->b.cols != op->a.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "b has %lld columns but a has %lld rows (one per centre)",
                         (long long)op->b.cols, (long long)op->a.rows);
    if (op->c.cols != op->a.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "c has %lld columns but a has %lld rows (one per centre)",
                         (long long)op->c.cols, (long long)op->a.rows);
    if (op->d.cols != op->a.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "d has %lld columns but a has %lld (one per point)", (long long)op->d.cols,
                         (long long)op->a.cols);
    if (op->d.rows != op->b.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "d has %lld rows but b has %lld (one per feature)", (long long)op->d.rows,
                         (long long)op->b.rows);
    return GRAM_OK;
}

gram_status gram_grad_describe(gram_context *g, const struct gram_grad_inputs *in,
                               struct gram_cdist_grad_op *op)
{
    struct gram_batch *batch = &op->batch;

    *op = (struct gram_cdist_grad_op){.batch.count = 1};
    TRY(gram_batch_join(g, batch, "a", in->a, 2));
    TRY(gram_batch_join(g, batch, "b", in->b, 2));
    TRY(gram_batch_join(g, batch, "c", in->c, 2));
    TRY(gram_batch_join(g, batch, "d", in->d, 2));
    if (in->p.tensor)
        TRY(gram_batch_join(g, batch, "p", in->p.tensor, 0));
    TRY(gram_view_of(g, batch, "a", in->a, 2, GRAM_READ, &op->a));
    TRY(gram_view_of(g, batch, "b", in->b, 2, GRAM_READ, &op->b));
    TRY(gram_view_of(g, batch, "c", in->c, 2, GRAM_READ, &op->c));
    TRY(gram_view_of(g, batch, "d", in->d, 2, GRAM_READ, &op->d));
    TRY(gram_hyper_of(g, batch, "p", in->p, &op->p));
    TRY(check_dtypes(g, in));
    return check_shapes(g, op);
}

gram_status gram_grad_check_p(gram_context *g, const struct gram_batch *batch,
                              const struct gram_hyper *p)
{
    return gram_hyper_check(g, batch, "p", p, 0, INFINITY, true);
}

gram_status gram_grad_check_out(gram_context *g, const struct gram_grad_inputs *in,
                                const gram_tensor *out)
{
    if (out->dtype != in->a->dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has dtype %s, expected that of a, %s",
                         gram_dtype_name(out->dtype), gram_dtype_name(in->a->dtype));
    TRY(gram_check_apart(g, "out", out, "a", in->a));
    TRY(gram_check_apart(g, "out", out, "b", in->b));
    TRY(gram_check_apart(g, "out", out, "c", in->c));
    TRY(gram_check_apart(g, "out", out, "d", in->d));
    if (in->p.tensor)
        TRY(gram_check_apart(g, "out", out, "p", in->p.tensor));
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct gram_grad_inputs *in,
                            const gram_tensor *out, struct gram_cdist_grad_op *op)
{
    TRY(gram_grad_describe(g, in, op));
    TRY(gram_view_of(g, &op->batch, "out", out, 3, GRAM_WRITE, &op->out));
    if (op->out.planes != op->c.rows || op->out.rows != op->d.rows || op->out.cols != op->d.cols)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT, "out is %lld by %lld by %lld, expected %lld by %lld by %lld",
            (long long)op->out.planes, (long long)op->out.rows, (long long)op->out.cols,
            (long long)op->c.rows, (long long)op->d.rows, (long long)op->d.cols);
    TRY(gram_grad_check_out(g, in, out));
    if (!g->backend->cdist_grad)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_cdist_grad(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                            const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                            gram_tensor *out)
{
    const struct gram_grad_inputs in = {a, b, c, d, p};
    struct gram_cdist_grad_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &in, out, &op));
    TRY(gram_grad_check_p(g, &op.batch, &op.p));
    return g->backend->cdist_grad(g, &op);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the formula */
gram_status gram_cdist_grad_workspace(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                      const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                      const gram_tensor *out, gram_workspace *need)
{
    const struct gram_grad_inputs in = {a, b, c, d, p};
    struct gram_cdist_grad_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &in, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->cdist_grad(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
