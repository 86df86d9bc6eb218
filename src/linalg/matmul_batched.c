/*
 * matmul_batched.c - gram_matmul_batched: checks the arguments, describes the work, hands it to the
 * device
 *
 * A device sees nothing transposed, as strides say it as well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matmul_batched.h"
#include "core/scratch.h"
#include "kron/kron.h"
#include <float.h>

/* Views of a and b as they are used, and of alpha and beta; the whole batch is joined before. */
static gram_status view_inputs(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                               const gram_matmul_options *o, struct gram_matmul_batched_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "a", a, 2));
    TRY(gram_check_real(g, "a", a));
    TRY(gram_batch_join(g, &op->batch, "b", b, 2));
    TRY(gram_check_dtype(g, "b", b, a->dtype));
    if (o->c) {
        TRY(gram_batch_join(g, &op->batch, "options.c", o->c, 2));
        TRY(gram_check_dtype(g, "options.c", o->c, a->dtype));
    }
    if (o->alpha.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.alpha", o->alpha.tensor, 0));
    if (o->beta.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.beta", o->beta.tensor, 0));
    TRY(gram_hyper_of(g, &op->batch, "options.alpha", o->alpha, &op->alpha));
    TRY(gram_hyper_of(g, &op->batch, "options.beta", o->beta, &op->beta));
    TRY(gram_hyper_check(g, &op->batch, "options.alpha", &op->alpha, -DBL_MAX, DBL_MAX, false));
    TRY(gram_hyper_check(g, &op->batch, "options.beta", &op->beta, -DBL_MAX, DBL_MAX, false));
    TRY(gram_view_of(g, &op->batch, "a", a, 2, GRAM_READ, &op->a));
    TRY(gram_view_of(g, &op->batch, "b", b, 2, GRAM_READ, &op->b));
    if (o->transpose_a)
        gram_view_transpose(&op->a);
    if (o->transpose_b)
        gram_view_transpose(&op->b);
    if (op->a.cols != op->b.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a has %lld %s but b has %lld %s",
                         (long long)op->a.cols, o->transpose_a ? "rows" : "columns",
                         (long long)op->b.rows, o->transpose_b ? "columns" : "rows");
    return GRAM_OK;
}

static gram_status check_shape(gram_context *g, const char *name, const struct gram_view *v,
                               const struct gram_matmul_batched_op *op)
{
    if (v->rows != op->a.rows || v->cols != op->b.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         name, (long long)v->rows, (long long)v->cols, (long long)op->a.rows,
                         (long long)op->b.cols);
    return GRAM_OK;
}

static gram_status check_apart(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                               const gram_matmul_options *o, const gram_tensor *out)
{
    TRY(gram_check_apart(g, "out", out, "a", a));
    TRY(gram_check_apart(g, "out", out, "b", b));
    if (o->c && !gram_tensors_same(out, o->c))
        TRY(gram_check_apart(g, "out", out, "options.c", o->c));
    if (o->alpha.tensor)
        TRY(gram_check_apart(g, "out", out, "options.alpha", o->alpha.tensor));
    if (o->beta.tensor)
        TRY(gram_check_apart(g, "out", out, "options.beta", o->beta.tensor));
    return GRAM_OK;
}

gram_status gram_matmul_describe(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                 const gram_matmul_options *given, const gram_tensor *out,
                                 struct gram_matmul_batched_op *op)
{
    gram_matmul_options o = GRAM_MATMUL_OPTIONS_INIT;

    *op = (struct gram_matmul_batched_op){.batch.count = 1};
    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(view_inputs(g, a, b, &o, op));
    TRY(gram_view_of(g, &op->batch, "out", out, 2, GRAM_WRITE, &op->out));
    TRY(gram_check_dtype(g, "out", out, a->dtype));
    TRY(check_shape(g, "out", &op->out, op));
    op->has_c = o.beta.tensor || o.beta.value != 0;
    if (o.c) {
        TRY(gram_view_of(g, &op->batch, "options.c", o.c, 2, GRAM_READ, &op->c));
        TRY(check_shape(g, "options.c", &op->c, op));
        op->c_is_out = gram_tensors_same(out, o.c);
    } else if (op->has_c) {
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.c is NULL, expected a tensor, because options.beta is not 0");
    }
    return check_apart(g, a, b, &o, out);
}

static gram_status describe(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                            const gram_matmul_options *options, const gram_tensor *out,
                            struct gram_matmul_batched_op *op)
{
    TRY(gram_matmul_describe(g, a, b, options, out, op));
    if (!g->backend->matmul_batched)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_matmul_batched(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                const gram_matmul_options *options, gram_tensor *out)
{
    struct gram_matmul_batched_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, a, b, options, out, &op));
    return g->backend->matmul_batched(g, &op);
}

gram_status gram_matmul_batched_workspace(gram_context *g, const gram_tensor *a,
                                          const gram_tensor *b, const gram_matmul_options *options,
                                          const gram_tensor *out, gram_workspace *need)
{
    struct gram_matmul_batched_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, a, b, options, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->matmul_batched(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
