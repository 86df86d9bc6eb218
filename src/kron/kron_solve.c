/*
 * kron_solve.c - gram_kron_solve: checks the arguments, describes the work
 *
 * Systems with the factors on the left become such with them on the right: K X = B is
 * X^T K^T = B^T.  Symmetric factors stay as they are, so that uplo keeps its meaning.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "kron.h"
#include <float.h>

/* What the call and its workspace query are given. */
struct solve_args {
    const gram_tensor *const *factors;
    int64_t count;
    const gram_tensor *b, *x, *info;
};

static gram_status check_options(gram_context *g, const gram_kron_solve_options *o)
{
    if (o->side != GRAM_RIGHT && o->side != GRAM_LEFT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.side is %d, expected GRAM_RIGHT or GRAM_LEFT", (int)o->side);
    TRY(gram_check_uplo(g, o->uplo));
    if (o->method != GRAM_KRON_LU && o->method != GRAM_KRON_CHOLESKY &&
        o->method != GRAM_KRON_EIGEN)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected a gram_kron_method", (int)o->method);
    if (o->method != GRAM_KRON_EIGEN && (o->shift.tensor || o->shift.value != 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.shift is given, expected 0 unless options.method is "
                         "GRAM_KRON_EIGEN");
    return GRAM_OK;
}

static gram_status check_matrix(gram_context *g, const char *name, const struct gram_view *v,
                                int64_t rows, int64_t cols, gram_dtype dtype)
{
    TRY(gram_factors_dtype(g, name, v, dtype));
    if (v->rows != rows || v->cols != cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         name, (long long)v->rows, (long long)v->cols, (long long)rows,
                         (long long)cols);
    return GRAM_OK;
}

static gram_status view_inputs(gram_context *g, const struct solve_args *a,
                               const gram_kron_solve_options *o, struct gram_kron_solve_op *op)
{
    uint32_t turned = o->side == GRAM_LEFT && o->method == GRAM_KRON_LU ? UINT32_MAX : 0;
    bool left = o->side == GRAM_LEFT;
    int64_t size[2];

    TRY(gram_factors_join(g, &op->batch, a->factors, a->count));
    op->count = (int)a->count;
    TRY(gram_batch_join(g, &op->batch, "b", a->b, 2));
    if (o->shift.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.shift", o->shift.tensor, 0));
    TRY(gram_factors_view(g, &op->batch, a->factors, a->count, turned, op->factor, size));
    TRY(gram_factors_square(g, op->factor, op->count));
    if (op->factor[0].dtype != GRAM_F32 && op->factor[0].dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "factors[0] has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->factor[0].dtype));
    TRY(gram_view_of(g, &op->batch, "b", a->b, 2, GRAM_READ, &op->b));
    TRY(check_matrix(g, "b", &op->b, left ? size[0] : op->b.rows, left ? op->b.cols : size[0],
                     op->factor[0].dtype));
    TRY(gram_hyper_of(g, &op->batch, "options.shift", o->shift, &op->shift));
    return gram_hyper_check(g, &op->batch, "options.shift", &op->shift, -DBL_MAX, DBL_MAX, false);
}

static gram_status view_outputs(gram_context *g, const struct solve_args *a,
                                const gram_kron_solve_options *o, struct gram_kron_solve_op *op)
{
    TRY(gram_view_of(g, &op->batch, "x", a->x, 2, GRAM_WRITE, &op->x));
    TRY(check_matrix(g, "x", &op->x, op->b.rows, op->b.cols, op->b.dtype));
    TRY(gram_factors_apart(g, "x", a->x, a->factors, a->count));
    if (!gram_tensors_same(a->x, a->b))
        TRY(gram_check_apart(g, "x", a->x, "b", a->b));
    if (o->shift.tensor)
        TRY(gram_check_apart(g, "x", a->x, "options.shift", o->shift.tensor));
    if (!a->info)
        return GRAM_OK;
    TRY(gram_view_number(g, &op->batch, "info", a->info, GRAM_I32, &op->info));
    TRY(gram_factors_apart(g, "info", a->info, a->factors, a->count));
    TRY(gram_check_apart(g, "info", a->info, "b", a->b));
    TRY(gram_check_apart(g, "info", a->info, "x", a->x));
    if (o->shift.tensor)
        TRY(gram_check_apart(g, "info", a->info, "options.shift", o->shift.tensor));
    op->has_info = true;
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct solve_args *a,
                            const gram_kron_solve_options *given, struct gram_kron_solve_op *op)
{
    gram_kron_solve_options o = GRAM_KRON_SOLVE_OPTIONS_INIT;

    *op = (struct gram_kron_solve_op){.batch.count = 1};
    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(check_options(g, &o));
    op->method = o.method;
    op->uplo = o.uplo;
    TRY(view_inputs(g, a, &o, op));
    TRY(view_outputs(g, a, &o, op));
    if (o.side == GRAM_LEFT) {
        gram_view_transpose(&op->b);
        gram_view_transpose(&op->x);
    }
    if (!g->backend->kron_solve)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_solve(gram_context *g, const gram_tensor *const *factors, int64_t count,
                            const gram_tensor *b, const gram_kron_solve_options *options,
                            gram_tensor *x, gram_tensor *info)
{
    const struct solve_args a = {.factors = factors, .count = count, .b = b, .x = x, .info = info};
    struct gram_kron_solve_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &a, options, &op));
    return g->backend->kron_solve(g, &op);
}

gram_status gram_kron_solve_workspace(gram_context *g, const gram_tensor *const *factors,
                                      int64_t count, const gram_tensor *b,
                                      const gram_kron_solve_options *options, const gram_tensor *x,
                                      gram_workspace *need)
{
    const struct solve_args a = {.factors = factors, .count = count, .b = b, .x = x};
    struct gram_kron_solve_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &a, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->kron_solve(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
