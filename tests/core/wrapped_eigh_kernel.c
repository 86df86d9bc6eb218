/*
 * wrapped_eigh_kernel.c - the wrapper that --wrap puts before gram_eigh_kernel
 *
 * SPDX-License-Identifier: MIT
 */
#include "wrapped.h"

/* The linker's names: __wrap_ is called instead of the function, __real_ is the function. */
// NOLINTBEGIN(bugprone-reserved-identifier, readability-*)

gram_status __real_gram_eigh_kernel(gram_context *g, const gram_tensor *x,
                                    const gram_kernel_options *kernel,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info);
gram_status __wrap_gram_eigh_kernel(gram_context *g, const gram_tensor *x,
                                    const gram_kernel_options *kernel,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info);

static gram_status run_eigh_kernel(gram_context *g, const struct wrapped_call *c)
{
    return __real_gram_eigh_kernel(g, c->tensors[0], c->tensors[1], c->options, c->outputs[0],
                                   c->out, c->info);
}

static gram_status eigh_kernel_workspace(gram_context *g, const struct wrapped_call *c,
                                         gram_workspace *need)
{
    return gram_eigh_kernel_workspace(g, c->tensors[0], c->tensors[1], c->options, c->outputs[0],
                                      c->out, need);
}

gram_status __wrap_gram_eigh_kernel(gram_context *g, const gram_tensor *x,
                                    const gram_kernel_options *kernel,
                                    const gram_eigh_options *options, gram_tensor *values,
                                    gram_tensor *vectors, gram_tensor *info)
{
    struct wrapped_call c = {
        .name = "gram_eigh_kernel", .run = run_eigh_kernel, .workspace = eigh_kernel_workspace};

    c.tensors[0] = x, c.tensors[1] = kernel;
    c.options = options;
    c.out = vectors, c.info = info;
    add_output(&c, values);
    add_output(&c, vectors);
    if (info && values && is_info(info, values, 1))
        add_output(&c, info);
    return wrapped_torture(g, &c);
}
// NOLINTEND(bugprone-reserved-identifier, readability-*)
