/*
 * matrix_power_many.c - gram_matrix_power_many: powers of many matrices, shared by several contexts
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/many.h"

enum role {
    A,
    OUT,
    INFO,
    ERROR
};

static gram_status run(gram_context *g, const struct gram_many_call *call,
                       gram_tensor *const t[GRAM_MANY_ROLES])
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
    struct gram_many_call call;
    gram_context *first;

    TRY(gram_many_open(group, many, __func__, &call));
    first = call.group.contexts[0];
    TRY(gram_options_copy(first, &o, sizeof o, options));
    if (o.error || o.ridge.tensor)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "options.%s is a tensor, expected %s",
                         o.error ? "error" : "ridge",
                         o.error ? "NULL and a list in many.error" : "a number");
    if (call.many.found)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many.found is given, expected NULL");
    call.options = &o;
    call.run = run;
    call.roles = ERROR + 1;
    call.role[A] = "a", call.list[A] = (gram_tensor *const *)a;
    call.role[OUT] = "out", call.list[OUT] = out;
    call.role[INFO] = "info", call.list[INFO] = info;
    call.role[ERROR] = "many.error", call.list[ERROR] = call.many.error;
    call.keeps[OUT] = o.keep != 0;
    call.optional[INFO] = call.optional[ERROR] = true;
    return gram_many_run(&call);
}
