/*
 * tune.c - gram_tune: which way of computing a kernel matrix is fastest here
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <string.h>

gram_status gram_tune(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                      const gram_kernel_options *options, gram_tensor *out, gram_tuning *result)
{
    const struct gram_pair pair = {.x = x, .y = y, .out = out};
    const size_t size = result ? result->size : 0;
    gram_tuning found = {.size = size};
    struct gram_expression expression;
    struct gram_cdist_op op;

    TRY(gram_begin(g, __func__));
    if (size < sizeof size || size > sizeof found)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "result.size is %zu, expected at most %zu", size,
                         sizeof found);
    TRY(gram_kernel_describe(g, &pair, options, &expression, &op));
    if (!g->backend->tune)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has nothing to tune", g->backend->name);
    TRY(g->backend->tune(g, &op, &found));
    memcpy(result, &found, size);
    return GRAM_OK;
}
