/*
 * wrapped_matmul.c - the wrappers of wrapped.c for matrix products
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

/* ---- gram_matmul_batched ------------------------------------------------------------------- */

gram_status __real_gram_matmul_batched(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                       const gram_matmul_options *options, gram_tensor *out);
gram_status __wrap_gram_matmul_batched(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                       const gram_matmul_options *options, gram_tensor *out);

static gram_status run_matmul_batched(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_matmul_batched(g, c->tensors[0], c->tensors[1], c->options, c->out);
}

static gram_status matmul_batched_workspace(gram_context *g, const struct wrapped_call *c,
                                            gram_workspace *need)
{
    return gram_matmul_batched_workspace(g, c->tensors[0], c->tensors[1], c->options, c->out, need);
}

gram_status __wrap_gram_matmul_batched(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                       const gram_matmul_options *options, gram_tensor *out)
{
    struct wrapped_call c = {.name = "gram_matmul_batched",
                             .run = run_matmul_batched,
                             .workspace = matmul_batched_workspace};

    c.tensors[0] = a, c.tensors[1] = b;
    c.options = options;
    c.out = out;
    add_output(&c, out);
    return wrapped_torture(g, &c);
}

/* ---- gram_syrk_ema ------------------------------------------------------------------------- */

gram_status __real_gram_syrk_ema(gram_context *g, const gram_tensor *x,
                                 const gram_syrk_ema_options *options, gram_tensor *l,
                                 gram_tensor *info);
gram_status __wrap_gram_syrk_ema(gram_context *g, const gram_tensor *x,
                                 const gram_syrk_ema_options *options, gram_tensor *l,
                                 gram_tensor *info);

static gram_status run_syrk_ema(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_syrk_ema(g, c->tensors[0], c->options, c->out, c->info);
}

static gram_status syrk_ema_workspace(gram_context *g, const struct wrapped_call *c,
                                      gram_workspace *need)
{
    return gram_syrk_ema_workspace(g, c->tensors[0], c->options, c->out, need);
}

gram_status __wrap_gram_syrk_ema(gram_context *g, const gram_tensor *x,
                                 const gram_syrk_ema_options *options, gram_tensor *l,
                                 gram_tensor *info)
{
    struct wrapped_call c = {
        .name = "gram_syrk_ema", .run = run_syrk_ema, .workspace = syrk_ema_workspace};

    c.tensors[0] = x;
    c.options = options;
    c.out = l, c.info = info;
    add_output(&c, l);
    add_output(&c, info);
    return wrapped_torture(g, &c);
}
// NOLINTEND(bugprone-reserved-identifier, readability-*)
