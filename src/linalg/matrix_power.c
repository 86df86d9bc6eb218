/*
 * matrix_power.c - gram_matrix_power: checks the arguments, describes the work
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/list.h"
#include "core/scratch.h"
#include <float.h>
#include <math.h>

enum {
    MOST_DENOMINATOR = 64,
    DEFAULT_ITERATIONS = 100
};

static int common_factor(int a, int b)
{
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static gram_status check_method(gram_context *g, const struct gram_matrix_power_op *op)
{
    int q = op->denominator;

    if (op->method < GRAM_POWER_AUTO || op->method > GRAM_POWER_MINIMAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected one of gram_power_method",
                         (int)op->method);
    if (op->method == GRAM_POWER_NEWTON_SCHULZ && (q & (q - 1) || q == 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.denominator is %d, expected 2, 4, 8, 16, 32 or 64 with "
                         "GRAM_POWER_NEWTON_SCHULZ",
                         q);
    return GRAM_OK;
}

/* A power that no small fraction is; 0 is none. */
static gram_status take_real(gram_context *g, const gram_matrix_power_options *o,
                             struct gram_matrix_power_op *op)
{
    if (!isfinite(o->power) || o->numerator || o->denominator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.power is %g, options.numerator is %d and options.denominator is "
                         "%d, expected either a finite power or a fraction, not both",
                         o->power, o->numerator, o->denominator);
    op->numerator = o->power < 0 ? -1 : 1;
    op->denominator = 1;
    op->power = o->power;
    op->is_real = true;
    for (int q = 1; q <= MOST_DENOMINATOR && op->is_real; q++) {
        double k = round(o->power * q);
        if (k == 0 || fabs(k) > MOST_DENOMINATOR || k / q != o->power)
            continue;
        op->numerator = (int)k;
        op->denominator = q;
        op->is_real = false;
    }
    return GRAM_OK;
}

/* What eigenvalues alone can do. */
static gram_status check_eigenvalues(gram_context *g, const gram_matrix_power_options *o,
                                     struct gram_matrix_power_op *op)
{
    const char *name = o->floor > 0 ? "floor" : "power";

    if (!(o->floor >= 0 && o->floor <= 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.floor is %g, expected 0 to 1",
                         o->floor);
    op->floor = o->floor;
    if (!op->is_real && op->floor == 0)
        return GRAM_OK;
    if (op->method != GRAM_POWER_AUTO && op->method != GRAM_POWER_EIGH)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected GRAM_POWER_AUTO or GRAM_POWER_EIGH, "
                         "because options.%s is %g",
                         (int)op->method, name, o->floor > 0 ? o->floor : o->power);
    if (o->error || o->tolerance > 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.%s is given, but there is no estimate of the error when "
                         "options.%s is %g",
                         o->error ? "error" : "tolerance", name,
                         o->floor > 0 ? o->floor : o->power);
    op->method = GRAM_POWER_EIGH;
    return GRAM_OK;
}

static gram_status take_power(gram_context *g, const gram_matrix_power_options *o,
                              struct gram_matrix_power_op *op)
{
    bool chosen = o->numerator || o->denominator;
    int k = chosen ? o->numerator : -1, q = chosen ? o->denominator : 4, factor;

    op->method = o->method;
    if (o->power != 0) {
        TRY(take_real(g, o, op));
        return op->is_real ? GRAM_OK : check_method(g, op);
    }
    if (q < 1 || q > MOST_DENOMINATOR)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.denominator is %d, expected 1 to %d", q,
                         MOST_DENOMINATOR);
    if (k == 0 || k < -MOST_DENOMINATOR || k > MOST_DENOMINATOR)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.numerator is %d, expected -%d to %d, but not 0", k,
                         MOST_DENOMINATOR, MOST_DENOMINATOR);
    factor = common_factor(k < 0 ? -k : k, q);
    op->numerator = k / factor;
    op->denominator = q / factor;
    return check_method(g, op);
}

static gram_status take_numbers(gram_context *g, const gram_matrix_power_options *o,
                                struct gram_matrix_power_op *op)
{
    TRY(gram_check_uplo(g, o->uplo));
    if (!(o->condition == 0 || (o->condition >= 1 && o->condition < INFINITY)))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.condition is %g, expected a finite number of at least 1, or 0",
                         o->condition);
    if (!(o->tolerance >= 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.tolerance is %g, expected at least 0",
                         o->tolerance);
    if (o->iterations < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.iterations is %d, expected at least 0",
                         o->iterations);
    if (o->precision < GRAM_POWER_PRECISION_AUTO || o->precision > GRAM_POWER_PRECISION_TF32)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.precision is %d, expected one of gram_power_precision",
                         (int)o->precision);
    op->precision = o->precision;
    op->uplo = o->uplo;
    op->condition = o->condition;
    op->tolerance = o->tolerance > 0 ? o->tolerance : INFINITY;
    op->iterations = o->iterations ? o->iterations : DEFAULT_ITERATIONS;
    op->ridge_relative = o->ridge_relative != 0;
    op->keep = o->keep != 0;
    return GRAM_OK;
}

/* a, out and the ridge: their batch, views, shapes and dtypes. */
static gram_status view_matrices(gram_context *g, const gram_tensor *a, gram_scalar ridge,
                                 const gram_tensor *out, struct gram_matrix_power_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "a", a, 2));
    if (ridge.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.ridge", ridge.tensor, 0));
    TRY(gram_view_of(g, &op->batch, "a", a, 2, GRAM_READ, &op->a));
    TRY(gram_check_square(g, "a", a));
    TRY(gram_check_real(g, "a", a));
    if (a->dtype == GRAM_F64 && op->precision > GRAM_POWER_PRECISION_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.precision is %d, expected AUTO or F64 for a of dtype f64",
                         (int)op->precision);
    TRY(gram_hyper_of(g, &op->batch, "options.ridge", ridge, &op->ridge));
    TRY(gram_view_of(g, &op->batch, "out", out, 2, GRAM_WRITE, &op->out));
    TRY(gram_check_dtype(g, "out", out, a->dtype));
    if (op->out.rows != op->a.rows || op->out.cols != op->a.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is %lld by %lld, expected %lld by %lld",
                         (long long)op->out.rows, (long long)op->out.cols, (long long)op->a.rows,
                         (long long)op->a.cols);
    if (ridge.tensor)
        TRY(gram_check_apart(g, "out", out, "options.ridge", ridge.tensor));
    if (!gram_tensors_same(out, a))
        TRY(gram_check_apart(g, "out", out, "a", a));
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const gram_tensor *a,
                            const gram_matrix_power_options *given, const gram_tensor *out,
                            struct gram_matrix_power_op *op)
{
    gram_matrix_power_options o = GRAM_MATRIX_POWER_OPTIONS_INIT;

    *op = (struct gram_matrix_power_op){.batch.count = 1};
    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(take_power(g, &o, op));
    TRY(check_eigenvalues(g, &o, op));
    TRY(take_numbers(g, &o, op));
    TRY(view_matrices(g, a, o.ridge, out, op));
    if (o.error) {
        TRY(gram_view_number(g, &op->batch, "options.error", o.error, a->dtype, &op->error));
        TRY(gram_check_apart(g, "options.error", o.error, "a", a));
        TRY(gram_check_apart(g, "options.error", o.error, "out", out));
        if (o.ridge.tensor)
            TRY(gram_check_apart(g, "options.error", o.error, "options.ridge", o.ridge.tensor));
        op->has_error = true;
    }
    if (!g->backend->matrix_power)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

/* What only the call needs: the values of the ridges, and info. */
static gram_status describe_call(gram_context *g, const gram_tensor *a,
                                 const gram_matrix_power_options *options, const gram_tensor *out,
                                 const gram_tensor *info, struct gram_matrix_power_op *op)
{
    bool needs_ridge = op->method == GRAM_POWER_MINIMAX && op->condition == 0;

    TRY(gram_hyper_check(
        g, &op->batch, needs_ridge ? "options.ridge (without options.condition)" : "options.ridge",
        &op->ridge, 0, DBL_MAX, needs_ridge));
    if (!info)
        return GRAM_OK;
    TRY(gram_view_number(g, &op->batch, "info", info, GRAM_I32, &op->info));
    TRY(gram_check_apart(g, "info", info, "a", a));
    TRY(gram_check_apart(g, "info", info, "out", out));
    if (op->has_error)
        TRY(gram_check_apart(g, "info", info, "options.error", options->error));
    if (op->ridge.tensor.data)
        TRY(gram_check_apart(g, "info", info, "options.ridge", options->ridge.tensor));
    op->has_info = true;
    return GRAM_OK;
}

gram_status gram_matrix_power(gram_context *g, const gram_tensor *a,
                              const gram_matrix_power_options *options, gram_tensor *out,
                              gram_tensor *info)
{
    struct gram_matrix_power_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, a, options, out, &op));
    TRY(describe_call(g, a, options, out, info, &op));
    return g->backend->matrix_power(g, &op);
}

gram_status gram_matrix_power_workspace(gram_context *g, const gram_tensor *a,
                                        const gram_matrix_power_options *options,
                                        const gram_tensor *out, gram_workspace *need)
{
    struct gram_matrix_power_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, a, options, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->matrix_power(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* ---- Many matrices --------------------------------------------------------------------------- */

enum role {
    A,
    OUT,
    INFO,
    ERROR
};

static gram_status run_member(gram_context *g, const struct gram_list_call *call,
                              gram_tensor *const t[GRAM_LIST_ROLES])
{
    gram_matrix_power_options options = *(const gram_matrix_power_options *)call->options;

    options.error = t[ERROR];
    return gram_matrix_power(g, t[A], &options, t[OUT], t[INFO]);
}

gram_status gram_matrix_power_many(const gram_group *group, const gram_many *many,
                                   const gram_tensor *const *a,
                                   const gram_matrix_power_options *options,
                                   gram_tensor *const *out, gram_tensor *const *info)
{
    gram_matrix_power_options o = GRAM_MATRIX_POWER_OPTIONS_INIT;
    struct gram_list_call call;
    gram_context *first;

    TRY(gram_list_open(group, many, __func__, &call));
    first = call.group.contexts[0];
    TRY(gram_options_copy(first, &o, sizeof o, options));
    if (o.error || o.ridge.tensor)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "options.%s is a tensor, expected %s",
                         o.error ? "error" : "ridge",
                         o.error ? "NULL and a list in many.error" : "a number");
    if (call.many.found)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many.found is given, expected NULL");
    call.options = &o;
    call.run = run_member;
    call.roles = ERROR + 1;
    call.role[A] = "a", call.list[A] = (gram_tensor *const *)a;
    call.role[OUT] = "out", call.list[OUT] = out;
    call.role[INFO] = "info", call.list[INFO] = info;
    call.role[ERROR] = "many.error", call.list[ERROR] = call.many.error;
    call.keeps[OUT] = o.keep != 0;
    call.optional[INFO] = call.optional[ERROR] = true;
    return gram_list_run(&call);
}
