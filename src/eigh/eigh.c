/*
 * eigh.c - gram_eigh: checks the arguments, describes the work
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh.h"
#include "core/list.h"
#include "core/scratch.h"
#include <math.h>

/* What the call and the query are given. */
struct eigh_args {
    const gram_tensor *a, *values, *vectors, *info;
    bool query; /* only sizes are asked for; info is not known */
    gram_eigh_report *report;
};

static gram_status check_matrix(gram_context *g, const struct eigh_args *args,
                                struct gram_eigh_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "a", args->a, 2));
    TRY(gram_view_of(g, &op->batch, "a", args->a, 2, GRAM_READ, &op->a));
    TRY(gram_check_square(g, "a", args->a));
    return gram_check_real(g, "a", args->a);
}

/* The options that are numbers: the pairs that are asked for, and how many at most. */
static gram_status check_range(gram_context *g, const gram_eigh_options *o, struct gram_eigh_op *op)
{
    int64_t n = op->a.rows;

    op->count = o->select == GRAM_EIGH_ALL ? n : o->count;
    if (o->select == GRAM_EIGH_VALUE) {
        op->by_value = true;
        op->lower = o->lower;
        op->upper = o->upper;
        op->count = op->values.cols;
        if (!(o->lower < o->upper))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.lower is %g and options.upper is %g, expected lower < upper",
                             o->lower, o->upper);
        if (op->values.cols > n)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "values has %lld elements per item, expected at most %lld",
                             (long long)op->values.cols, (long long)n);
        return GRAM_OK;
    }
    if (op->count < 0 || op->count > n)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.count is %lld, expected 0 to %lld",
                         (long long)op->count, (long long)n);
    op->first = o->select == GRAM_EIGH_INDEX ? o->first : 0;
    if (o->select == GRAM_EIGH_LARGEST)
        op->first = n - op->count;
    if (op->first < 0 || op->first > n - op->count)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.first is %lld and options.count is %lld, expected a range "
                         "within 0 to %lld",
                         (long long)op->first, (long long)op->count, (long long)n);
    if (op->values.cols != op->count)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "values has %lld elements per item, expected %lld",
                         (long long)op->values.cols, (long long)op->count);
    return GRAM_OK;
}

static gram_status check_options(gram_context *g, const gram_eigh_options *o)
{
    TRY(gram_check_uplo(g, o->uplo));
    if (o->select < GRAM_EIGH_ALL || o->select > GRAM_EIGH_SMALLEST)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.select is %d, expected a gram_eigh_select", (int)o->select);
    if (o->driver < GRAM_EIGH_DRIVER_AUTO || o->driver > GRAM_EIGH_DRIVER_BATCHED)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.driver is %d, expected a gram_eigh_driver", (int)o->driver);
    TRY(gram_eigh_check_krylov(g, o));
    if ((o->select == GRAM_EIGH_VALUE) != (o->found != NULL))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         o->found
                             ? "options.found is given, expected NULL unless options.select is "
                               "GRAM_EIGH_VALUE"
                             : "options.found is NULL, expected a tensor, because options.select "
                               "is GRAM_EIGH_VALUE");
    return GRAM_OK;
}

/* values and vectors. */
static gram_status check_outputs(gram_context *g, const struct eigh_args *args,
                                 const gram_eigh_options *o, struct gram_eigh_op *op)
{
    TRY(gram_view_of(g, &op->batch, "values", args->values, 1, GRAM_WRITE, &op->values));
    TRY(gram_check_dtype(g, "values", args->values, args->a->dtype));
    TRY(check_range(g, o, op));
    TRY(gram_check_apart(g, "values", args->values, "a", args->a));
    if (!args->vectors)
        return GRAM_OK;
    op->has_vectors = true;
    op->in_place = gram_tensors_same(args->vectors, args->a);
    TRY(gram_view_of(g, &op->batch, "vectors", args->vectors, 2, GRAM_WRITE, &op->vectors));
    TRY(gram_check_dtype(g, "vectors", args->vectors, args->a->dtype));
    if (op->vectors.rows != op->a.rows || op->vectors.cols != op->values.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "vectors is %lld by %lld, expected %lld by %lld",
                         (long long)op->vectors.rows, (long long)op->vectors.cols,
                         (long long)op->a.rows, (long long)op->values.cols);
    if (!op->in_place)
        TRY(gram_check_apart(g, "vectors", args->vectors, "a", args->a));
    return gram_check_apart(g, "vectors", args->vectors, "values", args->values);
}

/* One number per item: info or options.found. */
static gram_status check_count(gram_context *g, const struct eigh_args *args, const char *name,
                               const gram_tensor *t, gram_dtype dtype, struct gram_eigh_op *op)
{
    TRY(gram_view_number(g, &op->batch, name, t, dtype,
                         dtype == GRAM_I32 ? &op->info : &op->found));
    TRY(gram_check_apart(g, name, t, "a", args->a));
    TRY(gram_check_apart(g, name, t, "values", args->values));
    return args->vectors ? gram_check_apart(g, name, t, "vectors", args->vectors) : GRAM_OK;
}

static gram_status describe(gram_context *g, const struct eigh_args *args,
                            const gram_eigh_options *given, struct gram_eigh_op *op)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;

    *op = (struct gram_eigh_op){.batch.count = 1};
    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(check_options(g, &o));
    op->uplo = o.uplo;
    gram_eigh_krylov(&o, args->report, op);
    TRY(check_matrix(g, args, op));
    TRY(check_outputs(g, args, &o, op));
    if (o.found) {
        TRY(check_count(g, args, "options.found", o.found, GRAM_I64, op));
        op->has_found = true;
    }
    if (!g->backend->eigh)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    if (op->driver == GRAM_EIGH_DRIVER_AUTO)
        op->tuned = gram_eigh_time_best(g, op);
    if (args->query || !args->info)
        return GRAM_OK;
    TRY(check_count(g, args, "info", args->info, GRAM_I32, op));
    op->has_info = true;
    return o.found ? gram_check_apart(g, "info", args->info, "options.found", o.found) : GRAM_OK;
}

gram_status gram_eigh(gram_context *g, const gram_tensor *a, const gram_eigh_options *options,
                      gram_tensor *values, gram_tensor *vectors, gram_tensor *info)
{
    gram_eigh_report report = {0};
    struct eigh_args args = {
        .a = a, .values = values, .vectors = vectors, .info = info, .report = &report};
    struct gram_eigh_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &args, options, &op));
    return gram_eigh_ended(g, g->backend->eigh(g, &op), options, &report);
}

gram_status gram_eigh_describe(gram_context *g, const struct gram_eigh_call *call,
                               struct gram_eigh_op *op)
{
    const struct eigh_args args = {
        .a = call->a,
        .values = call->values,
        .vectors = call->vectors,
        .info = call->info,
        .query = call->info == NULL,
    };

    return describe(g, &args, call->options, op);
}

gram_status gram_eigh_query(gram_context *g, const struct gram_eigh_call *call,
                            gram_plan_description *d)
{
    gram_eigh_report report = {0};
    struct gram_eigh_op op;
    size_t bytes;

    TRY(gram_eigh_describe(g, call, &op));
    op.report = &report;
    TRY(gram_measure(g, &bytes, g->backend->eigh(g, &op)));
    d->need = gram_workspace_on(g, bytes);
    d->driver = report.driver;
    d->time_source = gram_eigh_time(g, &op, d->driver, &d->seconds);
    return GRAM_OK;
}

gram_status gram_eigh_workspace(gram_context *g, const gram_tensor *a,
                                const gram_eigh_options *options, const gram_tensor *values,
                                const gram_tensor *vectors, gram_workspace *need)
{
    const struct gram_eigh_call call = {a, options, values, vectors, NULL};
    gram_plan_description d;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(gram_eigh_query(g, &call, &d));
    *need = d.need;
    return GRAM_OK;
}

gram_status gram_eigh_wait(gram_context *g)
{
    TRY(gram_begin(g, __func__));
    return g->backend->eigh_wait ? g->backend->eigh_wait(g) : GRAM_OK;
}

/* ---- Many matrices --------------------------------------------------------------------------- */

enum role {
    A,
    VALUES,
    VECTORS,
    INFO,
    FOUND
};

static gram_status run_member(gram_context *g, const struct gram_list_call *call,
                              gram_tensor *const t[GRAM_LIST_ROLES])
{
    gram_eigh_options options = *(const gram_eigh_options *)call->options;

    options.found = t[FOUND];
    return gram_eigh(g, t[A], &options, t[VALUES], t[VECTORS], t[INFO]);
}

gram_status gram_eigh_many(const gram_group *group, const gram_many *many,
                           const gram_tensor *const *a, const gram_eigh_options *options,
                           gram_tensor *const *values, gram_tensor *const *vectors,
                           gram_tensor *const *info)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    struct gram_list_call call;
    gram_context *first;

    TRY(gram_list_open(group, many, __func__, &call));
    first = call.group.contexts[0];
    TRY(gram_options_copy(first, &o, sizeof o, options));
    if (o.found || o.report)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "options.%s is given, expected NULL%s",
                         o.found ? "found" : "report", o.found ? " and a list in many.found" : "");
    if ((o.select == GRAM_EIGH_VALUE) != (call.many.found != NULL))
        return gram_fail(first, GRAM_INVALID_ARGUMENT,
                         call.many.found ? "many.found is given, expected NULL unless "
                                           "options.select is GRAM_EIGH_VALUE"
                                         : "many.found is NULL, expected a list of tensors, "
                                           "because options.select is GRAM_EIGH_VALUE");
    if (call.many.error)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many.error is given, expected NULL");
    o.background = 0;
    call.options = &o;
    call.run = run_member;
    call.roles = call.many.found ? FOUND + 1 : INFO + 1;
    call.role[A] = "a", call.list[A] = (gram_tensor *const *)a;
    call.role[VALUES] = "values", call.list[VALUES] = values;
    call.role[VECTORS] = "vectors", call.list[VECTORS] = vectors;
    call.role[INFO] = "info", call.list[INFO] = info;
    call.role[FOUND] = "many.found", call.list[FOUND] = call.many.found;
    call.optional[VECTORS] = call.optional[INFO] = true;
    return gram_list_run(&call);
}
