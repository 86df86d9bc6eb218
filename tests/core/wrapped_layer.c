/*
 * wrapped_layer.c - the wrappers of wrapped.c for layers of networks
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

gram_status __real_gram_sample_grad(gram_context *g, const gram_layer *layer,
                                    const gram_tensor *activations, const gram_tensor *gradients,
                                    const gram_sample_grad_options *options,
                                    const gram_sample_grads *out);
gram_status __wrap_gram_sample_grad(gram_context *g, const gram_layer *layer,
                                    const gram_tensor *activations, const gram_tensor *gradients,
                                    const gram_sample_grad_options *options,
                                    const gram_sample_grads *out);
gram_status __real_gram_kfac_factors(gram_context *g, const gram_layer *layer,
                                     const gram_tensor *activations, const gram_tensor *gradients,
                                     const gram_kfac_factors_options *options,
                                     gram_tensor *a_factor, gram_tensor *b_factor);
gram_status __wrap_gram_kfac_factors(gram_context *g, const gram_layer *layer,
                                     const gram_tensor *activations, const gram_tensor *gradients,
                                     const gram_kfac_factors_options *options,
                                     gram_tensor *a_factor, gram_tensor *b_factor);

static gram_status run_sample(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_sample_grad(g, c->tensors[0], c->tensors[1], c->tensors[2], c->options,
                                   c->tensors[3]);
}

static gram_status sample_workspace(gram_context *g, const struct wrapped_call *c,
                                    gram_workspace *need)
{
    return gram_sample_grad_workspace(g, c->tensors[0], c->tensors[1], c->tensors[2], c->options,
                                      c->tensors[3], need);
}

gram_status __wrap_gram_sample_grad(gram_context *g, const gram_layer *layer,
                                    const gram_tensor *activations, const gram_tensor *gradients,
                                    const gram_sample_grad_options *options,
                                    const gram_sample_grads *out)
{
    struct wrapped_call c = {
        .name = "gram_sample_grad", .run = run_sample, .workspace = sample_workspace};

    c.tensors[0] = layer, c.tensors[1] = activations, c.tensors[2] = gradients;
    c.tensors[3] = out, c.options = options;
    add_output(&c, out->weight);
    add_output(&c, out->bias);
    add_output(&c, out->norms);
    add_output(&c, out->sum_weight);
    add_output(&c, out->sum_bias);
    c.out = c.outputs[0];
    return wrapped_torture(g, &c);
}

static gram_status run_factors(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_kfac_factors(g, c->tensors[0], c->tensors[1], c->tensors[2], c->options,
                                    c->out, c->info);
}

static gram_status factors_workspace(gram_context *g, const struct wrapped_call *c,
                                     gram_workspace *need)
{
    return gram_kfac_factors_workspace(g, c->tensors[0], c->tensors[1], c->tensors[2], c->options,
                                       c->out, c->info, need);
}

gram_status __wrap_gram_kfac_factors(gram_context *g, const gram_layer *layer,
                                     const gram_tensor *activations, const gram_tensor *gradients,
                                     const gram_kfac_factors_options *options,
                                     gram_tensor *a_factor, gram_tensor *b_factor)
{
    struct wrapped_call c = {
        .name = "gram_kfac_factors", .run = run_factors, .workspace = factors_workspace};

    c.tensors[0] = layer, c.tensors[1] = activations, c.tensors[2] = gradients;
    c.options = options, c.out = a_factor, c.info = b_factor;
    add_output(&c, a_factor);
    add_output(&c, b_factor);
    return wrapped_torture(g, &c);
}
// NOLINTEND(bugprone-reserved-identifier, readability-*)
