/*
 * krr_path.c - gram_krr_path: checks the arguments, describes the work
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/scratch.h"
#include <math.h>

enum {
    /* Up to here a factorisation for each is quicker than one eigendecomposition.  On two Zen 4
     * cores with 700 rows that was 12 ms for each and 63 ms, with 1,500 rows 99 ms and 610 ms. */
    FEW_RIDGES = 6,
    EIGH_ORDER = 32000, /* up to here LAPACK's 32-bit integers count syevd's workspace */
    MOST_TENSORS = 8
};

/* A tensor of the call, for messages. */
struct named {
    const char *name;
    const gram_tensor *t;
};

static gram_status check_options(gram_context *g, const gram_krr_path_options *o,
                                 struct gram_krr_path_op *op)
{
    TRY(gram_check_uplo(g, o->uplo));
    if (o->method < GRAM_KRR_PATH_AUTO || o->method > GRAM_KRR_PATH_CHOLESKY)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected a gram_krr_path_method", (int)o->method);
    if (o->intercept < GRAM_KRR_INTERCEPT_NONE || o->intercept > GRAM_KRR_INTERCEPT_FITTED)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.intercept is %d, expected a gram_krr_intercept",
                         (int)o->intercept);
    op->uplo = o->uplo;
    op->method = o->method;
    op->intercept = o->intercept;
    return GRAM_OK;
}

static gram_status check_ridges(gram_context *g, const double *ridges, int64_t count,
                                struct gram_krr_path_op *op)
{
    if (count < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "count is %lld, expected at least 0",
                         (long long)count);
    if (count > 0 && !ridges)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "ridges is NULL, expected %lld numbers",
                         (long long)count);
    for (int64_t t = 0; t < count; t++)
        if (!(ridges[t] >= 0 && ridges[t] < INFINITY))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "ridges[%lld] is %g, expected a finite number of at least 0",
                             (long long)t, ridges[t]);
    op->ridges = ridges;
    op->count = count;
    return GRAM_OK;
}

/* The matrix, the targets and the weights. */
static gram_status view_inputs(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                               const gram_tensor *weights, struct gram_krr_path_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "k", k, 2));
    TRY(gram_batch_join(g, &op->batch, "y", y, 2));
    if (weights)
        TRY(gram_batch_join(g, &op->batch, "options.weights", weights, 1));
    TRY(gram_view_of(g, &op->batch, "k", k, 2, GRAM_READ, &op->k));
    TRY(gram_check_square(g, "k", k));
    TRY(gram_check_real(g, "k", k));
    TRY(gram_view_of(g, &op->batch, "y", y, 2, GRAM_READ, &op->y));
    TRY(gram_check_dtype(g, "y", y, k->dtype));
    if (op->y.rows != op->k.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "y has %lld rows, expected %lld as k",
                         (long long)op->y.rows, (long long)op->k.rows);
    if (!weights)
        return GRAM_OK;
    op->has_weights = true;
    TRY(gram_view_of(g, &op->batch, "options.weights", weights, 1, GRAM_READ, &op->weights));
    TRY(gram_check_dtype(g, "options.weights", weights, k->dtype));
    if (op->weights.cols != op->k.rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.weights has %lld elements per item, expected %lld",
                         (long long)op->weights.cols, (long long)op->k.rows);
    return GRAM_OK;
}

/* An output of one number per ridge, row and column, or per ridge and column. */
static gram_status view_output(gram_context *g, const struct gram_krr_path_op *op,
                               const struct named *out, int core, struct gram_view *view)
{
    const int64_t n = op->k.rows, c = op->y.cols;

    TRY(gram_view_of(g, &op->batch, out->name, out->t, core, GRAM_WRITE, view));
    TRY(gram_check_dtype(g, out->name, out->t, op->k.dtype));
    if (core == 3 && (view->planes != op->count || view->rows != n || view->cols != c))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is %lld by %lld by %lld, expected %lld by %lld by %lld", out->name,
                         (long long)view->planes, (long long)view->rows, (long long)view->cols,
                         (long long)op->count, (long long)n, (long long)c);
    if (core == 2 && (view->rows != op->count || view->cols != c))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         out->name, (long long)view->rows, (long long)view->cols,
                         (long long)op->count, (long long)c);
    return GRAM_OK;
}

static gram_status view_outputs(gram_context *g, const gram_krr_path_options *o,
                                const gram_tensor *loo, struct gram_krr_path_op *op)
{
    const struct {
        struct named out;
        int core;
        struct gram_view *view;
        bool *has;
    } outputs[] = {
        {  {"options.error", o->error}, 2,  &op->error,  &op->has_error},
        {{"options.spread", o->spread}, 2, &op->spread, &op->has_spread},
        {  {"options.alpha", o->alpha}, 3,  &op->alpha,  &op->has_alpha},
        {{"options.offset", o->offset}, 2, &op->offset, &op->has_offset},
    };

    TRY(view_output(g, op, &(struct named){"loo", loo}, 3, &op->loo));
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        if (!outputs[i].out.t)
            continue;
        *outputs[i].has = true;
        TRY(view_output(g, op, &outputs[i].out, outputs[i].core, outputs[i].view));
    }
    return GRAM_OK;
}

/* No output overlaps an input or another output. */
static gram_status check_apart(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                               const gram_krr_path_options *o, const gram_tensor *loo,
                               const gram_tensor *info)
{
    const struct named all[MOST_TENSORS + 1] = {
        {              "k",          k},
        {              "y",          y},
        {"options.weights", o->weights},
        {            "loo",        loo},
        {  "options.error",   o->error},
        { "options.spread",  o->spread},
        {  "options.alpha",   o->alpha},
        { "options.offset",  o->offset},
        {           "info",       info},
    };

    for (int i = 3; i <= MOST_TENSORS; i++)
        for (int j = 0; j < i; j++)
            if (all[i].t && all[j].t)
                TRY(gram_check_apart(g, all[i].name, all[i].t, all[j].name, all[j].t));
    return GRAM_OK;
}

/* What the call and the query are given. */
struct path_args {
    const gram_tensor *k, *y, *loo, *info;
    const double *ridges;
    int64_t count;
};

static gram_status describe(gram_context *g, const struct path_args *args,
                            const gram_krr_path_options *given, struct gram_krr_path_op *op)
{
    gram_krr_path_options o = GRAM_KRR_PATH_OPTIONS_INIT;

    *op = (struct gram_krr_path_op){.batch.count = 1};
    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(check_options(g, &o, op));
    TRY(check_ridges(g, args->ridges, args->count, op));
    TRY(view_inputs(g, args->k, args->y, o.weights, op));
    TRY(view_outputs(g, &o, args->loo, op));
    if (args->info) {
        TRY(gram_view_number(g, &op->batch, "info", args->info, GRAM_I32, &op->info));
        op->has_info = true;
    }
    TRY(check_apart(g, args->k, args->y, &o, args->loo, args->info));
    if (!g->backend->krr_path)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    if (op->method == GRAM_KRR_PATH_AUTO)
        op->method = op->count <= FEW_RIDGES || op->k.rows > EIGH_ORDER ? GRAM_KRR_PATH_CHOLESKY
                                                                        : GRAM_KRR_PATH_EIGH;
    if (op->method == GRAM_KRR_PATH_EIGH && op->k.rows > EIGH_ORDER)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "k has %lld rows, but the eigendecomposition takes at most %d: choose "
                         "another options.method",
                         (long long)op->k.rows, EIGH_ORDER);
    return GRAM_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_krr_path(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                          const double *ridges, int64_t count, const gram_krr_path_options *options,
                          gram_tensor *loo, gram_tensor *info)
{
    const struct path_args args = {k, y, loo, info, ridges, count};
    struct gram_krr_path_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, options, &op));
    return g->backend->krr_path(g, &op);
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_krr_path_workspace(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                                    const double *ridges, int64_t count,
                                    const gram_krr_path_options *options, const gram_tensor *loo,
                                    gram_workspace *need)
{
    const struct path_args args = {k, y, loo, NULL, ridges, count};
    struct gram_krr_path_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->krr_path(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}
