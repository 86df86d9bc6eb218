/*
 * solve.c - gram_solve_cholesky and gram_solve_lu: check the arguments, describe the work
 *
 * The factorisation belongs to an item of a, the solution to an item of the joined batch of a and
 * b: factor and pivots have the batch shape of a, x and info that of the call.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/scratch.h"
#include <float.h>

/* What both calls and both queries are given. */
struct solve_args {
    const gram_tensor *a, *b, *x, *info;
    bool lu, query; /* query: only sizes are asked for; info is not known */
};

/* An output of one number per item that options ask for. */
struct number {
    const char *name;
    const gram_tensor *t; /* NULL: not asked for */
    gram_dtype dtype;
    bool of_a; /* an item of a, else of the batch */
    struct gram_view *view;
    bool *has;
};

/* a, b, x: their batch, views, shapes and dtypes. */
static gram_status view_system(gram_context *g, const struct solve_args *s,
                               struct gram_solve_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "a", s->a, 2));
    TRY(gram_check_square(g, "a", s->a));
    TRY(gram_check_real(g, "a", s->a));
    TRY(gram_batch_join(g, &op->batch, "b", s->b, 2));
    TRY(gram_view_of(g, &op->batch, "a", s->a, 2, GRAM_READ, &op->a));
    TRY(gram_view_of(g, &op->batch, "b", s->b, 2, GRAM_READ, &op->b));
    TRY(gram_view_of(g, &op->batch, "x", s->x, 2, GRAM_WRITE, &op->x));
    TRY(gram_check_dtype(g, "b", s->b, s->a->dtype));
    TRY(gram_check_dtype(g, "x", s->x, s->a->dtype));
    if (op->b.rows != op->a.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a is %lld by %lld but b has %lld rows",
                         (long long)op->a.rows, (long long)op->a.cols, (long long)op->b.rows);
    if (op->x.rows != op->b.rows || op->x.cols != op->b.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x is %lld by %lld, expected %lld by %lld",
                         (long long)op->x.rows, (long long)op->x.cols, (long long)op->b.rows,
                         (long long)op->b.cols);
    op->x_is_b = gram_tensors_same(s->x, s->b);
    if (!op->x_is_b)
        TRY(gram_check_apart(g, "x", s->x, "b", s->b));
    return gram_check_apart(g, "x", s->x, "a", s->a);
}

/* options.factor, with a's batch. */
static gram_status view_factor(gram_context *g, const struct solve_args *s,
                               const gram_solve_options *o, struct gram_solve_op *op)
{
    struct gram_batch own = {.count = 1};
    struct gram_view *f = &op->factor;

    if (!o->factor)
        return GRAM_OK;
    op->factor_is_a = gram_tensors_same(o->factor, s->a);
    if (o->factored && !op->factor_is_a)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.factor is another tensor, expected NULL or a itself, because "
                         "options.factored is set");
    if (o->factored)
        return GRAM_OK; /* a holds it already */
    TRY(gram_batch_join(g, &own, "a", s->a, 2));
    TRY(gram_view_of(g, &own, "options.factor", o->factor, 2, GRAM_WRITE, f));
    TRY(gram_check_dtype(g, "options.factor", o->factor, s->a->dtype));
    if (f->rows != op->a.rows || f->cols != op->a.cols)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT, "options.factor is %lld by %lld, expected %lld by %lld",
            (long long)f->rows, (long long)f->cols, (long long)op->a.rows, (long long)op->a.cols);
    if (!op->factor_is_a) {
        if (f->rows > 1 && f->row_stride != 1 && f->col_stride != 1)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.factor has strides %lld and %lld in its last two dimensions, "
                             "expected 1 in one of them",
                             (long long)f->row_stride, (long long)f->col_stride);
        TRY(gram_check_apart(g, "options.factor", o->factor, "a", s->a));
    }
    TRY(gram_check_apart(g, "options.factor", o->factor, "b", s->b));
    TRY(gram_check_apart(g, "options.factor", o->factor, "x", s->x));
    TRY(gram_view_of(g, &op->batch, "options.factor", o->factor, 2, GRAM_READ, f));
    op->has_factor = true;
    return GRAM_OK;
}

/* options.pivots, with a's batch: written by a factorisation, read with a factor. */
static gram_status view_pivots(gram_context *g, const struct solve_args *s,
                               const gram_solve_options *o, struct gram_solve_op *op)
{
    const gram_tensor *p = o->pivots;
    struct gram_batch own = {.count = 1};
    struct gram_view *v = &op->pivots;

    if (!s->lu && p)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.pivots is given, expected NULL, because Cholesky exchanges no "
                         "rows");
    if (!s->lu || (!p && !o->factor && !o->factored))
        return GRAM_OK;
    if (!p)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.pivots is NULL, expected a tensor, because options.%s is given",
                         o->factored ? "factored" : "factor");
    TRY(gram_batch_join(g, &own, "a", s->a, 2));
    TRY(gram_view_of(g, &own, "options.pivots", p, 1, o->factored ? GRAM_READ : GRAM_WRITE, v));
    TRY(gram_check_dtype(g, "options.pivots", p, GRAM_I32));
    if (v->cols != op->a.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.pivots has %lld elements per item, expected %lld",
                         (long long)v->cols, (long long)op->a.rows);
    TRY(gram_check_apart(g, "x", s->x, "options.pivots", p));
    TRY(gram_view_of(g, &op->batch, "options.pivots", p, 1, GRAM_READ, v));
    op->has_pivots = true;
    if (o->factored)
        return GRAM_OK;
    TRY(gram_check_apart(g, "options.pivots", p, "a", s->a));
    TRY(gram_check_apart(g, "options.pivots", p, "b", s->b));
    if (o->factor)
        TRY(gram_check_apart(g, "options.pivots", p, "options.factor", o->factor));
    return GRAM_OK;
}

static gram_status fail_option(gram_context *g, const char *name, const char *why)
{
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "options.%s is given, but it cannot be used here: %s", name, why);
}

/* An output of one number per item, of batch; apart from all that stands in the arguments. */
static gram_status view_number(gram_context *g, const struct solve_args *s,
                               const gram_solve_options *o, const struct gram_batch *batch,
                               struct number *n)
{
    if (!n->t)
        return GRAM_OK;
    TRY(gram_view_number(g, batch, n->name, n->t, n->dtype, n->view));
    TRY(gram_check_apart(g, n->name, n->t, "a", s->a));
    TRY(gram_check_apart(g, n->name, n->t, "b", s->b));
    TRY(gram_check_apart(g, n->name, n->t, "x", s->x));
    if (s->info)
        TRY(gram_check_apart(g, n->name, n->t, "info", s->info));
    if (o->factor)
        TRY(gram_check_apart(g, n->name, n->t, "options.factor", o->factor));
    if (o->pivots)
        TRY(gram_check_apart(g, n->name, n->t, "options.pivots", o->pivots));
    *n->has = true;
    return GRAM_OK;
}

static gram_status view_numbers(gram_context *g, const struct solve_args *s,
                                const gram_solve_options *o, struct gram_solve_op *op)
{
    struct number numbers[] = {
        {    "options.rcond",     o->rcond, s->a->dtype,  true,     &op->rcond,     &op->has_rcond},
        { "options.jittered",  o->jittered, s->a->dtype,  true,  &op->jittered,  &op->has_jittered},
        { "options.backward",  o->backward,    GRAM_F64, false,  &op->backward,  &op->has_backward},
        {"options.refinings", o->refinings,    GRAM_I32, false, &op->refinings, &op->has_refinings},
    };
    enum {
        COUNT = sizeof numbers / sizeof *numbers
    };
    struct gram_batch own = {.count = 1};

    TRY(gram_batch_join(g, &own, "a", s->a, 2));
    for (int i = 0; i < COUNT; i++)
        TRY(view_number(g, s, o, numbers[i].of_a ? &own : &op->batch, &numbers[i]));
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            if (numbers[i].t && numbers[j].t)
                TRY(gram_check_apart(g, numbers[i].name, numbers[i].t, numbers[j].name,
                                     numbers[j].t));
    for (int i = 0; i < COUNT; i++) /* along the joined batch, as a */
        if (numbers[i].t && numbers[i].of_a)
            TRY(gram_view_of(g, &op->batch, numbers[i].name, numbers[i].t, 0, GRAM_READ,
                             numbers[i].view));
    return GRAM_OK;
}

/* rcond, jitter and refine: whether they fit together. */
static gram_status check_extras(gram_context *g, const struct solve_args *s,
                                const gram_solve_options *o)
{
    if (s->lu && (o->jitters || o->jittered))
        return fail_option(g, o->jitters ? "jitters" : "jittered", "only Cholesky has it");
    if (o->jitters < 0 || (o->jitters > 0 && !o->jitter))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.jitters is %d and options.jitter is %s, expected a list of that "
                         "many numbers",
                         o->jitters, o->jitter ? "given" : "NULL");
    for (int i = 0; i < o->jitters; i++)
        if (!(o->jitter[i] >= (i > 0 ? o->jitter[i - 1] : 0)) || o->jitter[i] > DBL_MAX)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.jitter[%d] is %g, expected finite numbers of at least 0 in "
                             "ascending order",
                             i, o->jitter[i]);
    if (o->refine && s->a->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "a has dtype %s, expected f64 for options.refine",
                         gram_dtype_name(s->a->dtype));
    if (o->refine && (o->factor || o->pivots))
        return fail_option(g, o->factor ? "factor" : "pivots",
                           "with options.refine there is no factor in f64");
    if (!o->refine && (o->backward || o->refinings))
        return fail_option(g, o->backward ? "backward" : "refinings", "options.refine is not set");
    return GRAM_OK;
}

/* rcond, jitter and refine. */
static gram_status take_extras(gram_context *g, const struct solve_args *s,
                               const gram_solve_options *o, struct gram_solve_op *op)
{
    if (!o->rcond && !o->jitters && !o->jittered && !o->refine && !o->backward && !o->refinings)
        return GRAM_OK;
    TRY(check_extras(g, s, o));
    if (o->factored)
        return fail_option(g, "factored",
                           "options.rcond, jitter and refine need the matrix itself");
    op->jitter = o->jitter;
    op->jitters = o->jitters;
    op->refine = o->refine != 0;
    return view_numbers(g, s, o, op);
}

static gram_status view_info(gram_context *g, const struct solve_args *s,
                             const gram_solve_options *o, struct gram_solve_op *op)
{
    struct number info = {"info", s->info, GRAM_I32, false, &op->info, &op->has_info};
    struct solve_args others = *s;

    others.info = NULL; /* it overlaps itself */
    return view_number(g, &others, o, &op->batch, &info);
}

static gram_status describe(gram_context *g, const struct solve_args *s,
                            const gram_solve_options *given, struct gram_solve_op *op)
{
    gram_solve_options o = GRAM_SOLVE_OPTIONS_INIT;

    *op = (struct gram_solve_op){.batch.count = 1};
    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(gram_check_uplo(g, o.uplo));
    op->uplo = o.uplo;
    op->factored = o.factored != 0;
    TRY(view_system(g, s, op));
    TRY(view_factor(g, s, &o, op));
    TRY(view_pivots(g, s, &o, op));
    TRY(take_extras(g, s, &o, op));
    if (s->lu ? !g->backend->solve_lu : !g->backend->solve_cholesky)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return s->query ? GRAM_OK : view_info(g, s, &o, op);
}

gram_status gram_solve_cholesky(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                const gram_solve_options *options, gram_tensor *x,
                                gram_tensor *info)
{
    struct solve_args s = {.a = a, .b = b, .x = x, .info = info};
    struct gram_solve_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &s, options, &op));
    return g->backend->solve_cholesky(g, &op);
}

gram_status gram_solve_cholesky_workspace(gram_context *g, const gram_tensor *a,
                                          const gram_tensor *b, const gram_solve_options *options,
                                          const gram_tensor *x, gram_workspace *need)
{
    struct solve_args s = {.a = a, .b = b, .x = x, .query = true};
    struct gram_solve_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &s, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->solve_cholesky(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

gram_status gram_solve_lu(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                          const gram_solve_options *options, gram_tensor *x, gram_tensor *info)
{
    struct solve_args s = {.a = a, .b = b, .x = x, .info = info, .lu = true};
    struct gram_solve_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &s, options, &op));
    return g->backend->solve_lu(g, &op);
}

gram_status gram_solve_lu_workspace(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                    const gram_solve_options *options, const gram_tensor *x,
                                    gram_workspace *need)
{
    struct solve_args s = {.a = a, .b = b, .x = x, .lu = true, .query = true};
    struct gram_solve_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &s, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->solve_lu(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
