/*
 * wrapped_krr_path.c - the wrapper before gram_krr_path
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

gram_status __real_gram_krr_path(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                                 const double *ridges, int64_t count,
                                 const gram_krr_path_options *options, gram_tensor *loo,
                                 gram_tensor *info);
gram_status __wrap_gram_krr_path(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                                 const double *ridges, int64_t count,
                                 const gram_krr_path_options *options, gram_tensor *loo,
                                 gram_tensor *info);

static gram_status run_path(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_krr_path(g, c->tensors[0], c->tensors[1], c->tensors[2], c->count,
                                c->options, c->out, c->info);
}

static gram_status path_workspace(gram_context *g, const struct wrapped_call *c,
                                  gram_workspace *need)
{
    return gram_krr_path_workspace(g, c->tensors[0], c->tensors[1], c->tensors[2], c->count,
                                   c->options, c->out, need);
}

gram_status __wrap_gram_krr_path(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                                 const double *ridges, int64_t count,
                                 const gram_krr_path_options *options, gram_tensor *loo,
                                 gram_tensor *info)
{
    struct wrapped_call c = {.name = "gram_krr_path", .run = run_path, .workspace = path_workspace};

    c.tensors[0] = k, c.tensors[1] = y, c.tensors[2] = ridges;
    c.count = count, c.options = options;
    c.out = loo, c.info = info;
    add_output(&c, loo);
    add_output(&c, info);
    if (options) {
        add_output(&c, options->error);
        add_output(&c, options->spread);
        add_output(&c, options->alpha);
        add_output(&c, options->offset);
    }
    return wrapped_torture(g, &c);
}

// NOLINTEND(bugprone-reserved-identifier, readability-*)
