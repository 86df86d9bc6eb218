/*
 * eigh_many.c - gram_eigh_many: eigenproblems of many matrices, shared by several contexts
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/many.h"

enum role {
    A,
    VALUES,
    VECTORS,
    INFO,
    FOUND
};

static gram_status run(gram_context *g, const struct gram_many_call *call,
                       gram_tensor *const t[GRAM_MANY_ROLES])
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
    struct gram_many_call call;
    gram_context *first;

    TRY(gram_many_open(group, many, __func__, &call));
    first = call.group.contexts[0];
    TRY(gram_options_copy(first, &o, sizeof o, options));
    if (o.found || o.report)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "options.%s is given, expected NULL%s",
                         o.found ? "found" : "report", o.found ? " and a list in many.found" : "");
    if ((o.select == GRAM_EIGH_VALUE) != (call.many.found != NULL))
        return gram_fail(first, GRAM_INVALID_ARGUMENT,
                         call.many.found ? "many.found is given, expected NULL unless "
                                           "options.select is GRAM_EIGH_VALUE"
                                         : "many.found is NULL, expected a list of tensors for "
                                           "GRAM_EIGH_VALUE");
    if (call.many.error)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many.error is given, expected NULL");
    o.background = 0;
    call.options = &o;
    call.run = run;
    call.roles = call.many.found ? FOUND + 1 : INFO + 1;
    call.role[A] = "a", call.list[A] = (gram_tensor *const *)a;
    call.role[VALUES] = "values", call.list[VALUES] = values;
    call.role[VECTORS] = "vectors", call.list[VECTORS] = vectors;
    call.role[INFO] = "info", call.list[INFO] = info;
    call.role[FOUND] = "many.found", call.list[FOUND] = call.many.found;
    call.optional[VECTORS] = call.optional[INFO] = true;
    return gram_many_run(&call);
}
