/*
 * wrapped_power.c - the wrapper of wrapped.c for powers of matrices
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

gram_status __real_gram_matrix_power(gram_context *g, const gram_tensor *a,
                                     const gram_matrix_power_options *options, gram_tensor *out,
                                     gram_tensor *info);
gram_status __wrap_gram_matrix_power(gram_context *g, const gram_tensor *a,
                                     const gram_matrix_power_options *options, gram_tensor *out,
                                     gram_tensor *info);

static gram_status run_power(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_matrix_power(g, c->tensors[0], c->options, c->out, c->info);
}

static gram_status power_workspace(gram_context *g, const struct wrapped_call *c,
                                   gram_workspace *need)
{
    return gram_matrix_power_workspace(g, c->tensors[0], c->options, c->out, need);
}

gram_status __wrap_gram_matrix_power(gram_context *g, const gram_tensor *a,
                                     const gram_matrix_power_options *options, gram_tensor *out,
                                     gram_tensor *info)
{
    struct wrapped_call c = {
        .name = "gram_matrix_power", .run = run_power, .workspace = power_workspace};

    c.tensors[0] = a, c.options = options;
    c.out = out, c.info = info;
    add_output(&c, out);
    if (options)
        add_output(&c, options->error);
    if (info && out && is_info(info, out, 2))
        add_output(&c, info);
    return wrapped_torture(g, &c);
}
// NOLINTEND(bugprone-reserved-identifier, readability-*)
